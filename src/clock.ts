// SPDX-License-Identifier: MIT
// Time and turns of the event loop, taken from Node once, when this module is loaded. Test runners that fake timers replace
// the globals: a session that used those would stand still with the fake clock, and stay so behind it.
import { performance } from 'node:perf_hooks';
import * as timers from 'node:timers';

export const { clearTimeout, setImmediate, setTimeout } = timers;

/** Milliseconds since the process began: steps of the wall clock do not move it. */
export const nowMs: () => number = performance.now.bind(performance);

/** Calls back before the event loop goes on. */
export const nextTick: typeof process.nextTick = process.nextTick;
