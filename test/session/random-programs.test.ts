// Random sessions against a model: the messages that arrive equal the array of those sent. A run
// prints its seed; SIDECALL_SEED=… replays it.
import { describe, expect, it } from 'vitest';
import type { SidecallError } from '../../src/base/errors.ts';
import type { Channel } from '../../src/rpc/channels/channel.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import {
  bidi,
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from '../../src/rpc/contract/service.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { turns, until } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';
import { Random } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';

const seconds = rounds(60, 2);

const World = service('World', {
  same: unary({ request: bytes, response: bytes }),
  repeat: serverStream<{ sizes: number[]; pause: number; fail: boolean }, Uint8Array>({
    response: bytes,
  }),
  measure: clientStream<Uint8Array, number[]>({ request: bytes }),
  mirror: bidi({ request: bytes, response: bytes }),
  note: notification({ request: bytes }),
});

/** A message of which every byte tells its length and number. */
function messageOf(size: number, number: number): Uint8Array {
  return new Uint8Array(size).fill((size * 31 + number) & 0xff);
}

function check(message: Uint8Array, size: number, number: number): void {
  expect(message.byteLength).toBe(size);
  const wanted = (size * 31 + number) & 0xff;
  // The ends and the middle: a shift or a mix-up shows there.
  for (const at of [0, size >> 1, size - 1]) if (size > 0) expect(message[at]).toBe(wanted);
}

class Side {
  readonly #random: Random;
  readonly #session: Session;
  readonly noted: number[] = [];

  constructor(random: Random, session: Session) {
    this.#random = random;
    this.#session = session;
    const { noted } = this;
    session.serve(World, {
      same: async (message) => {
        if (random.chance(30)) await turns(random.next(3));
        return message;
      },
      async *repeat({ sizes, pause, fail }) {
        for (const [number, size] of sizes.entries()) {
          if (pause > 0) await turns(pause);
          yield messageOf(size, number);
        }
        if (fail) throw new Error('as asked');
      },
      async measure(messages) {
        const sizes: number[] = [];
        for await (const message of messages) {
          check(message, message.byteLength, sizes.length);
          sizes.push(message.byteLength);
          if (random.chance(10)) await turns(1);
        }
        return sizes;
      },
      async *mirror(messages) {
        for await (const message of messages) yield message;
      },
      note: async (message) => {
        noted.push(message.byteLength);
        if (random.chance(20)) await turns(1);
      },
    });
    void this.#echoChannels();
  }

  /** One thing that a user might do; it checks what comes of it. */
  async act(): Promise<void> {
    const random = this.#random;
    const client = this.#session.client(World);
    const sizes = Array.from({ length: random.next(12) }, () => this.#size());
    switch (random.next(8)) {
      case 0: {
        const size = this.#size();
        check(await client.same(messageOf(size, 1)), size, 1);
        return;
      }
      case 1: {
        const fail = random.chance(20);
        const got: number[] = [];
        const stream = client.repeat({ sizes, pause: random.next(3), fail });
        const most = random.chance(30) ? random.next(sizes.length + 1) : sizes.length + 1;
        const failure = await (async () => {
          for await (const message of stream) {
            if (got.length >= most) break;
            check(message, sizes[got.length] as number, got.length);
            got.push(message.byteLength);
            if (random.chance(10)) await turns(2);
          }
        })().catch((error: unknown) => error);
        if (got.length < sizes.length) expect(got.length).toBe(most);
        else expect(got).toEqual(sizes);
        if (failure !== undefined) expect(failure).toMatchObject({ status: 'internal' });
        return;
      }
      case 2: {
        const call = client.measure();
        const sends: Promise<void>[] = [];
        for (const [number, size] of sizes.entries()) {
          const sent = call.send(messageOf(size, number));
          if (random.chance(50)) await sent;
          else sends.push(sent);
        }
        expect(await call.end()).toEqual(sizes);
        await Promise.all(sends);
        return;
      }
      case 3: {
        const got: number[] = [];
        const requests = sizes.map((size, number) => messageOf(size, number));
        for await (const message of client.mirror(requests)) {
          check(message, sizes[got.length] as number, got.length);
          got.push(message.byteLength);
        }
        expect(got).toEqual(sizes);
        return;
      }
      case 4:
        for (const size of sizes) await client.note(new Uint8Array(size % 500));
        return;
      case 5: {
        const channel = this.#session.openChannel(bytes, { name: 'mirror' });
        const sending = (async () => {
          for (const [number, size] of sizes.entries()) await channel.send(messageOf(size, number));
          await channel.end();
        })();
        const got: number[] = [];
        for await (const message of channel) {
          check(message, sizes[got.length] as number, got.length);
          got.push(message.byteLength);
        }
        expect(got).toEqual(sizes);
        await sending;
        await channel.closed;
        return;
      }
      case 6: {
        // Given up at a moment of its own.
        const stop = new AbortController();
        const call = client.mirror({ signal: stop.signal });
        const sent = Promise.allSettled(
          sizes.map((size, number) => call.send(messageOf(size, number))),
        );
        await turns(random.next(6));
        stop.abort(new Error('given up'));
        await expect(
          (async () => {
            for await (const message of call) void message;
          })(),
        ).rejects.toThrow('given up');
        await sent;
        return;
      }
      default: {
        const timeoutMs = 1 + random.next(4);
        const outcome = await client
          .repeat({ sizes: [1, 2], pause: 50, fail: false }, { timeoutMs })
          .next()
          .then(
            () => 'in time',
            (error: SidecallError) => error.code,
          );
        expect(['in time', 'ERR_SIDECALL_DEADLINE_EXCEEDED']).toContain(outcome);
      }
    }
  }

  #size(): number {
    return this.#random.pick([
      0, 1, 63, 64, 100, 1000, 4096, 16_384, 16_385, 65_536, 65_537, 200_000,
    ]);
  }

  async #echoChannels(): Promise<void> {
    for await (const channel of this.#session.channels(bytes, { name: 'mirror' })) {
      void this.#echo(channel).catch(() => undefined);
    }
  }

  async #echo(channel: Channel<Uint8Array>): Promise<void> {
    for await (const message of channel) await channel.send(message);
    await channel.end();
  }
}

describe.each(lanes)("random sessions over the '$lane'", ({ openPair }) => {
  it('keep to the model: nothing lost, doubled or mixed up, nothing left behind', async () => {
    const random = Random.fromEnvironment();
    console.log(`random sessions: SIDECALL_SEED=${random.seed}, ${seconds} s`);
    const until_ = performance.now() + seconds * 1000;
    let acts = 0;
    while (performance.now() < until_) {
      const small = random.chance(50);
      const limits = small
        ? {
            streamWindowBytes: 16_384,
            receiveMaxBytes: 262_144,
            streamsMax: 256,
            sendQueueMaxBytes: 65_536,
          }
        : {};
      await using pair = await openPair({ near: limits, far: random.chance(50) ? limits : {} });
      const sides = [new Side(random, pair.near), new Side(random, pair.far)];
      for (let round = 0; round < 20; round += 1) {
        const together = Array.from({ length: 1 + random.next(24) }, () =>
          random.pick(sides).act(),
        );
        acts += together.length;
        await Promise.all(together);
      }
      await until(() =>
        [pair.near, pair.far].every((session) => {
          const { calls, handlers, queuedBytes } = session.stats();
          return calls.open + calls.waiting + handlers.running + queuedBytes === 0;
        }),
      );
      // Every byte of credit came back: a window's worth still goes at once.
      const size = small ? 16_000 : 200_000;
      const again = Array.from({ length: 40 }, (_, at) =>
        pair.near.client(World).same(messageOf(size, at)),
      );
      (await Promise.all(again)).forEach((message, at) => {
        check(message, size, at);
      });
    }
    console.log(`random sessions: ${acts} acts`);
    expect(acts).toBeGreaterThan(50);
  });
});
