import { describe, expect, it } from 'vitest';
import { Contention } from '../../src/shm/contention.ts';
import type { Ring } from '../../src/shm/ring.ts';
import { RingResult } from '../../src/shm/ring.ts';
import { RingSleep } from '../../src/shm/ring-sleep.ts';

/** A thread that runs and waits as it is told: it is ready all the time. */
function steered() {
  const total = { ran: 0, waited: 0, now: 1000 };
  const contention = new Contention((times) => times.set([total.ran, total.waited]));
  /** `share` of these milliseconds others run. Returns whether there is contention at their end. */
  const pass = (ms: number, share: number, ready = 1): boolean => {
    for (const end = total.now + ms; total.now < end; total.now += 0.5) {
      total.waited += 0.5 * ready * share;
      total.ran += 0.5 * ready * (1 - share);
      contention.isContended(total.now);
    }
    return contention.isContended(total.now);
  };
  return { contention, pass, total };
}

describe('contention', () => {
  it.each([
    ['nobody else runs', 0, false],
    ['threads of the engine run now and then', 0.04, false],
    ['one other thread wants the processor', 0.4, true],
    ['ten want it', 0.9, true],
  ])('%s', (_, share, isContended) => {
    expect(steered().pass(20, share)).toBe(isContended);
  });

  it('is seen within two looks, and its end soon after', () => {
    const { pass } = steered();
    expect(pass(50, 0.01)).toBe(false);
    expect(pass(5, 0.5)).toBe(true);
    expect(pass(50, 0.1)).toBe(true); // in between it stays as it is
    expect(pass(20, 0.01)).toBe(false);
  });

  it('is not concluded from a thread that was hardly ready', () => {
    const { pass, total } = steered();
    expect(pass(20, 0)).toBe(false);
    total.waited += 0.25; // one late wake in a pause
    expect(pass(1, 0, 0)).toBe(false);
  });

  it('is unknown where the system does not tell', () => {
    const contention = new Contention(() => undefined);
    for (let now = 0; now < 50; now += 1) expect(contention.isContended(now)).toBe(false);
  });
});

describe('a ring that sleeps', () => {
  const ring = { prepareToSleep: () => RingResult.written } as unknown as Ring;

  it('is not polled under contention, and is again behind it', () => {
    const { contention, pass, total } = steered();
    const sleep = new RingSleep(ring, 50, contention);
    const isDueBehindRecords = (): boolean => {
      sleep.hasRecords = true;
      sleep.isDue(total.now);
      return sleep.isDue(total.now);
    };
    pass(20, 0);
    expect(isDueBehindRecords()).toBe(false);
    pass(20, 0.5);
    expect(isDueBehindRecords()).toBe(true);
    expect(sleep.mayPoll(total.now)).toBe(false);
    // A sleep under contention says nothing of a peer that answers late.
    for (let times = 0; times < 20; times += 1) sleep.tryToSleep(total.now);
    pass(50, 0);
    expect(isDueBehindRecords()).toBe(false);
  });
});
