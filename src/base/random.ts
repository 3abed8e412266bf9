// SPDX-License-Identifier: MIT
// Chance, as sessions are given it.

/** A number from 0 up to but not including 1. */
export type Random = () => number;

/** Chance that the next run does not repeat. */
export const systemRandom: Random = Math.random;
