// How long after its cause a deadline, a cancel, an error or a death is told: in virtual time, so
// that no load of the machine counts.
import { describe, expect, it } from 'vitest';
import { RpcError } from '../../src/base/errors.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { clientStream, serverStream, service, unary } from '../../src/rpc/contract/service.ts';
import { type Simulation, simulate } from '../../src/testing/testing.ts';

const seeds = Array.from({ length: 20 }, (_, at) => at + 1);
const deadlineSlackMs = 20;
const tellMs = 10;
const deathMs = 100;

const Stage = service('Stage', {
  wait: unary<void, void>(),
  number: unary<number, number>(),
  fail: unary<string, void>(),
  generate: serverStream<void, number>(),
  drip: serverStream<void, number>(),
  pour: clientStream<Uint8Array, void>({ request: bytes }),
});

function never(): Promise<never> {
  return new Promise(() => undefined);
}

const failures: Record<string, () => unknown> = {
  'a thrown error': () => {
    throw new Error('100 % ä€𝄞');
  },
  'a rejection': () => Promise.reject(new Error('no')),
  'a thrown value that is no error': () => {
    throw 7;
  },
  'a status of its own': () => {
    throw new RpcError('not_found', '100 % ä€𝄞');
  },
};

/** Two processes, of which `far` serves the stage. */
function stage(simulation: Simulation) {
  const [app, helper] = [simulation.process('app'), simulation.process('helper')];
  const { near, far } = simulation.connect(app, helper);
  const seen = { begun: 0, abortedAtMs: Number.POSITIVE_INFINITY, abortCode: '' };
  far.serve(Stage, {
    wait: (_request, { signal }) => {
      seen.begun += 1;
      signal.addEventListener('abort', () => {
        seen.abortedAtMs = simulation.nowMs;
        seen.abortCode = signal.reason.code;
      });
      return never();
    },
    number: (value) => value,
    fail: (what) => failures[what]?.() as never,
    // biome-ignore lint/correctness/useYield: it throws before the first message
    generate: async function* () {
      throw new Error('within the generator');
    },
    drip: async function* () {
      yield 1;
      await never();
    },
    pour: never,
  });
  return { app, helper, near, client: near.client(Stage), seen };
}

/** The error of a promise, and the virtual milliseconds until it came. */
async function failureOf(
  simulation: Simulation,
  promise: Promise<unknown>,
): Promise<{ error: Error & { code: string; status: string }; tookMs: number }> {
  const begunMs = simulation.nowMs;
  const error = await promise.then(
    () => new Error('it did not reject'),
    (reason: unknown) => reason,
  );
  return { error: error as never, tookMs: simulation.nowMs - begunMs };
}

describe.each(['socket', 'ring'] as const)('over the simulated %s', (lane) => {
  const each = async (run: (simulation: Simulation) => Promise<void>): Promise<void> => {
    for (const seed of seeds) await simulate({ seed, lane, run });
  };

  it('a deadline settles the call and its handler within 20 ms', async () => {
    await each(async (simulation) => {
      const { client, seen, app } = stage(simulation);
      await client.number(1);
      const begunMs = simulation.nowMs;
      const call = client.wait(undefined, { timeoutMs: 100 });
      const { error, tookMs } = await failureOf(simulation, call);
      expect(error.code).toBe('ERR_SIDECALL_DEADLINE_EXCEEDED');
      expect(tookMs).toBeGreaterThanOrEqual(100);
      expect(tookMs).toBeLessThanOrEqual(100 + deadlineSlackMs);
      await app.sleep(1_000);
      expect(seen.begun).toBe(1);
      expect(seen.abortedAtMs - begunMs).toBeLessThanOrEqual(100 + deadlineSlackMs);
    });
  });

  it('a request that expires on its way reaches no handler', async () => {
    await each(async (simulation) => {
      const { client, seen, app, helper } = stage(simulation);
      await client.number(1);
      helper.stop();
      const { tookMs } = await failureOf(simulation, client.wait(undefined, { timeoutMs: 100 }));
      expect(tookMs).toBeLessThanOrEqual(100 + deadlineSlackMs);
      await app.sleep(100);
      helper.resume();
      expect(await client.number(2)).toBe(2);
      await app.sleep(1_000);
      expect(seen.begun).toBe(0);
    });
  });

  it('a cancel reaches the handler within 10 ms, and the caller hears its own reason', async () => {
    await each(async (simulation) => {
      const { client, seen, app } = stage(simulation);
      const stop = new AbortController();
      const call = failureOf(simulation, client.wait(undefined, { signal: stop.signal }));
      while (seen.begun === 0) await app.sleep(1);
      const mine = new Error('mine');
      const abortedMs = simulation.nowMs;
      stop.abort(mine);
      expect((await call).error).toBe(mine);
      await app.sleep(1_000);
      expect(seen.abortedAtMs - abortedMs).toBeLessThanOrEqual(tellMs);
      expect(seen.abortCode).toBe('ERR_SIDECALL_CANCELLED');
    });
  });

  it('an error of any kind is told within 10 ms, with its status', async () => {
    await each(async (simulation) => {
      const { client, near } = stage(simulation);
      await client.number(1);
      const Raw = service('Stage', { number: unary({ request: bytes, response: bytes }) });
      const undecodable = () => near.client(Raw).number(Buffer.from('{'));
      const all: [() => Promise<unknown>, string][] = [
        [() => near.call('Stage.none'), 'unimplemented'],
        [undecodable, 'invalid_argument'],
        [() => client.fail('a thrown error'), 'internal'],
        [() => client.fail('a rejection'), 'internal'],
        [() => client.fail('a thrown value that is no error'), 'internal'],
        [() => client.generate().next(), 'internal'],
        [() => client.fail('a status of its own'), 'not_found'],
      ];
      for (const [make, status] of all) {
        const { error, tookMs } = await failureOf(simulation, make());
        expect(error).toMatchObject({ code: 'ERR_SIDECALL_RPC', status });
        expect(tookMs).toBeLessThanOrEqual(tellMs);
      }
      const { error } = await failureOf(simulation, client.fail('a status of its own'));
      expect(error.message).toContain('100 % ä€𝄞');
    });
  });

  it('a death rejects a thousand calls, and a side that only sends, within 100 ms', async () => {
    await each(async (simulation) => {
      const { client, app, helper } = stage(simulation);
      await client.number(1);
      const calls = Array.from({ length: 1_000 }, () => client.wait());
      const pouring = client.pour();
      await pouring.send(Buffer.alloc(10));
      await app.sleep(50);
      const settled = failureOf(simulation, Promise.all(calls));
      const others = Promise.allSettled(calls);
      helper.kill();
      const diedMs = simulation.nowMs;
      expect((await settled).error.code).toBe('ERR_SIDECALL_PEER_GONE');
      const outcomes = await others;
      expect(simulation.nowMs - diedMs).toBeLessThanOrEqual(deathMs);
      const codes = outcomes.map((outcome) => (outcome as PromiseRejectedResult).reason.code);
      expect(new Set(codes)).toEqual(new Set(['ERR_SIDECALL_PEER_GONE']));
      const { error } = await failureOf(simulation, pouring.send(Buffer.alloc(10)));
      expect(error.code).toBe('ERR_SIDECALL_PEER_GONE');
      expect(simulation.nowMs - diedMs).toBeLessThanOrEqual(deathMs);
    });
  });

  it('a deadline ends a wait for credit, for data, and for the lane, within 20 ms', async () => {
    await each(async (simulation) => {
      const { client, helper } = stage(simulation);
      await client.number(1);
      const forCredit = async (): Promise<void> => {
        const call = client.pour({ timeoutMs: 100 });
        for (;;) await call.send(Buffer.alloc(50_000));
      };
      const forData = async (): Promise<void> => {
        for await (const _ of client.drip(undefined, { timeoutMs: 100 }));
      };
      const forTheLane = async (): Promise<void> => {
        helper.stop(); // it takes nothing, so that the lane is full
        const sent = Array.from({ length: 40 }, () => {
          const call = client.pour({ timeoutMs: 100 });
          return call.send(Buffer.alloc(200_000)).then(never);
        });
        await Promise.all(sent);
      };
      for (const wait of [forCredit, forData, forTheLane]) {
        const { error, tookMs } = await failureOf(simulation, wait());
        expect(error.code).toBe('ERR_SIDECALL_DEADLINE_EXCEEDED');
        expect(tookMs).toBeLessThanOrEqual(100 + deadlineSlackMs);
      }
    });
  });

  it('a call beside an upload of 64 MiB waits for two fragments of it at most', async () => {
    const uploadBytes = 67_108_864;
    const fragmentMax = 65_536;
    let mostBytes = 0;
    let calls = 0;
    const sent: { readonly isCall: boolean; readonly payload: number }[] = [];
    await simulate({
      lane,
      onTrace: (line) => {
        const found = /app +sends (open|message|fragment) .*?payload (\d+)/.exec(line);
        if (found === null) return;
        sent.push({
          isCall: found[1] === 'open' && / unary, /.test(line),
          payload: Number(found[2]),
        });
      },
      run: async (simulation) => {
        const [app, helper] = [simulation.process('app'), simulation.process('helper')];
        const { near, far } = simulation.connect(app, helper, {
          far: { limits: { receiveMaxBytes: uploadBytes } },
        });
        let received = 0;
        const Mixed = service('Mixed', {
          take: unary({ request: bytes, response: bytes }),
          small: unary({ request: bytes, response: bytes }),
        });
        far.serve(Mixed, {
          take: (message) => {
            received = message.byteLength;
            return Buffer.alloc(0);
          },
          small: (message) => message,
        });
        const mixed = near.client(Mixed);
        await mixed.small(Buffer.alloc(1_000));
        let isOver = false;
        const uploading = mixed.take(Buffer.alloc(uploadBytes)).then(() => {
          isOver = true;
        });
        while (!isOver) {
          const from = sent.length;
          await mixed.small(Buffer.alloc(1_000));
          const own = sent.slice(from);
          const before = own.slice(
            0,
            own.findIndex(({ isCall }) => isCall),
          );
          mostBytes = Math.max(
            mostBytes,
            before.reduce((sum, { payload }) => sum + payload, 0),
          );
          calls += 1;
        }
        await uploading;
        expect(received).toBe(uploadBytes);
      },
    });
    expect(calls).toBeGreaterThan(10);
    expect(mostBytes).toBeLessThanOrEqual(2 * fragmentMax);
  });
});
