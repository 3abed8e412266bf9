// SPDX-License-Identifier: MIT
// The calls that end when a signal is aborted.
import { onAbort } from '../../base/abort-listeners.ts';

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
    const forget = onAbort(signal, () => {
      for (const each of [...calls]) each.onAborted(signal.reason);
    });
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
