// Messages in memory that is used again: borrowed requests and messages of streams, and answers in
// a buffer of the caller's. Memory that is no longer valid is filled, so that a view that is read
// too late is seen.
import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import type { Channel } from '../../src/rpc/channels/channel.ts';
import { toReadable } from '../../src/rpc/channels/node-streams.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import {
  bidi,
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from '../../src/rpc/contract/service.ts';
import { collect, until } from '../support/contract.ts';
import { lanes, type Pair } from '../support/pairs.ts';
import { Random } from '../support/random.ts';

vi.hoisted(() => {
  process.env.SIDECALL_FILL_RETURNED = '1';
});

const { borrowed } = bytes;
const Store = service('Store', {
  same: unary({ request: borrowed, response: borrowed }),
  later: unary({ request: borrowed, response: bytes }),
  keep: unary({ request: borrowed, response: bytes }),
  fail: unary({ request: borrowed, response: bytes }),
  note: notification({ request: borrowed }),
  drip: serverStream({ request: borrowed, response: borrowed }),
  pour: clientStream<Uint8Array, number>({ request: borrowed }),
  echo: bidi({ request: borrowed, response: borrowed }),
  part: unary({ request: borrowed, response: bytes }),
  first: clientStream({ request: borrowed, response: bytes }),
  text: unary<string, string>(),
});
const filled = 0xa5;
const sizes = [0, 1, 1_023, 1_024, 5_000, 16_384, 65_535, 70_000, 300_000, 1_500_000];
const pattern = (size: number, seed: number): Buffer => Buffer.alloc(size, `${seed}-pattern`);
const isAll = (view: Uint8Array, value: number): boolean => view.every((byte) => byte === value);
const kept: Uint8Array[] = [];

function serve(pair: Pair): void {
  pair.far.serve(Store, {
    same: (request) => request,
    later: async (request) => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      return Buffer.from(request);
    },
    keep: (request) => {
      kept.push(request);
      return new Uint8Array(1);
    },
    fail: (request) => {
      kept.push(request);
      throw new Error('on purpose');
    },
    note: (request) => void kept.push(request),
    async *drip(request) {
      for (let at = 0; at < 20; at += 1) yield request;
    },
    async pour(messages) {
      let sum = 0;
      for await (const message of messages) {
        kept.push(message);
        sum += message[0] ?? 0;
        await new Promise((resolve) => setImmediate(resolve));
      }
      return sum;
    },
    async *echo(messages) {
      yield* messages;
    },
    part: (request) => {
      kept.push(request);
      return request.subarray(100, 70_100);
    },
    async first(messages) {
      for await (const message of messages) return message;
      return new Uint8Array(0);
    },
    text: (text) => text,
  });
}

const limits = { near: { receiveMaxBytes: 2 ** 22 }, far: { receiveMaxBytes: 2 ** 22 } };

describe.each(lanes)('borrowed bytes over the $lane', ({ openPair }) => {
  it('are whole while a handler reads them, at every size and many at once', async () => {
    await using pair = await openPair(limits);
    serve(pair);
    const client = pair.near.client(Store);
    for (const method of ['same', 'later'] as const) {
      const calls = Array.from({ length: 64 }, async (_, at) => {
        const sent = pattern(sizes[at % sizes.length] as number, at);
        expect(Buffer.compare(await client[method](sent), sent)).toBe(0);
      });
      await Promise.all(calls);
    }
  });

  it.each(['keep', 'fail'] as const)(
    'are valid until the handler has settled (%s)',
    async (method) => {
      await using pair = await openPair(limits);
      serve(pair);
      const client = pair.near.client(Store);
      for (const size of [2_000, 20_000, 200_000]) {
        kept.length = 0;
        await client[method](pattern(size, 1)).catch(() => undefined);
        expect(kept[0]).toHaveLength(size);
        expect(isAll(kept[0] as Uint8Array, filled)).toBe(true);
      }
      kept.length = 0;
      await client.note(pattern(20_000, 1));
      await until(() => kept.length === 1 && isAll(kept[0] as Uint8Array, filled));
    },
  );

  it('of one call after the other lie in the same memory', async () => {
    await using pair = await openPair(limits);
    serve(pair);
    const client = pair.near.client(Store);
    kept.length = 0;
    for (let call = 0; call < 50; call += 1) await client.keep(pattern(100_000, call));
    expect(new Set(kept.map(({ buffer }) => buffer)).size).toBe(1);
  });

  it('of a stream are valid until the next one is taken', async () => {
    await using pair = await openPair(limits);
    serve(pair);
    kept.length = 0;
    const call = pair.near.client(Store).pour();
    let sum = 0;
    for (let at = 0; at < 50; at += 1) {
      const message = Buffer.alloc(30_000, at + 1);
      sum += at + 1;
      await call.send(message);
    }
    expect(await call.end()).toBe(sum);
    expect(kept).toHaveLength(50);
    await until(() => isAll(kept.at(-1) as Uint8Array, filled));
    expect(new Set(kept.map(({ buffer }) => buffer)).size).toBeLessThan(40);
  });

  it('of a stream are not held while the reader waits for the next one', async () => {
    await using pair = await openPair(limits);
    const [arrived] = await Promise.all([
      pair.far.channels(borrowed, { name: 'idle' })[Symbol.asyncIterator]().next(),
      pair.near.openChannel(bytes, { name: 'idle' }).send(Buffer.alloc(100_000, 1)),
    ]);
    const channel = arrived.value as Channel<Uint8Array>;
    const message = (await channel.next()).value as Uint8Array;
    expect(isAll(message, 1)).toBe(true);
    const waiting = channel.next();
    expect(isAll(message, filled)).toBe(true);
    channel.cancel(new Error('enough'));
    await waiting.catch(() => undefined);
  });

  it('of a stream come back as they were sent, at every size', async () => {
    await using pair = await openPair(limits);
    serve(pair);
    const client = pair.near.client(Store);
    const call = client.echo();
    const sending = (async () => {
      for (let at = 0; at < 60; at += 1)
        await call.send(pattern(sizes[at % sizes.length] as number, at));
      await call.end();
    })();
    let at = 0;
    for await (const message of call) {
      const expected = pattern(sizes[at % sizes.length] as number, at);
      expect(Buffer.compare(message, expected)).toBe(0);
      at += 1;
    }
    await sending;
    expect(at).toBe(60);
    const request = pattern(100_000, 3);
    const dripped: number[] = [];
    for await (const message of client.drip(request))
      dripped.push(Buffer.compare(message, request));
    expect(dripped).toEqual(Array.from({ length: 20 }, () => 0));
  });

  it('may be a part of their answer, or a message that ended the reading', async () => {
    await using pair = await openPair(limits);
    serve(pair);
    const client = pair.near.client(Store);
    kept.length = 0;
    const sent = pattern(900_000, 4);
    const part = await client.part(sent);
    expect(Buffer.compare(part, sent.subarray(100, 70_100))).toBe(0);
    expect(isAll(kept[0] as Uint8Array, filled)).toBe(true);
    for (let round = 0; round < 5; round += 1) {
      const call = client.first();
      const message = pattern(1_200_000, round);
      await call.send(message);
      await call.send(pattern(1_200_000, 9)).catch(() => undefined);
      const answer = await call.end();
      expect(Buffer.compare(answer, message)).toBe(0);
    }
  });

  it('are copied for streams that read ahead', async () => {
    await using pair = await openPair(limits);
    serve(pair);
    const seen: Uint8Array[] = [];
    const slow = new Writable({
      objectMode: true,
      highWaterMark: 8,
      write: (message, _encoding, then) => {
        seen.push(message);
        setTimeout(then, 2);
      },
    });
    const call = pair.near.client(Store).echo();
    const sending = (async () => {
      for (let at = 0; at < 20; at += 1) await call.send(pattern(50_000, at));
      await call.end();
    })();
    await pipeline(toReadable(call), slow);
    await sending;
    expect(seen.map((message, at) => Buffer.compare(message, pattern(50_000, at)))).toEqual(
      Array.from({ length: 20 }, () => 0),
    );
  });

  it('are sent on whole, where a send is given up half-way', async () => {
    await using pair = await openPair(limits);
    serve(pair);
    const to = pair.near.openChannel(bytes, { name: 'to' });
    const outlet = (await pair.far.channels(bytes, { name: 'to' })[Symbol.asyncIterator]().next())
      .value as Channel<Uint8Array>;
    const source = pair.near.client(Store).drip(pattern(1_000_000, 1));
    const received: number[] = [];
    const reading = (async () => {
      for await (const message of outlet) {
        received.push(Buffer.compare(message, pattern(1_000_000, 1)));
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    })();
    let givenUp = 0;
    for await (const message of source) {
      await to.send(message, { timeoutMs: 5 }).catch(() => {
        givenUp += 1;
      });
    }
    await to.end();
    await reading;
    expect(givenUp).toBeGreaterThan(0);
    expect(received).toEqual(received.map(() => 0));
  });

  it('are sent on by the handler of a notification, however long that waits', async () => {
    const small = { receiveMaxBytes: 2 ** 20, streamWindowBytes: 16_384 };
    await using pair = await openPair({ near: small, far: small });
    const Back = service('Back', { back: notification({ request: bytes }) });
    const Relay = service('Relay', { on: notification({ request: borrowed }) });
    pair.far.serve(Relay, { on: (request) => pair.far.client(Back).back(request) });
    const seen: Uint8Array[] = [];
    pair.near.serve(Back, {
      back: async (message) => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        seen.push(message);
      },
    });
    const { on } = pair.near.client(Relay);
    await Promise.all(Array.from({ length: 40 }, (_, at) => on(pattern(100_000, at))));
    await until(() => seen.length === 40);
    expect(seen.map((message, at) => Buffer.compare(message, pattern(100_000, at)))).toEqual(
      Array.from({ length: 40 }, () => 0),
    );
  });

  it('survive random calls, cancels and ends', async () => {
    const random = Random.fromEnvironment();
    await using pair = await openPair(limits);
    serve(pair);
    const client = pair.near.client(Store);
    await Promise.all(
      Array.from({ length: 300 }, async (_, at) => {
        const sent = pattern(random.next(200_000), at);
        const signal = random.next(4) === 0 ? AbortSignal.timeout(random.next(20)) : undefined;
        const method = random.next(2) === 0 ? 'same' : 'later';
        const answer = await client[method](sent, { signal }).catch(() => undefined);
        if (answer !== undefined) expect(Buffer.compare(answer, sent)).toBe(0);
      }),
    );
  });

  it('answers lie in the buffer that the caller gives', async () => {
    await using pair = await openPair(limits);
    serve(pair);
    const client = pair.near.client(Store);
    const into = Buffer.alloc(400_000);
    for (const size of sizes) {
      const sent = pattern(size, 5);
      const answer = await client.same(sent, { into });
      expect(Buffer.compare(answer, sent)).toBe(0);
      expect(answer.buffer === into.buffer).toBe(size <= into.byteLength);
    }
    const plain = new Uint8Array(1_000).subarray(100, 900);
    const answer = await client.later(pattern(300, 6), { into: plain });
    expect([answer.byteOffset, answer.byteLength]).toEqual([100, 300]);
    await expect(client.text('x', { into } as never)).rejects.toThrow('one answer in bytes');
    const dripped = async () => await collect(client.drip(pattern(1, 1), { into } as never));
    await expect(dripped()).rejects.toThrow('one answer in bytes');
  });

  it('a call that was given up writes nothing into the buffer any more', async () => {
    await using pair = await openPair(limits);
    serve(pair);
    const client = pair.near.client(Store);
    for (let round = 0; round < 30; round += 1) {
      const into = Buffer.alloc(1_500_000);
      const controller = new AbortController();
      const call = client.same(Buffer.alloc(1_500_000, 1), { into, signal: controller.signal });
      const outcome = call.then(
        () => 'answered',
        () => 'given up',
      );
      for (let turn = 0; turn < round; turn += 1) await new Promise((done) => setImmediate(done));
      controller.abort();
      if ((await outcome) === 'answered') continue;
      into.fill(7);
      await client.same(Buffer.alloc(1));
      await new Promise((done) => setTimeout(done, 5));
      expect(isAll(into, 7)).toBe(true);
    }
  });
});

describe('borrowed bytes', () => {
  beforeAll(() => {
    expect(process.env.SIDECALL_FILL_RETURNED).toBe('1');
  });

  it('are filled once they are returned, which other tests do not do', async () => {
    const { takeBuffer, giveBuffer } = await import('../../src/base/buffer-pool.ts');
    const memory = takeBuffer(2_048).fill(1);
    giveBuffer(memory);
    expect(isAll(memory, filled)).toBe(true);
  });
});
