import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { tuning } from '../../src/base/limits/internal-limits.ts';
import { armDeadline, cancelDeadline, type Timed } from '../../src/rpc/deadline.ts';
import { Random } from '../support/random.ts';

interface SetTimer {
  readonly run: () => void;
  readonly dueMs: number;
  isReferenced: boolean;
}

/** A clock whose time moves by `passTo()` only, and what it was asked for. */
function handClock() {
  let now = 0.25;
  let immediates: (() => void)[] = [];
  const timers = new Set<SetTimer>();
  const clock: Clock = {
    ...systemClock,
    deadlines: undefined,
    nowMs: () => now,
    setTimeout(then, ms, ...args) {
      const timer = { run: () => then(...args), dueMs: now + ms, isReferenced: true };
      timers.add(timer);
      const of = (isReferenced: boolean) => () => {
        timer.isReferenced = isReferenced;
      };
      return Object.assign(timer, { unref: of(false), ref: of(true) });
    },
    clearTimeout: (timer) => void timers.delete(timer as unknown as SetTimer),
    setImmediate: (then, ...args) => void immediates.push(() => then(...args)),
  };
  return {
    clock,
    timers,
    iterate() {
      const due = immediates;
      immediates = [];
      for (const run of due) run();
    },
    passTo(ms: number) {
      now = ms;
      for (const timer of [...timers]) {
        if (timer.dueMs <= now && timers.delete(timer)) timer.run();
      }
    },
  };
}

/** Something whose end is noted. */
function timed(onDeadline: () => void = () => undefined): Timed {
  return { timer: undefined, onDeadline };
}

describe('deadlines', () => {
  it('end none early, each once, and none that was cancelled, in any order of arming', () => {
    const random = Random.fromEnvironment();
    const { clock, passTo, timers } = handClock();
    const ended: number[] = [];
    const due: number[] = [];
    const all = Array.from({ length: 500 }, (_, at) => {
      const deadline = random.next(410) / 10;
      due.push(deadline);
      const of = timed(() => ended.push(at));
      armDeadline(clock, of, deadline, at % 3 > 0);
      return of;
    });
    for (const [at, of] of all.entries()) if (at % 5 === 0) cancelDeadline(of);
    for (let now = 1; now <= 42; now += 0.5) {
      passTo(now);
      for (const at of ended) expect(due[at]).toBeLessThanOrEqual(now);
      const late = all.filter(
        (of, at) => of.timer !== undefined && (due[at] as number) < now - 1.5,
      );
      expect(late, `SIDECALL_SEED=${random.seed}`).toEqual([]);
    }
    expect(ended.toSorted((one, other) => one - other)).toEqual(
      [...all.keys()].filter((at) => at % 5 > 0),
    );
    expect(timers.size).toBe(0);
  });

  it('share a timer within a millisecond, and end in parts', () => {
    const { clock, passTo, timers, iterate } = handClock();
    let ended = 0;
    const count = 3 * tuning.endsPerIterationMax;
    for (let at = 0; at < count; at += 1) {
      armDeadline(
        clock,
        timed(() => {
          ended += 1;
        }),
        5.5,
      );
    }
    expect(timers.size).toBe(1);
    passTo(7);
    for (let part = 1; part <= 3; part += 1) {
      expect(ended).toBe(part * tuning.endsPerIterationMax);
      iterate();
    }
  });

  it('end where another of the same instant throws', () => {
    const { clock, passTo, iterate } = handClock();
    const ended: number[] = [];
    for (let at = 0; at < 4; at += 1) {
      const end = (): void => {
        ended.push(at);
        if (at % 2 === 0) throw new Error(`of ${at}`);
      };
      armDeadline(clock, timed(end), 5.5);
    }
    expect(() => passTo(7)).toThrow('of 0');
    expect(() => iterate()).toThrow('of 2');
    iterate();
    expect(ended).toEqual([0, 1, 2, 3]);
  });

  it('that were all cancelled keep no process alive, and at most one timer', () => {
    const { clock, passTo, timers } = handClock();
    for (let at = 0; at < 100; at += 1) {
      const of = timed();
      armDeadline(clock, of, 50 + at);
      expect([...timers].some((timer) => timer.isReferenced)).toBe(true);
      cancelDeadline(of);
      expect([...timers].some((timer) => timer.isReferenced)).toBe(false);
      expect(timers.size).toBe(1);
    }
    const again = timed();
    armDeadline(clock, again, 149);
    expect([...timers].map((timer) => timer.isReferenced)).toEqual([true]);
    cancelDeadline(again);
    passTo(1_000);
    expect(timers.size).toBe(0);
  });

  it('see no AsyncLocalStorage of a call that shares their timer', async () => {
    const storage = new AsyncLocalStorage<string>();
    const seen = await Promise.all(
      ['one', 'other'].map(
        (name) =>
          new Promise((resolve) => {
            const of = timed(() => resolve(storage.getStore()));
            storage.run(name, () => armDeadline(systemClock, of, systemClock.nowMs() + 1));
          }),
      ),
    );
    expect(seen).toEqual([undefined, undefined]);
  });
});
