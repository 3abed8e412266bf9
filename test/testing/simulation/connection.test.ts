// Real sessions over the real transport of the socket lane, between two simulated processes.
import { describe, expect, it } from 'vitest';
import { notification, serverStream, service, unary } from '../../../src/rpc/contract/service.ts';
import { connectProcesses } from '../../../src/testing/simulation/connection.ts';
import { SimulatedProcess } from '../../../src/testing/simulation/process.ts';
import { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';
import { World } from '../../../src/testing/simulation/world.ts';

const Work = service('Work', {
  same: unary<number, number>(),
  wait: unary(),
  count: serverStream<number, number>(),
  note: notification<number>(),
});
const stepsMax = 100_000;
const ignored = (): undefined => undefined;

type Lane = 'ring' | 'socket';

function open(seed: number, lane: Lane = 'socket') {
  const world = new World(new SeededRandom(seed));
  const processes = [new SimulatedProcess('near', world), new SimulatedProcess('far', world)];
  const [nearProcess, farProcess] = processes as [SimulatedProcess, SimulatedProcess];
  const connection = connectProcesses(nearProcess, farProcess, { lane });
  const { near, far } = { near: connection.near.session, far: connection.far.session };
  const noted: number[] = [];
  far.serve(Work, {
    same: (value) => value,
    wait: () => new Promise(ignored),
    async *count(end) {
      for (let value = 0; value < end; value += 1) yield value;
    },
    note: (value) => void noted.push(value),
  });
  return { world, near, far, noted, farProcess };
}

/** Calls of each kind, then a close. Returns when, in virtual time, each has ended. */
async function talk(seed: number, lane: Lane): Promise<string[]> {
  const { world, near, far, noted } = open(seed, lane);
  const client = near.client(Work);
  const ends: string[] = [];
  const note = (what: string) => (): void => void ends.push(`${what} at ${world.nowMs}`);
  const calls = Array.from({ length: 50 }, async (_, at) => {
    expect(await client.same(at, { timeoutMs: 1_000 })).toBe(at);
    note(`call ${at}`)();
  });
  const notes = Array.from({ length: 50 }, (_, at) => client.note(at).then(note(`note ${at}`)));
  const stream = (async () => {
    const seen: number[] = [];
    for await (const value of client.count(100)) seen.push(value);
    expect(seen).toEqual(Array.from({ length: 100 }, (_, at) => at));
  })();
  let isDone = false;
  const all = Promise.all([...calls, ...notes, stream]).finally(() => {
    isDone = true;
  });
  await world.run(() => isDone, stepsMax);
  await all;
  let isClosed = false;
  const closed = Promise.all([near.close().then(note('close')), far.closed]).finally(() => {
    isClosed = true;
  });
  await world.run(() => isClosed, stepsMax);
  await closed;
  expect(noted).toEqual(Array.from({ length: 50 }, (_, at) => at));
  return ends;
}

const seeds = Array.from({ length: 40 }, (_, at) => at + 1);

describe.each(['socket', 'ring'] as const)('the %s', (lane) => {
  it.each(seeds)('carries calls and a close by seed %i', async (seed) => {
    expect(await talk(seed, lane)).toHaveLength(101);
  });

  it('has the same run for a seed, and another for another', async () => {
    const [first, again, other] = [
      await talk(11, lane),
      await talk(11, lane),
      await talk(12, lane),
    ];
    expect(again).toEqual(first);
    expect(other).not.toEqual(first);
  });

  it.each([1, 2, 3, 4, 5])('rejects the calls of a process that died (seed %i)', async (seed) => {
    const { world, near, farProcess } = open(seed, lane);
    const pending = near.call('Work.wait').catch((error: unknown) => error);
    world.plan(20, () => farProcess.kill());
    await world.run(() => near.state === 'closed', stepsMax);
    expect(near.state).toBe('closed');
    expect(await pending).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE', delivered: 'unknown' });
  });
});

it('a deadline passes in virtual time alone', async () => {
  const { world, near } = open(1);
  const late = near.call('Work.wait', undefined, { timeoutMs: 3_600_000 }).catch((e) => e);
  let outcome: unknown;
  void late.then((error) => {
    outcome = error;
  });
  await world.run(() => outcome !== undefined, stepsMax);
  expect(outcome).toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
  expect(world.nowMs).toBeGreaterThanOrEqual(3_600_000);
  near.terminate((await late) as never);
});
