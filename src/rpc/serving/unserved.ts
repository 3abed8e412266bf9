// SPDX-License-Identifier: MIT
// Requests that came before anything is served. They wait for `serve()`, bounded by their window
// and their deadlines.
import { setImmediate } from '../../base/clock.ts';
import type { Stalls, WaitingPlace } from '../stalls.ts';
import type { IncomingCall } from './incoming-call.ts';

/** A request that waits: in memory of its own, or a stream. */
export interface UnservedRequest {
  readonly call: IncomingCall;
  /** undefined: a stream of requests. */
  readonly bytes: Uint8Array | undefined;
}

export class Unserved implements WaitingPlace {
  readonly waitReason = 'serve';
  departed = 0;
  readonly #waits: Stalls;
  readonly #take: (request: UnservedRequest) => void;
  readonly #entries = new Set<UnservedRequest>();
  #isScheduled = false;

  /** `take`: is given each request again, in their order. */
  constructor(waits: Stalls, take: (request: UnservedRequest) => void) {
    this.#waits = waits;
    this.#take = take;
  }

  /** The requests that wait are given out at the end of this turn. */
  get isAboutToGo(): boolean {
    return this.#isScheduled && this.waiting > 0;
  }

  get waiting(): number {
    return this.#entries.size;
  }

  push(request: UnservedRequest): void {
    this.#entries.add(request);
    request.call.unpark = () => {
      request.call.unpark = undefined; // it holds the request
      if (this.#entries.delete(request)) this.departed += 1;
    };
    this.#waits.add(this);
  }

  /** Something is served from now on. A turn later, since one `serve()` follows the other. */
  onServed(then: () => void): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      then();
      this.takeAll();
    });
  }

  /** Gives out what waits. What has to wait again goes to the end, in the same order. */
  takeAll(): void {
    for (const request of [...this.#entries]) {
      if (!this.#entries.has(request)) continue; // its call ended meanwhile
      request.call.unpark?.();
      this.#take(request);
    }
  }

  clear(): void {
    this.#entries.clear();
  }
}
