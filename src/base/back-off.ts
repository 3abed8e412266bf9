// SPDX-License-Identifier: MIT
// The pause before the next try: longer each time, and different for each of many that try.
import type { Random } from './random.ts';

/** The first pause and the longest one. */
export interface BackOff {
  readonly firstMs: number;
  readonly maxMs: number;
}

const growth = 1.6;
const jitter = 0.2;

/** Pause before the n-th repetition (from 0), in milliseconds. */
export function backOffMs(repetition: number, { firstMs, maxMs }: BackOff, random: Random): number {
  const ms = Math.min(maxMs, firstMs * growth ** repetition);
  return ms * (1 + jitter * (2 * random() - 1));
}

/**
 * The same, drawn between a half and the whole of it, which is never longer than `maxMs`: many
 * clients that lost the same listener do not come back together.
 */
export function spreadBackOffMs(repetition: number, backOff: BackOff, random: Random): number {
  const ms = Math.min(backOff.maxMs, backOff.firstMs * growth ** repetition);
  return ms * (1 - random() / 2);
}
