// SPDX-License-Identifier: MIT
// The time that arriving frames of all sessions of this thread may take of one turn of the event
// loop: `tuning.pollTurnMaxMs`. Frames beyond it wait for the poller, which serves sessions in
// turns.

import { setImmediate } from '../base/clock.ts';
import { tuning } from '../base/tuning.ts';

// A turn with less than this in each callback needs no count: one call, or a few.
const unnoticedMs = 0.05;

let spentMs = 0;
let isResetQueued = false;

/** False: other sessions have taken it all. */
export function hasTurnShare(): boolean {
  return spentMs < tuning.pollTurnMaxMs;
}

/** A session took so many milliseconds of this turn. */
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
