// SPDX-License-Identifier: MIT
// The calls of a recording: those of all threads of a process, each once, with its last change.
import type { InspectionPath } from '../../rendezvous/inspection-paths.ts';
import type { InspectedCalls } from '../../rendezvous/inspection-service.ts';
import type { SampledCall } from '../../rpc/counting/call-sampler.ts';

/** A call of a sample, with the thread in which it was seen. */
export interface FedCall extends SampledCall {
  /** 0: the main thread. */
  readonly threadId: number;
  /** The call in the process: sequences are unique in one copy of the package in a thread. */
  readonly key: string;
  /** Numbers of later changes are larger. */
  readonly change: number;
  /** Milliseconds since 1970 at which it began. */
  readonly beganAtMs: number;
}

/** Calls that are kept: later ones take the place of the oldest. */
export const keptCalls = 2_000;

/** The copy of the package in a thread from which calls come. */
type Place = Pick<InspectionPath, 'threadId' | 'copy'>;

/** Calls that are dropped at once where there are too many, so that the search for them is rare. */
const droppedAtOnce = 100;

/** Makes room: the oldest of the calls that have ended go first, since others are looked for. */
export function dropOldest(calls: Map<string, { readonly endedMs: number | undefined }>): void {
  const over = calls.size - keptCalls;
  if (over <= 0) return;
  let left = over + droppedAtOnce;
  for (const [key, { endedMs }] of calls) {
    if (left === 0) return;
    if (endedMs === undefined) continue;
    calls.delete(key);
    left -= 1;
  }
  for (const key of calls.keys()) {
    if (calls.size <= keptCalls) return;
    calls.delete(key);
  }
}

/** Of all recordings, since a page asks for what is behind a number. */
let lastChange = 0;

/** The newest calls of a recording. */
export class FedCalls {
  readonly #calls = new Map<string, FedCall>();
  #missed = 0;

  /** Changes of calls that the process has left out. */
  get missed(): number {
    return this.#missed;
  }

  /** The calls that have changed since a change, the oldest first. */
  since(change: number): readonly FedCall[] {
    return [...this.#calls.values()].filter((call) => call.change > change);
  }

  /** The calls of a message, which was checked. */
  add({ atMs, calls, missed }: InspectedCalls, { threadId, copy }: Place): void {
    this.#missed += missed;
    const clocksApartMs = Date.now() - atMs;
    for (const call of calls) {
      lastChange += 1;
      const key = `${threadId}-${copy}.${call.sequence}`;
      const beganAtMs = this.#calls.get(key)?.beganAtMs ?? call.beganMs + clocksApartMs;
      this.#calls.set(key, { ...call, threadId, key, change: lastChange, beganAtMs });
    }
    dropOldest(this.#calls);
  }
}
