// SPDX-License-Identifier: MIT
// The calls that end when a signal is aborted.
import { onAbort } from '../../base/abort-listeners.ts';
import type { OutgoingCall } from './outgoing-call.ts';

interface Watched {
  readonly calls: Set<OutgoingCall>;
  readonly forget: () => void;
}

export class AbortWatch {
  readonly #watched = new Map<AbortSignal, Watched>();
  readonly #onAborted: (call: OutgoingCall, reason: unknown) => void;

  constructor(onAborted: (call: OutgoingCall, reason: unknown) => void) {
    this.#onAborted = onAborted;
  }

  add(signal: AbortSignal, call: OutgoingCall): void {
    const watched = this.#watched.get(signal);
    if (watched !== undefined) {
      watched.calls.add(call);
      return;
    }
    const calls = new Set([call]);
    const forget = onAbort(signal, () => {
      for (const each of [...calls]) this.#onAborted(each, signal.reason);
    });
    this.#watched.set(signal, { calls, forget });
  }

  remove(signal: AbortSignal, call: OutgoingCall): void {
    const watched = this.#watched.get(signal);
    if (watched === undefined) return;
    watched.calls.delete(call);
    if (watched.calls.size > 0) return;
    this.#watched.delete(signal);
    watched.forget();
  }
}
