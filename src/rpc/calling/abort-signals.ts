// SPDX-License-Identifier: MIT
// The calls that end when a signal is aborted.
import { drain, onAbort } from '../../base/abort-listeners.ts';

/** A call that a signal can end. */
export interface Abortable {
  onAborted(reason: unknown): void;
}

interface Watched<Call> {
  readonly calls: Set<Call>;
  readonly forget: () => void;
}

/** One listener for each signal, however many calls were given it. */
export class AbortWatch<Call extends Abortable> {
  readonly #watched = new Map<AbortSignal, Watched<Call>>();

  add(signal: AbortSignal, call: Call): void {
    const watched = this.#watched.get(signal);
    if (watched !== undefined) {
      watched.calls.add(call);
      return;
    }
    const calls = new Set([call]);
    const end = (each: Call): void => each.onAborted(signal.reason);
    const forget = onAbort(signal, () => drain(calls, end));
    this.#watched.set(signal, { calls, forget });
  }

  remove(signal: AbortSignal, call: Call): void {
    const watched = this.#watched.get(signal);
    if (watched === undefined) return;
    watched.calls.delete(call);
    if (watched.calls.size > 0) return;
    this.#watched.delete(signal);
    watched.forget();
  }
}
