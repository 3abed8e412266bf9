// SPDX-License-Identifier: MIT
// Waiting that can be given up: by a signal, or by time.
import { SidecallError } from '../errors.ts';
import { ranges } from '../limits.ts';
import { checkInteger, checkKeys, checkSignal } from '../options.ts';
import { armDeadline, cancelDeadline, deadlineAfter, type Timed } from './deadline.ts';

/** How long one wait may last. */
export interface WaitOptions {
  /** Milliseconds. Default: no limit; 0 to 2,147,483,647. Then it rejects with `DEADLINE_EXCEEDED`. */
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
 * Resolves and rejects as `promise` does, unless time or signal end the wait before: then `giveUp(reason)`
 * takes back what is waited for, and the reason is the outcome. Where it cannot (false), it was too late.
 */
export async function waitFor<T>(
  promise: Promise<T>,
  { timeoutMs, signal }: WaitOptions,
  giveUp: (reason: unknown) => boolean,
): Promise<T> {
  if (timeoutMs === undefined && signal === undefined) return promise;
  let stop: (reason: unknown) => void = () => undefined;
  const stopped = new Promise<never>((_resolve, reject) => {
    stop = (reason) => {
      if (giveUp(reason)) reject(reason);
    };
  });
  stopped.catch(() => undefined);
  const timed: Timed = {
    timer: undefined,
    onDeadline: () => {
      const words = `timeoutMs ${timeoutMs} passed while waiting`;
      stop(new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', words, { delivered: 'no' }));
    },
  };
  const onAbort = (): void => stop(signal?.reason);
  if (signal?.aborted === true) onAbort();
  signal?.addEventListener('abort', onAbort);
  if (timeoutMs !== undefined) armDeadline(timed, deadlineAfter(timeoutMs));
  try {
    return await Promise.race([promise, stopped]);
  } finally {
    signal?.removeEventListener('abort', onAbort);
    cancelDeadline(timed);
  }
}
