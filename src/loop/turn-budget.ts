// SPDX-License-Identifier: MIT
// The time that arriving frames of all sessions of this thread may take of one turn of the event
// loop: `tuning.pollTurnMaxMs`. Frames beyond it wait for the poller, which serves sessions in
// turns.

import { setImmediate } from '../base/clock.ts';
import { tuning } from '../base/limits/internal-limits.ts';

// A turn with less than this in each callback needs no count: one call, or a few.
const unnoticedMs = 0.05;

let spentMs = 0;
let isResetQueued = false;

/**
 * Milliseconds that one session may take where `spent` of the turn are used up, 0 if none are left:
 * what is left, so that the last session does not take a whole session's time beyond the end.
 */
export function shareLeftMs(spent = spentMs): number {
  const left = tuning.pollTurnMaxMs - spent;
  if (left <= 0) return 0;
  return Math.min(tuning.drainMaxMs, Math.max(left, tuning.drainLeastMs));
}

/** Notes that a session has used `ms` milliseconds of this turn. */
export function spendTurn(ms: number): void {
  if (ms < unnoticedMs) return;
  spentMs += ms;
  if (isResetQueued) return;
  isResetQueued = true;
  setImmediate(reset);
}

function reset(): void {
  isResetQueued = false;
  spentMs = 0;
}
