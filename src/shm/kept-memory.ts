// SPDX-License-Identifier: MIT
// Outboxes that peers keep behind the end of their sessions: looked at until they have let go of them.
import { nowMs, setTimeout } from '../clock.ts';
import type { NativeAddon } from '../native.ts';

const firstPauseMs = 20;
const lastPauseMs = 5_000;

const comesBackWithinMs = 1_000;

let isUnderWay = false;
let lastClosedAt = Number.NEGATIVE_INFINITY;

/** A ring of this thread was closed a moment ago: its memory may come back, once both sides have unmapped it. */
export function isComingBack(): boolean {
  return nowMs() - lastClosedAt < comesBackWithinMs;
}

/**
 * A ring was closed. Looks soon, and then less and less often for as long as a peer keeps something. Keeps no
 * process alive.
 */
export function sweepSoon(native: NativeAddon): void {
  lastClosedAt = nowMs();
  if (isUnderWay) return;
  isUnderWay = true;
  sweepAfter(firstPauseMs, Number.POSITIVE_INFINITY, native);
}

function sweepAfter(pauseMs: number, before: number, native: NativeAddon): void {
  const sweep = (): void => {
    const left = native.sweepOutboxes();
    const nextMs = left < before ? firstPauseMs : Math.min(2 * pauseMs, lastPauseMs);
    if (left > 0) sweepAfter(nextMs, left, native);
    else isUnderWay = false;
  };
  setTimeout(sweep, pauseMs).unref();
}
