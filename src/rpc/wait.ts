// SPDX-License-Identifier: MIT
// Waiting that can be given up: by a signal, or by time.

import { onAbort } from '../base/abort-listeners.ts';
import type { Clock } from '../base/clock.ts';
import type { Delivered } from '../base/error-codes.ts';
import { SidecallError } from '../base/errors.ts';
import { quiet } from '../base/ignore-errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { checkInteger, checkKeys, checkSignal } from '../base/misuse.ts';
import { armDeadline, cancelDeadline, deadlineAfter, type Timed } from './deadline.ts';

/** The bounds of one wait. */
export interface WaitOptions {
  /**
   * Milliseconds. Default: no limit; 0 to 2,147,483,647. Then it rejects with
   * `ERR_SIDECALL_DEADLINE_EXCEEDED`.
   */
  readonly timeoutMs?: number | undefined;
  /** Aborting it rejects with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

/** @throws {TypeError | RangeError} for misuse. */
export function checkWait(what: string, options: WaitOptions): void {
  checkKeys(what, options, ['timeoutMs', 'signal']);
  if (options.timeoutMs !== undefined) {
    checkInteger('timeoutMs', options.timeoutMs, ranges.timeoutMs);
  }
  checkSignal(options.signal);
}

/**
 * Settles as `promise` does, unless the time-out or the signal ends the wait before. Then
 * `giveUp` withdraws the operation, and passes its delivery to `reasonOf`; the wait rejects with
 * that reason. Where `giveUp` returns false it was too late, and `promise` decides. A rejection
 * that is not awaited is dropped.
 */
export function waitFor<T>(
  clock: Clock,
  promise: Promise<T>,
  options: WaitOptions,
  giveUp: (reasonOf: (delivered: Delivered) => unknown) => boolean,
): Promise<T> {
  return quiet(wait(clock, promise, options, giveUp));
}

async function wait<T>(
  clock: Clock,
  promise: Promise<T>,
  { timeoutMs, signal }: WaitOptions,
  giveUp: (reasonOf: (delivered: Delivered) => unknown) => boolean,
): Promise<T> {
  if (timeoutMs === undefined && signal === undefined) return promise;
  let stop: (reasonOf: (delivered: Delivered) => unknown) => void = () => undefined;
  const stopped = new Promise<never>((_resolve, reject) => {
    stop = (reasonOf) => {
      let reason: unknown;
      const isGivenUp = giveUp((delivered) => {
        reason = reasonOf(delivered);
        return reason;
      });
      if (isGivenUp) reject(reason);
    };
  });
  stopped.catch(() => undefined);
  const timed: Timed = {
    timer: undefined,
    onDeadline: () => {
      const text = `timeoutMs ${timeoutMs} passed while waiting`;
      stop((delivered) => new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', text, { delivered }));
    },
  };
  const abort = (): void => stop(() => signal?.reason);
  if (signal?.aborted === true) abort();
  const forget = signal && onAbort(signal, abort);
  if (timeoutMs !== undefined) armDeadline(clock, timed, deadlineAfter(clock, timeoutMs));
  try {
    return await Promise.race([promise, stopped]);
  } finally {
    forget?.();
    cancelDeadline(timed);
  }
}
