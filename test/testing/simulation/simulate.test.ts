// Simulations as users write them.
import { describe, expect, it } from 'vitest';
import { notification, service, unary } from '../../../src/rpc/contract/service.ts';
import {
  type Simulation,
  SimulationError,
  simulate,
  simulateEveryDeath,
} from '../../../src/testing/testing.ts';

const Demo = service('Demo', {
  add: unary<{ a: number; b: number }, { sum: number }>(),
  wait: unary<void, void>(),
  note: notification<number>(),
});

/** A helper that adds, and the sum that the app is told. */
async function add(simulation: Simulation): Promise<{ sum: number }> {
  const [app, helper] = [simulation.process('app'), simulation.process('helper')];
  const { near, far } = simulation.connect(app, helper);
  far.serve(Demo, { add: ({ a, b }) => ({ sum: a + b }), wait: () => undefined, note: () => {} });
  return near.client(Demo).add({ a: 1, b: 2 });
}

describe.each(['socket', 'ring'] as const)('a simulation over the %s', (lane) => {
  it('gives what its program gives, and the same for the same seed', async () => {
    const [first, again, other] = [
      await simulate({ seed: 5, lane, run: add }),
      await simulate({ seed: 5, lane, run: add }),
      await simulate({ seed: 6, lane, run: add }),
    ];
    expect(first.value).toEqual({ sum: 3 });
    expect(again).toEqual(first);
    expect(other.fingerprint).not.toBe(first.fingerprint);
    expect(first.points.helper).toBeGreaterThan(0);
  });

  it('lets an hour pass at once', async () => {
    const { value, virtualMs } = await simulate({
      lane,
      limitMs: 10_000_000,
      run: async (simulation) => {
        await simulation.process('app').sleep(3_600_000);
        return simulation.nowMs;
      },
    });
    expect(value).toBeGreaterThanOrEqual(3_600_000);
    expect(virtualMs).toBeGreaterThanOrEqual(value);
  });

  it('kills a helper at each of its points, and starts the next one', async () => {
    const sums: number[] = [];
    const deaths = await simulateEveryDeath({
      process: 'helper',
      lane,
      async run(simulation) {
        const app = simulation.process('app');
        const helper = simulation.helper(app, 'helper', {
          serve: (session) =>
            session.serve(Demo, { add: ({ a, b }) => ({ sum: a + b }) }, { partial: true }),
        });
        const client = helper.client(Demo, { retry: true });
        for (let a = 1; ; ) {
          try {
            const { sum } = await client.add({ a, b: 1 });
            sums.push(sum);
            a += 1;
            if (a > 3) return;
          } catch (error) {
            expect(error).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE', delivered: 'unknown' });
          }
        }
      },
    });
    expect(deaths).toBeGreaterThan(3);
    expect(sums).toHaveLength(3 * (deaths + 1));
  });
});

it('names the seed and the faults of a run that fails, and keeps the cause', async () => {
  const faults = [{ kind: 'kill', process: 'helper', atMs: 0 }] as const;
  const failing = simulate({ seed: 9, faults, run: add });
  const error = await failing.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(SimulationError);
  expect(error).toMatchObject({ seed: 9, faults, cause: { code: 'ERR_SIDECALL_PEER_GONE' } });
  expect(String(error)).toContain('seed 9, faults [{"kind":"kill"');
});

it('says what a run waits for that never comes', async () => {
  const outside = simulate({ run: () => new Promise(() => undefined) });
  await expect(outside).rejects.toThrow('no part of the simulation');
  const late = simulate({
    limitMs: 500,
    run: (simulation) => simulation.process('app').sleep(501),
  });
  await expect(late).rejects.toThrow('has not settled within 500 ms of virtual time (seed 1)');
});

it('waits for promises that need turns of the real event loop', async () => {
  const { value } = await simulate({
    async run(simulation) {
      await new Promise((resolve) => setImmediate(resolve));
      await simulation.process('app').sleep(5);
      await new Promise((resolve) => setImmediate(resolve));
      return 'done';
    },
  });
  expect(value).toBe('done');
});

it('stops, blocks and resumes processes, and has faults at any moment', async () => {
  const { value } = await simulate({
    async run(simulation) {
      const [app, helper] = [simulation.process('app'), simulation.process('helper')];
      const { near, far } = simulation.connect(app, helper);
      far.serve(Demo, { add: ({ a, b }) => ({ sum: a + b }) }, { partial: true });
      const client = near.client(Demo);
      await client.add({ a: 0, b: 0 });
      helper.stop();
      const late = await client.add({ a: 1, b: 1 }, { timeoutMs: 50 }).catch((error) => error.code);
      helper.resume();
      helper.block(200);
      const { sum } = await client.add({ a: 2, b: 2 });
      const blockedMs = simulation.nowMs;
      simulation.fault({ kind: 'kill', process: 'helper', atMs: 0 });
      const gone = await client.add({ a: 3, b: 3 }).catch((error) => error.code);
      return { late, sum, gone, isBlocked: blockedMs > 200, isDead: helper.isDead };
    },
  });
  expect(value).toEqual({
    late: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
    sum: 4,
    gone: 'ERR_SIDECALL_PEER_GONE',
    isBlocked: true,
    isDead: true,
  });
});

it('writes a trace that a person can read', async () => {
  const lines: string[] = [];
  await simulate({ lane: 'socket', onTrace: (line) => void lines.push(line), run: add });
  const text = lines.join('\n');
  expect(text).toMatch(/app +sends open 0\.1 by its opener, unary, 13 bytes, ends, payload 13/);
  expect(text).toMatch(/helper +takes open 0\.1/);
  expect(text).toMatch(/app +takes message 0\.1, 9 bytes, ends/);
});

it.each([
  [{ run: add, seed: -1 }, 'ERR_OUT_OF_RANGE'],
  [{ run: add, limitMs: 0 }, 'ERR_OUT_OF_RANGE'],
  [{ run: undefined as never }, 'ERR_INVALID_ARG_TYPE'],
  [{ run: add, sed: 1 } as never, 'ERR_INVALID_ARG_VALUE'],
])('refuses misuse %#', async (options, code) => {
  await expect(simulate(options)).rejects.toMatchObject({ code });
});

it('refuses a process that is none of its own, and a name that it does not know', async () => {
  const strange = simulate({
    run: (simulation) => simulation.connect({} as never, simulation.process('app')),
  });
  await expect(strange).rejects.toThrow('a process of this simulation is needed');
  const unknown = simulateEveryDeath({ process: 'nix', run: add });
  await expect(unknown).rejects.toThrow("run makes no process 'nix'; it makes: helper, app");
});
