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

/**
 * As {@link pause}, over at least ten turns of the event loop. A timer that is set after long work
 * in the same turn has counted from the begin of that turn, and is due before the loop has polled.
 */
export async function pauseInTurns(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await pause(clock, ms / 10, signal);
}
