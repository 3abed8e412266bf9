// The turns of processes that look into a thread: a bounded share of its time, and soon in an idle
// one.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { busyShareOfThread, InspectionTurns } from '../../src/rendezvous/inspection-turns.ts';

/** A clock on which a pause ends at once, and counts. */
function countingClock() {
  const time = { ms: 0 };
  const setTimeout: Clock['setTimeout'] = (then, ms, ...args) => {
    time.ms += ms;
    return systemClock.setTimeout(then, 0, ...args);
  };
  return { time, clock: { ...systemClock, nowMs: () => time.ms, setTimeout } };
}

/** Time that passes while `lookers` processes take `rounds` turns of `tookMs` each. */
async function timeOf(share: number, tookMs: number, lookers: number, rounds: number) {
  const { time, clock } = countingClock();
  const turns = new InspectionTurns(() => share);
  const look = async (): Promise<void> => {
    for (let round = 0; round < rounds; round += 1) {
      const end = await turns.take(clock);
      time.ms += tookMs;
      end(tookMs);
    }
  };
  await Promise.all(Array.from({ length: lookers }, look));
  const end = await turns.take(clock);
  end(0);
  return time.ms;
}

it.each([1, 8])('%i that look all the time take a 600th of a busy thread', async (lookers) => {
  const ms = await timeOf(1, 0.5, lookers, 20);
  expect((lookers * 20 * 0.5) / ms).toBeLessThan(1 / 600);
});

it('take a 150th of an idle thread, so that a look is soon over, and a part of one that works in part', async () => {
  expect(await timeOf(0, 0.5, 1, 20)).toBeCloseTo(20 * (0.5 + 75));
  expect(await timeOf(0.5, 0.5, 1, 20)).toBeCloseTo(20 * (0.5 + 150));
});

it('begin one after the other, in the order in which they were asked for', async () => {
  const { clock } = countingClock();
  const turns = new InspectionTurns(() => 1);
  const begun: number[] = [];
  const ends: ((tookMs: number) => void)[] = [];
  for (const number of [1, 2, 3]) {
    void turns.take(clock).then((end) => {
      begun.push(number);
      ends.push(end);
    });
  }
  for (const count of [1, 2, 3]) {
    await sleep(5);
    expect(begun).toEqual([1, 2, 3].slice(0, count));
    ends.pop()?.(0);
  }
});

it('wait two seconds behind a long turn, and no longer', async () => {
  expect(await timeOf(1, 100, 2, 1)).toBeCloseTo(2 * (100 + 2_000));
});

it('know whether the thread works or waits', async () => {
  const share = busyShareOfThread();
  await sleep(300);
  const idle = share();
  const until = performance.now() + 300;
  while (performance.now() < until) await new Promise((resolve) => setImmediate(resolve));
  expect(share()).toBeGreaterThan(0.9);
  expect(idle).toBeLessThan(0.5);
});
