// SPDX-License-Identifier: MIT
// Requests for methods that are not served yet. They wait for `serve()`, bounded by their window
// and their deadlines.
import { builtInPrefix } from '../contract/service.ts';
import { Departures, type WaitQueue } from '../stalls.ts';
import type { AcceptedCalls } from './accepted-calls.ts';
import type { IncomingCall } from './incoming-call.ts';
import type { Registry } from './registry.ts';

/** A request that waits: in memory of its own, or a stream. */
export interface UnservedRequest {
  readonly call: IncomingCall;
  /** undefined: a stream of requests. */
  readonly bytes: Uint8Array | undefined;
}

export class UnservedRequests implements WaitQueue {
  readonly waitReason = 'serve';
  readonly departed = new Departures();
  readonly #calls: AcceptedCalls<IncomingCall>;
  readonly #registry: Registry;
  readonly #unwatch: () => void;
  readonly #entries = new Set<UnservedRequest>();
  /** Requests that are to be looked at again, by {@link UnservedRequests.next}. */
  due: UnservedRequest[] = [];
  // A session of a listener that was not taken yet: its services may still come.
  #isUntaken: boolean;
  // A method that is not served now will not be served later.
  #isSettled: boolean;
  /** Those that wait are looked at again in the next turn. */
  isScheduled = false;

  constructor(calls: AcceptedCalls<IncomingCall>, registry: Registry, isUntaken: boolean) {
    this.#calls = calls;
    this.#registry = registry;
    this.#isUntaken = isUntaken;
    this.#isSettled = registry.hasServed && !isUntaken;
    this.#unwatch = registry.watch(() => this.#onServed());
  }

  get waiting(): number {
    return this.#entries.size;
  }

  /** The method may still be served, or others that waited for that are about to go first. */
  mustWait(method: string): boolean {
    if (this.#calls.isDraining) return false;
    const isAboutToGo = this.isScheduled && this.#entries.size > 0;
    if (!isAboutToGo && (this.#isSettled || this.#registry.find(method) !== undefined))
      return false;
    return !method.startsWith(builtInPrefix);
  }

  /** The method is served, or will never be. */
  isKnown(method: string): boolean {
    return this.#isSettled || this.#registry.find(method) !== undefined;
  }

  /** The session was taken from its listener. */
  onTaken(): void {
    if (!this.#isUntaken) return;
    this.#isUntaken = false;
    this.#onServed();
  }

  push(request: UnservedRequest): void {
    this.#entries.add(request);
    const remove = (): void => {
      request.call.place = undefined; // it holds the request
      if (this.#entries.delete(request)) this.departed.add();
    };
    request.call.place = { waitReason: this.waitReason, remove };
    this.#calls.shared.waits.add(this);
  }

  /** All that wait are to be looked at again, by {@link UnservedRequests.next}. */
  release(): void {
    this.due = [...this.#entries];
  }

  /** The next request to be looked at again; undefined: there is none. */
  next(): UnservedRequest | undefined {
    for (let request = this.due.shift(); request; request = this.due.shift()) {
      if (!this.#entries.has(request)) continue; // its call ended meanwhile
      request.call.place?.remove();
      return request;
    }
    return undefined;
  }

  /** The session is over. */
  clear(): void {
    this.#unwatch();
    this.#entries.clear();
    this.due = [];
  }

  /** A service came. The requests go on a turn later, since one `serve()` follows the other. */
  #onServed(): void {
    if (this.#isSettled || this.isScheduled) return;
    this.isScheduled = true;
    this.#calls.shared.clock.setImmediate(() => {
      this.isScheduled = false;
      this.#isSettled = this.#registry.hasServed && !this.#isUntaken;
      this.release();
      this.#calls.shared.onProgress();
    });
  }
}
