// Real sessions over the real transport of the socket lane, between two simulated processes.
import { expect, it } from 'vitest';
import { checkLimits } from '../../../src/base/limits/option-limits.ts';
import { notification, serverStream, service, unary } from '../../../src/rpc/contract/service.ts';
import { Session } from '../../../src/rpc/session/session.ts';
import { SimulatedProcess } from '../../../src/testing/simulation/process.ts';
import { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';
import { socketPair } from '../../../src/testing/simulation/simulated-socket.ts';
import { World } from '../../../src/testing/simulation/world.ts';
import { SocketTransport } from '../../../src/uds/socket-transport.ts';
import { loopbackPeer } from '../../support/pairs.ts';

const Work = service('Work', {
  same: unary<number, number>(),
  wait: unary(),
  count: serverStream<number, number>(),
  note: notification<number>(),
});
const limits = checkLimits(undefined);
const stepsMax = 100_000;
const ignored = (): undefined => undefined;

function open(seed: number) {
  const world = new World(new SeededRandom(seed));
  const processes = [new SimulatedProcess('near', world), new SimulatedProcess('far', world)];
  const sockets = socketPair(processes[0] as SimulatedProcess, processes[1] as SimulatedProcess);
  const [near, far] = sockets.map(({ opener, process }) => {
    return new Session({
      transport: new SocketTransport(opener, 1, process.loop),
      peer: loopbackPeer,
      own: limits,
      remote: limits,
      laneReason: 'a simulation',
      clock: process,
      random: () => process.random.fraction(),
    });
  }) as [Session, Session];
  const noted: number[] = [];
  far.serve(Work, {
    same: (value) => value,
    wait: () => new Promise(ignored),
    async *count(end) {
      for (let value = 0; value < end; value += 1) yield value;
    },
    note: (value) => void noted.push(value),
  });
  return { world, near, far, noted, farProcess: processes[1] as SimulatedProcess };
}

/** Calls of each kind, then a close. Returns when, in virtual time, each has ended. */
async function talk(seed: number): Promise<string[]> {
  const { world, near, far, noted } = open(seed);
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
  const closed = near.close().then(note('close'));
  await world.run(() => near.state === 'closed' && far.state === 'closed', stepsMax);
  await closed;
  expect(noted).toEqual(Array.from({ length: 50 }, (_, at) => at));
  return ends;
}

it.each(Array.from({ length: 40 }, (_, at) => at + 1))(
  'calls and a close by seed %i',
  async (seed) => {
    const ends = await talk(seed);
    expect(ends).toHaveLength(101);
  },
);

it('the same seed gives the same run, another seed another one', async () => {
  const [first, again, other] = [await talk(11), await talk(11), await talk(12)];
  expect(again).toEqual(first);
  expect(other).not.toEqual(first);
});

it.each([1, 2, 3, 4, 5])('the death of a process rejects its calls (seed %i)', async (seed) => {
  const { world, near, farProcess } = open(seed);
  const pending = near.call('Work.wait').catch((error: unknown) => error);
  world.plan(20, () => farProcess.kill());
  await world.run(() => near.state === 'closed', stepsMax);
  expect(near.state).toBe('closed');
  expect(await pending).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE', delivered: 'unknown' });
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
