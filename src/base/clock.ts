// SPDX-License-Identifier: MIT
// Time and turns of the event loop: the interface that sessions and transports are given, and
// Node's own, taken once, when this module is loaded. Test runners that fake timers replace the
// globals: a session that used those would stop with the fake clock, and not recover after it.
import { performance } from 'node:perf_hooks';
import * as timers from 'node:timers';

/** A timer that was set. */
export interface Timer {
  /** The timer keeps no process alive. */
  unref(): unknown;
  /** The timer keeps the process alive again. */
  ref(): unknown;
}

/** Time and turns of one event loop. All durations and instants are milliseconds. */
export interface Clock {
  /** Milliseconds since an instant of its own: steps of the wall clock do not move it. */
  nowMs(): number;
  /**
   * Milliseconds on the machine's monotonic clock, the same for each of its processes: whole, the
   * low 32 bits.
   */
  machineMs(): number;
  /** Calls back once, at the earliest after `ms`. */
  setTimeout<A extends unknown[]>(then: (...args: A) => void, ms: number, ...args: A): Timer;
  /** Does nothing for a timer that has fired, or for none. */
  clearTimeout(timer: Timer | undefined): void;
  /** Calls back in the next turn of the event loop. */
  setImmediate<A extends unknown[]>(then: (...args: A) => void, ...args: A): void;
  /** Calls back before the event loop goes on. */
  nextTick<A extends unknown[]>(then: (...args: A) => void, ...args: A): void;
  /** The timers that deadlines share (`rpc/deadline.ts`); a clock that stands still drops them. */
  deadlines?: object | undefined;
}

const { clearTimeout, setImmediate, setTimeout } = timers;
const { nextTick } = process;
const nowMs = performance.now.bind(performance);

// `process.hrtime()` counts from an instant that all processes of the machine share
// (CLOCK_MONOTONIC on Linux).
const [seconds, nanoseconds] = process.hrtime();
const machineOffsetMs = seconds * 1e3 + nanoseconds / 1e6 - nowMs();

/** The clock and the event loop of this thread. */
export const systemClock: Clock = {
  nowMs,
  machineMs: () => Math.floor(nowMs() + machineOffsetMs) >>> 0,
  setTimeout: setTimeout as Clock['setTimeout'],
  clearTimeout: clearTimeout as Clock['clearTimeout'],
  setImmediate: setImmediate as Clock['setImmediate'],
  nextTick: nextTick as Clock['nextTick'],
  deadlines: undefined,
};

/** Throws an error of the program's own code in a task of its own, where it is uncaught. */
export function throwLater(error: unknown): void {
  setImmediate(() => {
    throw error;
  });
}
