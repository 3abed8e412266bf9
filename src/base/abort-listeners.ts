// SPDX-License-Identifier: MIT
// A signal gets one listener of ours, however many calls wait for it: Node warns of a leak at the
// eleventh listener, and a signal often outlives the calls that use it.
import { systemClock } from './clock.ts';
import { ignore } from './ignore-errors.ts';
import { tuning } from './limits/internal-limits.ts';

const waiting = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `then` when the signal is aborted. Returns how to end that. NOTE: for a signal that is not
 * aborted yet.
 */
export function onAbort(signal: AbortSignal, then: () => void): () => void {
  let all = waiting.get(signal);
  if (all === undefined) {
    all = new Set();
    waiting.set(signal, all);
  }
  const own = all;
  if (own.size === 0) signal.addEventListener('abort', tell);
  own.add(then);
  return () => {
    if (own.delete(then) && own.size === 0) signal.removeEventListener('abort', tell);
  };
}

/** As {@link onAbort}; at once for a signal that is aborted, and never without a signal. */
export function onAbortOf(
  signal: AbortSignal | undefined,
  then: (reason: unknown) => void,
): () => void {
  if (signal === undefined) return ignore;
  if (!signal.aborted) return onAbort(signal, () => then(signal.reason));
  then(signal.reason);
  return ignore;
}

function tell({ target }: Event): void {
  const all = waiting.get(target as AbortSignal);
  if (all === undefined) return;
  drain(all, (then) => then());
  (target as AbortSignal).removeEventListener('abort', tell);
}

/**
 * Takes the items out and calls `end` for each. One iteration of the event loop ends
 * `tuning.endsPerIterationMax`, since an end costs some microseconds, and as much in its caller.
 */
export function drain<T>(items: Set<T>, end: (item: T) => void): void {
  let left: number = tuning.endsPerIterationMax;
  for (const item of items) {
    if (left === 0) return systemClock.setImmediate(drain<T>, items, end);
    left -= 1;
    items.delete(item);
    end(item);
  }
}
