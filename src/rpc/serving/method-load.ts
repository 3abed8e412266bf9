// SPDX-License-Identifier: MIT
// Requests of the peer's that wait to be started, and what is known of the answers of their
// methods.
import type { WaitReason } from '../../base/wait-reasons.ts';
import { Departures, type WaitPlace, type WaitQueue } from '../stalls.ts';
import type { Served } from './registry.ts';

/** A call that can wait. */
interface Waiting {
  /** undefined: it does not wait. */
  place: WaitPlace | undefined;
}

/** A request that waits to be started. */
export interface WaitingRequest<Call> {
  readonly call: Call;
  readonly served: Served;
  /** The decoded request, or the reader of a stream of them. */
  readonly value: unknown;
}

/** Requests that wait for one reason, in their order. */
export class WaitingRequests<Call extends Waiting> implements WaitQueue {
  readonly waitReason: WaitReason;
  readonly #all: { waiting: number };
  // A Set: a call that is over is taken out of the middle, and nothing of it stays.
  readonly #entries = new Set<WaitingRequest<Call>>();
  readonly departed = new Departures();

  /** `all`: the requests of all places of the session. */
  constructor(waitReason: WaitReason, all: { waiting: number }) {
    this.waitReason = waitReason;
    this.#all = all;
  }

  get waiting(): number {
    return this.#entries.size;
  }

  push(request: WaitingRequest<Call>): void {
    const { call } = request;
    this.#entries.add(request);
    this.#all.waiting += 1;
    const remove = (): void => {
      call.place = undefined; // it holds the request
      if (!this.#entries.delete(request)) return;
      this.#all.waiting -= 1;
      this.departed.add();
    };
    call.place = { waitReason: this.waitReason, remove };
  }

  /** The first one, which does not wait any longer. */
  shift(): WaitingRequest<Call> | undefined {
    for (const first of this.#entries) {
      first.call.place?.remove();
      return first;
    }
    return undefined;
  }

  clear(): void {
    this.#all.waiting -= this.#entries.size;
    this.#entries.clear();
  }
}

/** The running handlers of one method in a session, and the size of its answers. */
export class MethodLoad<Call extends Waiting> {
  readonly parked: WaitingRequests<Call>;
  running = 0;
  /** Expected bytes of an answer, the largest of recent ones; undefined before the first one. */
  expectedBytes: number | undefined;
  /** Handlers that may run beyond `startsAtOnceMax`, raised after each pause without progress. */
  extra = 0;

  constructor(all: { waiting: number }) {
    this.parked = new WaitingRequests<Call>('answers-expected', all);
  }

  /** An answer had so many bytes. Returns by how much the expected ones have grown. */
  note(bytes: number): number {
    const before = this.expectedBytes ?? 0;
    const growth = bytes >= before ? bytes - before : (bytes - before) / 8;
    this.expectedBytes = before + growth;
    return growth;
  }
}
