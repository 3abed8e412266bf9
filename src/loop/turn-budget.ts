// SPDX-License-Identifier: MIT
// The time that arriving frames of all sessions of one event loop may take of one turn of the event
// loop: `tuning.pollTurnMaxMs`. Frames beyond it wait for the poller, which serves sessions in
// turns.

import type { Clock } from '../base/clock.ts';
import { tuning } from '../base/limits/internal-limits.ts';

// A turn with less than this in each callback needs no count: one call, or a few.
const unnoticedMs = 0.05;

export class TurnBudget {
  readonly #clock: Clock;
  #spentMs = 0;
  #isResetQueued = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Milliseconds that one session may take where `spent` of the turn are used up, 0 if none are
   * left: what is left, so that the last session does not take a whole session's time beyond the
   * end.
   */
  shareLeftMs(spent = this.#spentMs): number {
    const left = tuning.pollTurnMaxMs - spent;
    if (left <= 0) return 0;
    return Math.min(tuning.drainMaxMs, Math.max(left, tuning.drainLeastMs));
  }

  /** Notes that a session has used `ms` milliseconds of this turn. */
  spend(ms: number): void {
    if (ms < unnoticedMs) return;
    this.#spentMs += ms;
    if (this.#isResetQueued) return;
    this.#isResetQueued = true;
    this.#clock.setImmediate(reset, this);
  }

  /** A turn is over. */
  reset(): void {
    this.#isResetQueued = false;
    this.#spentMs = 0;
  }
}

function reset(budget: TurnBudget): void {
  budget.reset();
}
