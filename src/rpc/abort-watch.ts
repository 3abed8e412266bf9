// SPDX-License-Identifier: MIT
// Which calls end when a signal is aborted. One listener per signal, however many calls share it: Node
// warns of a leak at the eleventh, and signals outlive calls.
import type { OutgoingCall } from './outgoing-call.ts';

export class AbortWatch {
  readonly #calls = new Map<AbortSignal, Set<OutgoingCall>>();
  readonly #onAborted: (call: OutgoingCall, reason: unknown) => void;

  constructor(onAborted: (call: OutgoingCall, reason: unknown) => void) {
    this.#onAborted = onAborted;
  }

  add(signal: AbortSignal, call: OutgoingCall): void {
    const calls = this.#calls.get(signal);
    if (calls !== undefined) {
      calls.add(call);
      return;
    }
    this.#calls.set(signal, new Set([call]));
    signal.addEventListener('abort', this);
  }

  remove(signal: AbortSignal, call: OutgoingCall): void {
    const calls = this.#calls.get(signal);
    if (calls === undefined) return;
    calls.delete(call);
    if (calls.size > 0) return;
    this.#calls.delete(signal);
    signal.removeEventListener('abort', this);
  }

  /** The signals' listener. */
  handleEvent({ target }: Event): void {
    const signal = target as AbortSignal;
    for (const call of [...(this.#calls.get(signal) ?? [])]) this.#onAborted(call, signal.reason);
  }
}
