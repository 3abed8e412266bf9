// The times at which clients come back, in virtual time.
import { expect, it } from 'vitest';
import { SidecallError } from '../../src/base/errors.ts';
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

it('200 clients of a listener that returns after 3 s with a cap of 400 ms come soon, and spread', async () => {
  const returnsMs = 3_000;
  const arrivals: number[] = [];
  const tries: number[] = [];
  const world = new World(new SeededRandom(18));
  const process = new SimulatedProcess('clients', world);
  const passed = (ms: number): Promise<void> =>
    new Promise((resolve) => void process.setTimeout(resolve, ms));
  const random = (): number => process.random.fraction();
  let isOver = false;
  const run = async (): Promise<void> => {
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
    isOver = true;
  };
  void run();
  await world.run(() => isOver, 100_000);
  expect(arrivals).toHaveLength(200);
  // The listener has returned: the next try of each comes within the cap.
  expect(Math.max(...arrivals)).toBeLessThanOrEqual(400);
  // Ten in 20 ms are the mean: no more than three times as many come together.
  const inWindow = arrivals.map((at) => arrivals.filter((each) => each >= at && each < at + 20));
  expect(Math.max(...inWindow.map(({ length }) => length))).toBeLessThan(30);
  expect(tries.filter((at) => at === 0)).toHaveLength(200); // the first try is at once
  expect(tries.length).toBeLessThan(200 * 25);
});
