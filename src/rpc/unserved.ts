// SPDX-License-Identifier: MIT
// Requests that came before anything is served. They wait for `serve()`, bounded by their window and their deadlines.
import { setImmediate } from '../clock.ts';
import { Fifo } from '../fifo.ts';
import type { IncomingCall } from './incoming-call.ts';
import type { WaitingPlace, Waits } from './waits.ts';

/** A request that waits: in memory of its own, or a stream. */
export interface UnservedRequest {
  readonly call: IncomingCall;
  /** undefined: a stream of requests. */
  readonly bytes: Uint8Array | undefined;
}

export class Unserved implements WaitingPlace {
  readonly waitReason = 'serve';
  waiting = 0;
  departed = 0;
  readonly #waits: Waits;
  readonly #take: (request: UnservedRequest) => void;
  readonly #entries = new Fifo<{ request: UnservedRequest | undefined }>();
  #isScheduled = false;

  /** `take`: is given each request again, in their order. */
  constructor(waits: Waits, take: (request: UnservedRequest) => void) {
    this.#waits = waits;
    this.#take = take;
  }

  /** What waits is given out at the end of this turn. */
  get isAboutToGo(): boolean {
    return this.#isScheduled && this.waiting > 0;
  }

  push(request: UnservedRequest): void {
    const entry: { request: UnservedRequest | undefined } = { request };
    this.#entries.push(entry);
    this.waiting += 1;
    request.call.unpark = () => {
      if (entry.request === undefined) return;
      entry.request = undefined;
      this.waiting -= 1;
      this.departed += 1;
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
    for (let left = this.#entries.length; left > 0; left -= 1) {
      const request = this.#entries.shift()?.request;
      if (request === undefined) continue;
      request.call.unpark?.();
      this.#take(request);
    }
  }

  clear(): void {
    this.#entries.clear();
    this.waiting = 0;
  }
}
