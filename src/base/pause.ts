// SPDX-License-Identifier: MIT
// A wait that a signal can end early.
import { onAbort } from './abort-listeners.ts';
import type { Clock } from './clock.ts';

/** Ends the waits of a signal. The reason is given, since Node would make an error otherwise. */
export function endWaits(controller: AbortController): void {
  controller.abort(null);
}

/**
 * Resolves after `ms`, or as soon as `signal` is aborted. Never rejects, leaves no timer or
 * listener. `isReferenced`: the wait keeps the process alive.
 */
export function pause(
  clock: Clock,
  ms: number,
  signal: AbortSignal,
  isReferenced = true,
): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = (): void => {
      clock.clearTimeout(timer);
      forget();
      resolve();
    };
    const timer = clock.setTimeout(done, Math.min(ms, 2_147_483_647));
    if (!isReferenced) timer.unref();
    const forget = onAbort(signal, done);
  });
}
