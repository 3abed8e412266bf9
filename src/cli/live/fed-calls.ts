// SPDX-License-Identifier: MIT
// The calls of a recording: those of all threads of a process, each once, with its last change.
import type { InspectedCalls } from '../../rendezvous/inspection-service.ts';
import type { SampledCall } from '../../rpc/counting/call-sampler.ts';

/** A call of a sample, with the thread in which it was seen. */
export interface FedCall extends SampledCall {
  /** 0: the main thread. */
  readonly threadId: number;
  /** 1, 2, 3 … for each change of any call. */
  readonly change: number;
  /** Milliseconds since 1970 at which it began. */
  readonly beganAtMs: number;
}

/** Calls that are kept: later ones take the place of the oldest. */
export const keptCalls = 2_000;

/** The newest calls of a recording. */
export class FedCalls {
  readonly #calls = new Map<string, FedCall>();
  #lastChange: number;
  #missed = 0;

  constructor(lastChange = 0) {
    this.#lastChange = lastChange;
  }

  /** Changes of calls that the process has left out. */
  get missed(): number {
    return this.#missed;
  }

  /** The calls of the next recording: numbers of changes go on. */
  next(): FedCalls {
    return new FedCalls(this.#lastChange);
  }

  /** The calls that have changed since a change, the oldest first. */
  since(change: number): readonly FedCall[] {
    return [...this.#calls.values()].filter((call) => call.change > change);
  }

  /** The calls of a message, which was checked. */
  add({ atMs, calls, missed }: InspectedCalls, threadId: number): void {
    this.#missed += missed;
    const clocksApartMs = Date.now() - atMs;
    for (const call of calls) {
      this.#lastChange += 1;
      const key = `${threadId}.${call.sequence}`;
      const beganAtMs = this.#calls.get(key)?.beganAtMs ?? call.beganMs + clocksApartMs;
      this.#calls.set(key, { ...call, threadId, change: this.#lastChange, beganAtMs });
    }
    for (const key of this.#calls.keys()) {
      if (this.#calls.size <= keptCalls) break;
      this.#calls.delete(key);
    }
  }
}
