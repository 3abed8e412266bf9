// SPDX-License-Identifier: MIT
// When a request of the peer's is started: at once, or when our answers have left and a handler's place is free.
import { setImmediate } from '../clock.ts';
import { CallKind } from '../frame.ts';
import type { IncomingCall } from './incoming-call.ts';
import type { Served } from './registry.ts';

/** A request that is whole, or a stream of them. */
export interface Request {
  readonly served: Served;
  readonly value: unknown;
}

/** Who starts what was admitted. */
export interface AdmissionHost {
  /** More answers wait, or are to be expected, than a peer that keeps up would let stand. */
  isBacklogged(answering: number): boolean;
  run(call: IncomingCall, request: Request): void;
  /** As many handlers run as we allow, and none has made room. */
  refuse(call: IncomingCall): void;
}

export class Admission {
  readonly #streamsMax: number;
  readonly #host: AdmissionHost;
  // Requests that wait because our answers do: a peer that does not read gets no more work done. And
  // notifications that wait for a place.
  readonly #parked = new Map<IncomingCall, Request>();
  // Requests that found as many handlers running as we allow: a cancelled one may be about to settle.
  readonly #crowded = new Map<IncomingCall, Request>();
  #parkedNotifications = 0;
  #running = 0;
  // Those of them that will give one answer, of a size that can be guessed.
  #answering = 0;
  #isStarting = false;

  constructor(streamsMax: number, host: AdmissionHost) {
    this.#streamsMax = streamsMax;
    this.#host = host;
  }

  /** Handlers at work, those of cancelled calls included. */
  get running(): number {
    return this.#running;
  }

  get isBacklogged(): boolean {
    return this.#host.isBacklogged(this.#answering);
  }

  admit(call: IncomingCall, request: Request): void {
    if (!this.#mustWait(call)) return this.#start(call, request);
    this.#parked.set(call, request);
    if (isNotification(call)) this.#parkedNotifications += 1;
  }

  /** Answers have left, or a handler has settled. */
  startParked(): void {
    // A handler that answers at once comes back here: the loop is under way already.
    if (this.#parked.size === 0 || this.#isStarting) return;
    this.#isStarting = true;
    try {
      for (const [call, request] of this.#parked) {
        if (this.isBacklogged) return;
        if (isNotification(call) && this.#isFull) continue;
        this.drop(call);
        this.#start(call, request);
      }
    } finally {
      this.#isStarting = false;
    }
  }

  noteStarted({ isStreaming }: Served): void {
    this.#running += 1;
    if (!isStreaming) this.#answering += 1;
  }

  noteSettled({ isStreaming }: Served): void {
    this.#running -= 1;
    if (!isStreaming) this.#answering -= 1;
  }

  /** The call is over, or about to start. */
  drop(call: IncomingCall): void {
    if (this.#parked.delete(call) && isNotification(call)) this.#parkedNotifications -= 1;
    this.#crowded.delete(call);
  }

  clear(): void {
    this.#parked.clear();
    this.#crowded.clear();
    this.#parkedNotifications = 0;
  }

  get #isFull(): boolean {
    return this.#running >= this.#streamsMax;
  }

  /**
   * Notifications start in their order and are never refused, so they wait for a place, too: their window
   * bounds how many.
   */
  #mustWait(call: IncomingCall): boolean {
    if (this.isBacklogged) return true;
    return isNotification(call) && (this.#isFull || this.#parkedNotifications > 0);
  }

  #start(call: IncomingCall, request: Request): void {
    if (!this.#isFull) return this.#host.run(call, request);
    this.#crowded.set(call, request);
    if (this.#crowded.size === 1) setImmediate(() => this.#thinOut());
  }

  /** A turn later: what still finds no place is refused, so that its caller can try elsewhere. */
  #thinOut(): void {
    for (const [call, request] of this.#crowded) {
      this.#crowded.delete(call);
      if (this.#isFull) this.#host.refuse(call);
      else this.#host.run(call, request);
    }
  }
}

function isNotification({ opening }: IncomingCall): boolean {
  return opening.kind === CallKind.notification;
}
