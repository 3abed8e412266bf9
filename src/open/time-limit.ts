// SPDX-License-Identifier: MIT
// An attempt with a time limit.
import { onAbortOf } from '../base/abort-listeners.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { armDeadline, cancelDeadline, deadlineAfter, type Timed } from '../rpc/deadline.ts';

/**
 * Runs one attempt under a deadline of its own, and the caller's signal.
 * @throws {SidecallError} `ERR_SIDECALL_HELLO_TIMEOUT`, or `signal.reason`.
 */
export async function withDeadline<T>(
  what: string,
  timeoutMs: number,
  signal: AbortSignal | undefined,
  attempt: (signal: AbortSignal) => Promise<T>,
  clock: Clock = systemClock,
): Promise<T> {
  const controller = new AbortController();
  const onDeadline = (): void => controller.abort(notInTime(what, timeoutMs));
  const timed: Timed = { timer: undefined, onDeadline };
  armDeadline(clock, timed, deadlineAfter(clock, timeoutMs));
  // The attempt owns what it was given, so it runs (and cleans up) even where it is over already.
  const forget = onAbortOf(signal, (reason) => controller.abort(reason));
  try {
    return await attempt(controller.signal);
  } finally {
    cancelDeadline(timed);
    forget();
  }
}

/** The error of an attempt whose time is over. */
export function notInTime(what: string, timeoutMs: number): SidecallError {
  const text = `${what}: not finished within ${timeoutMs} ms`;
  return new SidecallError('ERR_SIDECALL_HELLO_TIMEOUT', text);
}
