// SPDX-License-Identifier: MIT
// Time and turns of the event loop, taken from Node once, when this module is loaded. Test runners
// that fake timers replace the globals: a session that used those would stop with the fake clock,
// and not recover after it.
import { performance } from 'node:perf_hooks';
import * as timers from 'node:timers';

export const { clearTimeout, setImmediate, setTimeout } = timers;

/** Milliseconds since the process began: steps of the wall clock do not move it. */
export const nowMs: () => number = performance.now.bind(performance);

// `process.hrtime()` counts from an instant that all processes of the machine share
// (CLOCK_MONOTONIC on Linux).
const [seconds, nanoseconds] = process.hrtime();
const machineOffsetMs = seconds * 1e3 + nanoseconds / 1e6 - nowMs();

/**
 * Milliseconds on the machine's monotonic clock, the same for each of its processes: whole, the low
 * 32 bits.
 */
export function machineMs(): number {
  return Math.floor(nowMs() + machineOffsetMs) >>> 0;
}

/** Calls back before the event loop goes on. */
export const nextTick: typeof process.nextTick = process.nextTick;
