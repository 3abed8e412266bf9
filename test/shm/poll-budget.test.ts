import { describe, expect, it } from 'vitest';
import { tuning } from '../../src/base/limits/internal-limits.ts';
import { PollBudget } from '../../src/shm/poll-budget.ts';

/** Wakes by a doorbell, finds nothing more, sleeps: as often as asked. */
function inVain(budget: PollBudget, from: number, times: number): number {
  let now = from;
  for (let count = 0; count < times; count += 1) {
    now += 10;
    budget.onRecords(now, false);
    budget.onSleep();
  }
  return now;
}

describe('a poll budget', () => {
  it('lasts from the last record, or the last write', () => {
    const budget = new PollBudget(50);
    budget.onRecords(1000, true);
    expect(budget.isSpent(1000.049)).toBe(false);
    expect(budget.isSpent(1000.051)).toBe(true);
    budget.onWritten(1000.04);
    expect(budget.isSpent(1000.08)).toBe(false);
    expect(budget.isSpent(1000.1)).toBe(true);
  });

  it('lasts four times as long between the pieces of long messages', () => {
    const budget = new PollBudget(50);
    budget.onRecords(1000, true);
    expect(budget.isSpent(1000.19, true)).toBe(false);
    expect(budget.isSpent(1000.21, true)).toBe(true);
  });

  it('lasts eight times as long after dense traffic, until the next sleep', () => {
    const budget = new PollBudget(50);
    let now = 1000;
    for (let count = 0; count < 31; count += 1) budget.onRecords((now += 0.01), true);
    expect(budget.isSpent(now + 0.06)).toBe(true); // not yet
    budget.onRecords((now += 0.01), true);
    expect(budget.isSpent(now + 0.39)).toBe(false);
    expect(budget.isSpent(now + 0.41)).toBe(true);
    budget.onSleep();
    budget.onRecords((now += 0.01), true);
    expect(budget.isSpent(now + 0.06)).toBe(true);
  });

  it('0 never polls, whatever comes', () => {
    const budget = new PollBudget(0);
    for (let now = 1; now < 1.1; now += 0.001) budget.onRecords(now, false);
    expect(budget.isOn).toBe(false);
    expect(budget.isSpent(1.1)).toBe(true);
  });

  it('is switched off after 8 budgets in vain, and not before', () => {
    const budget = new PollBudget(50);
    const now = inVain(budget, 0, tuning.pollFailuresMax - 1);
    expect(budget.isOn).toBe(true);
    inVain(budget, now, 1);
    expect(budget.isOn).toBe(false);
  });

  it('a record found by looking starts the count again', () => {
    const budget = new PollBudget(50);
    let now = inVain(budget, 0, tuning.pollFailuresMax - 1);
    budget.onRecords(now + 0.02, true);
    budget.onSleep();
    now = inVain(budget, now + 1, tuning.pollFailuresMax - 2);
    expect(budget.isOn).toBe(true);
  });

  it('two records less than a budget apart switch it on', () => {
    const budget = new PollBudget(50);
    const now = inVain(budget, 0, tuning.pollFailuresMax);
    expect(budget.isOn).toBe(false);
    budget.onRecords(now + 10, false);
    budget.onRecords(now + 10.02, false);
    expect(budget.isOn).toBe(true);
  });

  it('while off it tries again, ever less often, and success switches it on', () => {
    const budget = new PollBudget(50);
    let now = inVain(budget, 0, tuning.pollFailuresMax);
    const tries: number[] = [];
    for (let wake = 1; wake <= 400; wake += 1) {
      now += 10;
      budget.onRecords(now, false);
      if (budget.isOn) tries.push(wake);
      budget.onSleep();
    }
    const gaps = tries.map((wake, at) => wake - (tries[at - 1] ?? 0));
    expect(gaps).toEqual([8, 16, 32, 64, 64, 64, 64, 64]);
    for (;;) {
      now += 10;
      budget.onRecords(now, false);
      if (budget.isOn) break;
      budget.onSleep();
    }
    budget.onRecords(now + 0.03, true);
    budget.onSleep();
    expect(budget.isOn).toBe(true);
  });
});
