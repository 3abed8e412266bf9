// The times at which clients come back, in virtual time.
import { expect, it } from 'vitest';
import { SidecallError } from '../../src/base/errors.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { checkReconnect } from '../../src/rendezvous/reconnect-options.ts';
import { Reconnector } from '../../src/rendezvous/reconnector.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { SimulatedProcess } from '../../src/testing/simulation/process.ts';
import { SeededRandom } from '../../src/testing/simulation/seeded-random.ts';
import { World } from '../../src/testing/simulation/world.ts';

/** The parts of a session that a reconnector looks at. */
function sessionStub(): { session: Session; lose: () => void } {
  const state = { state: 'open' };
  let lose = (): void => undefined;
  const error = new SidecallError('ERR_SIDECALL_PEER_GONE');
  const closed = new Promise((resolve) => {
    lose = () => {
      state.state = 'closed';
      resolve(error);
    };
  });
  const draining = closed.then(() => undefined);
  const session = Object.assign(state, { closed, draining, peer: {} }) as unknown as Session;
  return { session, lose };
}

interface VirtualTime {
  readonly world: World;
  readonly process: SimulatedProcess;
  readonly random: () => number;
  readonly passed: (ms: number) => Promise<void>;
}

async function inVirtualTime(run: (time: VirtualTime) => Promise<void>): Promise<void> {
  const world = new World(new SeededRandom(18));
  const process = new SimulatedProcess('clients', world);
  const passed = (ms: number): Promise<void> =>
    new Promise((resolve) => void process.setTimeout(resolve, ms));
  let outcome: Promise<void> | undefined;
  let isOver = false;
  process.setImmediate(() => {
    outcome = run({ world, process, random: () => process.random.fraction(), passed }).finally(
      () => {
        isOver = true;
      },
    );
  });
  await world.run(() => isOver, 100_000);
  await outcome;
}

it('200 clients of a listener that returns after 3 s with a cap of 400 ms come soon, and spread', async () => {
  const returnsMs = 3_000;
  const arrivals: number[] = [];
  const tries: number[] = [];
  await inVirtualTime(async ({ world, process, random, passed }) => {
    const clients = Array.from({ length: 200 }, () => {
      const first = sessionStub();
      const connect = async (): Promise<Session> => {
        const afterMs = world.nowMs - lostMs;
        tries.push(afterMs);
        if (afterMs < returnsMs) throw new SidecallError('ERR_SIDECALL_NO_LISTENER');
        arrivals.push(afterMs - returnsMs);
        return sessionStub().session;
      };
      const parts = { path: '/a', connect, onEvent: undefined, clock: process, random };
      const reconnector = new Reconnector(parts, checkReconnect({ maxMs: 400 }), first.session);
      return { reconnector, lose: first.lose };
    });
    await passed(2_000); // they were connected for a while
    const lostMs = world.nowMs;
    for (const { lose } of clients) lose();
    await passed(4_000);
    for (const { reconnector } of clients) await reconnector.stop();
  });
  expect(arrivals).toHaveLength(200);
  // The listener has returned: the next try of each comes within the cap.
  expect(Math.max(...arrivals)).toBeLessThanOrEqual(400);
  // Ten in 20 ms are the mean: no more than three times as many come together.
  const inWindow = arrivals.map((at) => arrivals.filter((each) => each >= at && each < at + 20));
  expect(Math.max(...inWindow.map(({ length }) => length))).toBeLessThan(30);
  expect(tries.filter((at) => at === 0)).toHaveLength(200); // the first try is at once
  expect(tries.length).toBeLessThan(200 * 25);
});

it('time in which the machine slept does not count: the connection is made again', async () => {
  await inVirtualTime(async ({ world, process, random, passed }) => {
    const first = sessionStub();
    let returnsAt = Number.POSITIVE_INFINITY;
    const connect = async (): Promise<Session> => {
      if (world.nowMs >= returnsAt) return sessionStub().session;
      throw new SidecallError('ERR_SIDECALL_NO_LISTENER');
    };
    const parts = { path: '/a', connect, onEvent: undefined, clock: process, random };
    const reconnector = new Reconnector(parts, checkReconnect({ giveUpMs: 5_000 }), first.session);
    await passed(2_000);
    first.lose();
    await passed(1_000);
    world.jump(86_400_000);
    returnsAt = world.nowMs + 2_500; // the listener starts again, too
    await passed(4_500);
    expect(reconnector.states.latest.state).toBe('connected');
    await reconnector.stop();
  });
});

it('tries that are as long as they may be count: the connection is given up in time', async () => {
  await inVirtualTime(async ({ process, random, passed }) => {
    const first = sessionStub();
    const connect = async (): Promise<Session> => {
      await passed(60_000.5); // the time-out of a connection, and a timer that is late
      throw new SidecallError('ERR_SIDECALL_HELLO_TIMEOUT');
    };
    const parts = { path: '/a', connect, onEvent: undefined, clock: process, random };
    const reconnector = new Reconnector(parts, checkReconnect(true), first.session);
    first.lose();
    await passed(720_000);
    expect(reconnector.states.latest.state).toBe('gave-up');
  });
});

it.each<[string, number, number, string]>([
  ['a try that took longer than giveUpMs is followed by one more', 700_000, 2, 'connected'],
  ['the listener is away for good: it is given up once the time is over', 0, 0, 'gave-up'],
])('%s', async (_what, firstTryMs, succeedsAt, state) => {
  await inVirtualTime(async ({ world, process, random, passed }) => {
    const first = sessionStub();
    const triedMs: number[] = [];
    let lostMs = 0;
    const connect = async (): Promise<Session> => {
      triedMs.push(world.nowMs - lostMs);
      if (triedMs.length === succeedsAt) return sessionStub().session;
      if (triedMs.length === 1 && firstTryMs > 0) await passed(firstTryMs);
      throw new SidecallError('ERR_SIDECALL_NO_LISTENER');
    };
    const told: string[] = [];
    const onEvent = ({ error }: SidecallEvent): unknown => told.push(`${error.retryable}`);
    const parts = { path: '/a', connect, onEvent, clock: process, random };
    const reconnector = new Reconnector(parts, checkReconnect(true), first.session);
    await passed(2_000);
    lostMs = world.nowMs;
    first.lose();
    await passed(800_000);
    expect(reconnector.states.latest.state).toBe(state);
    if (state === 'gave-up') {
      expect(triedMs.at(-1)).toBeGreaterThanOrEqual(600_000);
      expect(triedMs.at(-1)).toBeLessThan(601_000);
      expect(told.at(-1)).toBe('false');
    } else expect(triedMs).toHaveLength(2);
    await reconnector.stop();
  });
});
