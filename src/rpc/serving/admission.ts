// SPDX-License-Identifier: MIT
// When a request of the peer's is started: at once, or when our answers have left, handlers have
// answered, or a handler's place is free. The memory of answers is bounded here and nowhere else:
// what a handler returned is always sent.

import { setImmediate } from '../../base/clock.ts';
import { tuning } from '../../base/tuning.ts';
import { wireLimits } from '../../base/wire-limits.ts';
import { CallKind } from '../../wire/frame-header.ts';
import { armDeadline, cancelDeadline, deadlineAfter, type Timed } from '../deadline.ts';
import type { Stalls } from '../stalls.ts';
import type { IncomingCall } from './incoming-call.ts';
import { MethodLoad, type Request, WaitingRequests } from './method-load.ts';
import type { Served } from './registry.ts';

/** The part of the session that starts handlers and sends answers. */
export interface AdmissionHost {
  /** Answers wait that a peer which reads would have taken. */
  readonly isUnread: boolean;
  /** Bytes of answers that wait to be sent. */
  readonly answerBytes: number;
  run(call: IncomingCall, request: Request): void;
  /** As many handlers run as we allow, and none has made room. */
  refuse(call: IncomingCall): void;
}

export class Admission implements Timed {
  timer: NodeJS.Timeout | undefined;
  readonly #streamsMax: number;
  readonly #host: AdmissionHost;
  readonly #waits: Stalls;
  readonly #unread = new WaitingRequests<IncomingCall>('answers-unread');
  readonly #notifications = new WaitingRequests<IncomingCall>('handlers');
  // Requests that found as many handlers running as we allow: a cancelled one may be about to
  // settle.
  readonly #crowded = new WaitingRequests<IncomingCall>('handlers');
  readonly #loads = new Map<Served, MethodLoad<IncomingCall>>();
  // Those of them with requests that wait.
  readonly #delayed = new Set<MethodLoad<IncomingCall>>();
  #reservedBytes = 0;
  #running = 0;
  #isStarting = false;

  constructor(streamsMax: number, host: AdmissionHost, waits: Stalls) {
    this.#streamsMax = streamsMax;
    this.#host = host;
    this.#waits = waits;
  }

  /** Handlers at work, those of cancelled calls included. */
  get running(): number {
    return this.#running;
  }

  admit(call: IncomingCall, request: Request): void {
    if (isNotification(call)) return this.#admitNotification(call, request);
    if (answersOnce(request.served)) call.load = this.#loadOf(request.served);
    const isSmall = request.served.isBuiltIn;
    if (!isSmall && (this.#host.isUnread || this.#unread.waiting > 0)) {
      return this.#park(this.#unread, call, request);
    }
    this.#admitAnswering(call, request);
  }

  /** Answers have left, or a handler has settled. */
  startParked(): void {
    // A handler that answers at once comes back here: the loop is under way already.
    if (this.#isStarting) return;
    if (this.#unread.waiting + this.#notifications.waiting + this.#delayed.size === 0) return;
    this.#isStarting = true;
    try {
      this.#startDelayed();
      while (this.#unread.waiting > 0 && !this.#host.isUnread) {
        const next = this.#unread.shift();
        if (next !== undefined) this.#admitAnswering(next.call, next.request);
      }
      while (this.#notifications.waiting > 0 && !this.#isFull && !this.#host.isUnread) {
        const next = this.#notifications.shift();
        if (next !== undefined) this.#host.run(next.call, next.request);
      }
    } finally {
      this.#isStarting = false;
    }
  }

  noteStarted({ load }: IncomingCall): void {
    this.#running += 1;
    if (load === undefined) return;
    load.running += 1;
    this.#reservedBytes += load.expectedBytes ?? 0;
  }

  noteSettled({ load }: IncomingCall): void {
    this.#running -= 1;
    if (load === undefined) return;
    load.running -= 1;
    this.#reservedBytes -= load.expectedBytes ?? 0;
  }

  /** Its handler has answered with so many bytes. */
  noteAnswer({ load }: IncomingCall, bytes: number): void {
    if (load === undefined) return;
    this.#reservedBytes -= load.reservedBytes;
    load.note(bytes);
    this.#reservedBytes += load.reservedBytes;
  }

  /** Starts more requests after a pause: an estimate must not stop a request for ever. */
  onDeadline(): void {
    for (const load of this.#host.isUnread ? [] : this.#delayed) {
      // Of a method that never answered nothing is known, so that long polls get their places soon.
      load.extra += load.expectedBytes === undefined ? tuning.startsAtOnceMax : 1;
    }
    this.startParked();
    this.#arm();
  }

  clear(): void {
    cancelDeadline(this);
    for (const { parked } of this.#delayed) parked.clear();
    this.#delayed.clear();
    for (const place of [this.#unread, this.#notifications, this.#crowded]) place.clear();
  }

  get #isFull(): boolean {
    return this.#running >= this.#streamsMax;
  }

  /**
   * Notifications start in their order and are never refused: they wait for a place, too. Their
   * window bounds them.
   */
  #admitNotification(call: IncomingCall, request: Request): void {
    const mustWait = this.#isFull || this.#host.isUnread || this.#notifications.waiting > 0;
    if (mustWait) this.#park(this.#notifications, call, request);
    else this.#host.run(call, request);
  }

  #admitAnswering(call: IncomingCall, request: Request): void {
    const { load } = call;
    if (request.served.isBuiltIn) return this.#host.run(call, request);
    if (load === undefined) return this.#start(call, request);
    if (load.parked.waiting === 0 && this.#mayStart(load)) return this.#start(call, request);
    this.#park(load.parked, call, request);
    this.#delayed.add(load);
    this.#arm();
  }

  /**
   * A few of each method always; more while the answers to be expected are small, or few enough.
   */
  #mayStart(load: MethodLoad<IncomingCall>): boolean {
    if (load.running < tuning.startsAtOnceMax + load.extra) return true;
    const { expectedBytes } = load;
    if (expectedBytes === undefined) return false;
    if (expectedBytes <= wireLimits.beyondMaxBytes) return true;
    const bytes = this.#host.answerBytes + this.#reservedBytes + expectedBytes;
    return bytes <= tuning.answersMaxBytes;
  }

  #startDelayed(): void {
    for (const load of this.#delayed) {
      while (load.parked.waiting > 0 && !this.#host.isUnread && this.#mayStart(load)) {
        const next = load.parked.shift();
        if (next !== undefined) this.#start(next.call, next.request);
      }
      if (load.parked.waiting > 0) continue;
      load.extra = 0;
      this.#delayed.delete(load);
    }
  }

  #park(place: WaitingRequests<IncomingCall>, call: IncomingCall, request: Request): void {
    place.push(call, request);
    this.#waits.add(place);
  }

  #arm(): void {
    if (this.#delayed.size === 0 || this.timer !== undefined) return;
    armDeadline(this, deadlineAfter(tuning.startPauseMs));
    (this.timer as NodeJS.Timeout | undefined)?.unref();
  }

  #loadOf(served: Served): MethodLoad<IncomingCall> {
    let load = this.#loads.get(served);
    if (load === undefined) {
      load = new MethodLoad<IncomingCall>();
      this.#loads.set(served, load);
    }
    return load;
  }

  #start(call: IncomingCall, request: Request): void {
    if (!this.#isFull) return this.#host.run(call, request);
    this.#park(this.#crowded, call, request);
    if (this.#crowded.waiting === 1) setImmediate(() => this.#thinOut());
  }

  /** A turn later: what still finds no place is refused, so that its caller can try elsewhere. */
  #thinOut(): void {
    for (let next = this.#crowded.shift(); next !== undefined; next = this.#crowded.shift()) {
      if (this.#isFull) this.#host.refuse(next.call);
      else this.#host.run(next.call, next.request);
    }
  }
}

/** Its handler gives one answer, of a size that can be guessed. */
function answersOnce({ isStreaming, response }: Served): boolean {
  return !isStreaming && response !== undefined;
}

function isNotification({ opening }: IncomingCall): boolean {
  return opening.kind === CallKind.notification;
}
