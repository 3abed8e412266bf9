// SPDX-License-Identifier: MIT
// Memory of messages that were freed, given back to the kernel in a pause behind a burst: the C
// library keeps it where something that was allocated later lies above it.

import { nativeState } from '../addon/load-addon.ts';
import { systemClock } from '../base/clock.ts';

// As much as a busy process keeps by itself: docs/adr/0008-memory-of-long-messages.md.
const keptMaxBytes = 64 * 1024 * 1024;
const burstBytes = 1024 * 1024;
const firstPauseMs = 1_000;
// Garbage is collected late: a quiet thread is looked at 7 times, in 127 seconds.
const lastPauseMs = 64_000;

// Most bytes between two checks of a process that is quiet.
const quietBytes = 16 * 1024;

let arrivedBytes = 0;
let seenBytes = 0;
let isWatching = false;

/** Notes that `bytes` bytes of messages have arrived. */
export function noteArrived(bytes: number): void {
  arrivedBytes += bytes;
  if (isWatching || arrivedBytes - seenBytes < burstBytes) return;
  isWatching = true;
  seenBytes = arrivedBytes;
  lookAfter(firstPauseMs);
}

function lookAfter(pauseMs: number): void {
  systemClock.setTimeout(look, pauseMs, pauseMs).unref();
}

function look(pauseMs: number): void {
  const isQuiet = arrivedBytes - seenBytes < quietBytes;
  seenBytes = arrivedBytes;
  if (!isQuiet) return lookAfter(firstPauseMs);
  nativeState().addon?.returnFreedBlocks(keptMaxBytes);
  if (pauseMs < lastPauseMs) lookAfter(2 * pauseMs);
  else isWatching = false;
}
