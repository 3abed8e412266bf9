// SPDX-License-Identifier: MIT
// Admission decides when a request of the peer's is started: at once, or when our answers have
// left, handlers have answered, or a handler's place is free. The memory of answers is bounded here
// and nowhere else: what a handler returned is always sent.
import { tuning } from '../../base/limits/internal-limits.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { CallKind } from '../../wire/frame-header.ts';
import {
  armDeadline,
  cancelDeadline,
  deadlineAfter,
  type SharedTimer,
  type Timed,
} from '../deadline.ts';
import type { AcceptedCalls } from './accepted-calls.ts';
import type { IncomingCall } from './incoming-call.ts';
import { MethodLoad, type WaitingRequest, WaitingRequests } from './method-load.ts';
import type { Served } from './registry.ts';

type Waiting = WaitingRequest<IncomingCall>;

export class Admission implements Timed {
  timer: SharedTimer | undefined;
  readonly #calls: AcceptedCalls<IncomingCall>;
  /** The requests that wait here. */
  readonly #all = { waiting: 0 };
  readonly #unread = new WaitingRequests<IncomingCall>('answers-unread', this.#all);
  readonly #notifications = new WaitingRequests<IncomingCall>('handlers', this.#all);
  // Requests that found as many handlers running as we allow. A cancelled handler may be about to
  // settle, so they wait for a turn; those that find no place then are refused.
  readonly #crowded = new WaitingRequests<IncomingCall>('handlers', this.#all);
  readonly #loads = new Map<Served, MethodLoad<IncomingCall>>();
  #lastServed: Served | undefined;
  #lastLoad: MethodLoad<IncomingCall> | undefined;
  // Loads of methods with requests that wait.
  readonly #delayed = new Set<MethodLoad<IncomingCall>>();
  #reservedBytes = 0;
  #running = 0;
  /** Handlers that were started, ever. */
  started = 0;
  #isCrowdedDue = false;

  constructor(calls: AcceptedCalls<IncomingCall>) {
    this.#calls = calls;
  }

  /** Handlers at work, those of cancelled calls included. */
  get running(): number {
    return this.#running;
  }

  /** As many handlers run as we allow. */
  get isFull(): boolean {
    return this.#running >= this.#calls.shared.own.streamsMax;
  }

  /** Returns whether the handler may be called now; else the request waits for {@link next}. */
  admit(call: IncomingCall, served: Served, value: unknown): boolean {
    if (call.opening.kind === CallKind.notification) {
      return this.#admitNotification(call, served, value);
    }
    const isAtOnce = served.isBuiltIn || this.#calls.shared.startsAll;
    // The handler gives one answer, of a size that can be estimated.
    if (!served.isStreaming && served.response !== undefined) {
      const isLast = served === this.#lastServed;
      call.load = isLast ? this.#lastLoad : this.#loadOf(served);
    }
    const isBehind = this.#all.waiting > 0 && this.#unread.waiting > 0;
    if (!isAtOnce && (isBehind || this.#calls.isUnread)) {
      return this.#wait(this.#unread, { call, served, value });
    }
    return this.#admitAnswering(call, served, value);
  }

  /** The next request that may be started by now; undefined: there is none. */
  next(): Waiting | undefined {
    if (this.#unread.waiting + this.#notifications.waiting + this.#delayed.size === 0) {
      return undefined;
    }
    return this.#nextDelayed() ?? this.#nextUnread() ?? this.#nextNotification();
  }

  /** Requests wait to be started, or have waited. */
  get hasWaiting(): boolean {
    return this.#all.waiting > 0 || this.#delayed.size > 0;
  }

  /** The next request whose turn of waiting for a handler's place is over. */
  nextCrowded(): Waiting | undefined {
    if (!this.#isCrowdedDue) return undefined;
    const next = this.#crowded.shift();
    if (next === undefined) this.#isCrowdedDue = false;
    return next;
  }

  noteStarted({ load }: IncomingCall): void {
    this.#running += 1;
    this.started += 1;
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

  /** Notes that the handler has answered with `bytes` bytes. */
  noteAnswer({ load }: IncomingCall, bytes: number): void {
    if (load === undefined) return;
    this.#reservedBytes += load.running * load.note(bytes);
  }

  /** Starts more requests after a pause: an estimate must not stop a request for ever. */
  onDeadline(): void {
    for (const load of this.#calls.isUnread ? [] : this.#delayed) {
      // A method that never answered may be a long poll, so it gets many places at once.
      load.extra += load.expectedBytes === undefined ? tuning.startsAtOnceMax : 1;
    }
    this.#calls.shared.onProgress();
    this.#arm();
  }

  clear(): void {
    cancelDeadline(this);
    for (const { parked } of this.#delayed) parked.clear();
    this.#delayed.clear();
    for (const place of [this.#unread, this.#notifications, this.#crowded]) place.clear();
  }

  /**
   * Notifications start in their order and are never refused: they wait for a place, too. Their
   * window bounds them.
   */
  #admitNotification(call: IncomingCall, served: Served, value: unknown): boolean {
    const mustWait = this.isFull || this.#calls.isUnread || this.#notifications.waiting > 0;
    return mustWait ? this.#wait(this.#notifications, { call, served, value }) : true;
  }

  #admitAnswering(call: IncomingCall, served: Served, value: unknown): boolean {
    const { load } = call;
    if (served.isBuiltIn || this.#calls.shared.startsAll) return true;
    const isBehind = this.#all.waiting > 0 && load !== undefined && load.parked.waiting > 0;
    const isFew = load === undefined || load.running < tuning.startsAtOnceMax + load.extra;
    if (load === undefined || (!isBehind && (isFew || this.#mayStart(load)))) {
      const isPlace = this.#running < this.#calls.shared.own.streamsMax;
      return isPlace || this.#findPlace(call, served, value);
    }
    this.#wait(load.parked, { call, served, value });
    this.#delayed.add(load);
    this.#arm();
    return false;
  }

  /**
   * True: one more handler of the method may start. A few always may; more while the expected
   * answers are short, or few enough.
   */
  #mayStart(load: MethodLoad<IncomingCall>): boolean {
    if (load.running < tuning.startsAtOnceMax + load.extra) return true;
    const { expectedBytes } = load;
    if (expectedBytes === undefined) return false;
    if (expectedBytes <= wireLimits.beyondMaxBytes) return true;
    const bytes = this.#calls.answerBytes + this.#reservedBytes + expectedBytes;
    return bytes <= tuning.answersMaxBytes;
  }

  #nextDelayed(): Waiting | undefined {
    for (const load of this.#delayed) {
      while (load.parked.waiting > 0 && !this.#calls.isUnread && this.#mayStart(load)) {
        const next = load.parked.shift();
        if (next === undefined) continue;
        if (this.#findPlace(next.call, next.served, next.value)) return next;
      }
      if (load.parked.waiting > 0) continue;
      load.extra = 0;
      this.#delayed.delete(load);
    }
    return undefined;
  }

  #nextUnread(): Waiting | undefined {
    while (this.#unread.waiting > 0 && !this.#calls.isUnread) {
      const next = this.#unread.shift();
      if (next === undefined) continue;
      if (this.#admitAnswering(next.call, next.served, next.value)) return next;
    }
    return undefined;
  }

  #nextNotification(): Waiting | undefined {
    const mayStart = !this.isFull && !this.#calls.isUnread;
    return mayStart ? this.#notifications.shift() : undefined;
  }

  /** Returns whether there is a place for one more handler; else the request waits for a turn. */
  #findPlace(call: IncomingCall, served: Served, value: unknown): boolean {
    if (this.#running < this.#calls.shared.own.streamsMax) return true;
    this.#wait(this.#crowded, { call, served, value });
    if (this.#crowded.waiting === 1) {
      this.#calls.shared.clock.setImmediate(() => {
        this.#isCrowdedDue = true;
        this.#calls.shared.onProgress();
      });
    }
    return false;
  }

  #wait(place: WaitingRequests<IncomingCall>, request: Waiting): false {
    place.push(request);
    this.#calls.shared.waits.add(place);
    return false;
  }

  #arm(): void {
    if (this.#delayed.size === 0 || this.timer !== undefined) return;
    const { clock } = this.#calls.shared;
    armDeadline(clock, this, deadlineAfter(clock, tuning.startPauseMs), false);
  }

  #loadOf(served: Served): MethodLoad<IncomingCall> {
    let load = this.#loads.get(served);
    if (load === undefined) {
      load = new MethodLoad<IncomingCall>(this.#all);
      this.#loads.set(served, load);
    }
    this.#lastServed = served;
    this.#lastLoad = load;
    return load;
  }
}
