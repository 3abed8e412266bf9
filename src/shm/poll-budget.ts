// SPDX-License-Identifier: MIT
// The time that a ring is polled after its last record before it sleeps. Polling pays for peers
// that answer soon: where it finds no records repeatedly it stops, and is tried again now and then.

import { tuning } from '../base/limits/internal-limits.ts';

const midwayBudgets = 4;
// Polls with records, without a sleep between, after which traffic counts as dense and is
// polled longer: the pauses of such a peer are its garbage collections, and a sleep costs both
// sides more than they do.
const denseLooks = 32;
const denseBudgets = 8;

/** Decides for one session; instants in milliseconds, on any clock. */
export class PollBudget {
  readonly #budgetMs: number;
  #failures = 0;
  #isOff: boolean;
  // While polling is off: wake-ups until one budget is spent on a trial. The number doubles
  // after each trial in vain.
  #probeAfter: number = tuning.pollFailuresMax;
  #wakes = 0;
  #lastRecordAt = Number.NEGATIVE_INFINITY;
  #lastActiveAt = Number.NEGATIVE_INFINITY;
  #isProbing = false;
  // Polls that found records since the last sleep.
  #finds = 0;

  /** `budgetUs` 0: never polls. */
  constructor(budgetUs: number) {
    this.#budgetMs = budgetUs / 1000;
    this.#isOff = budgetUs === 0;
  }

  /** Is it polled at present? */
  get isOn(): boolean {
    return !this.#isOff || this.#isProbing;
  }

  /** Records came. `isPolled`: by looking, not by a doorbell. */
  onRecords(now: number, isPolled: boolean): void {
    const gapMs = now - this.#lastRecordAt;
    this.#lastRecordAt = now;
    this.#lastActiveAt = now;
    if (this.#budgetMs === 0) return;
    this.#finds = isPolled ? this.#finds + 1 : 0;
    if (isPolled || gapMs < this.#budgetMs) {
      this.#failures = 0;
      this.#isOff = false;
      this.#isProbing = false;
      this.#probeAfter = tuning.pollFailuresMax;
      return;
    }
    if (!this.#isOff) return;
    this.#wakes += 1;
    if (this.#wakes < this.#probeAfter) return;
    this.#wakes = 0;
    this.#isProbing = true;
  }

  /**
   * Records were written: writing a long message takes as long as a budget, and its answer comes
   * later.
   */
  onWritten(now: number): void {
    this.#lastActiveAt = now;
  }

  /** May it sleep now? `isMidway`: in long messages, of which each piece takes the peer a while. */
  isSpent(now: number, isMidway = false): boolean {
    const isDense = this.#finds >= denseLooks;
    const budgets = isDense ? denseBudgets : isMidway ? midwayBudgets : 1;
    return !this.isOn || now - this.#lastActiveAt >= budgets * this.#budgetMs;
  }

  /** It goes to sleep: the budget ended without another record. */
  onSleep(): void {
    this.#finds = 0;
    if (this.#budgetMs === 0) return;
    if (this.#isProbing) {
      this.#isProbing = false;
      this.#probeAfter = Math.min(2 * this.#probeAfter, tuning.pollProbeWakesMax);
      return;
    }
    this.#failures += 1;
    if (this.#failures >= tuning.pollFailuresMax) this.#isOff = true;
  }
}
