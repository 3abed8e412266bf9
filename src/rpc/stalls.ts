// SPDX-License-Identifier: MIT
// Everything in a session that waits, by its reason, and the report of what waits for long.
import type { Clock, Timer } from '../base/clock.ts';
import { armDeadline, cancelDeadline, deadlineAfter, type Timed } from './deadline.ts';

/** Why something waits. */
const waitReasons = [
  /** Our calls: as many are open as the peer allows. */
  'slot',
  /** Places of calls that we gave up, until their handlers have settled. They hold a `slot`. */
  'given-up',
  /** Our requests: earlier ones wait for their handlers. */
  'request-window',
  /** Our notifications: handlers of earlier ones have not settled. */
  'notification-window',
  /** Our answers: the peer has not read earlier ones. */
  'answer-window',
  /** Our messages of a stream: its reader has not taken earlier ones. */
  'stream-window',
  /** Our messages of streams: the readers of all streams have not taken earlier ones. */
  'session-window',
  /** Our messages: `sendQueueMaxBytes` of others wait. */
  'send-queue',
  /** Frames of ours that the lane has no room for: the peer does not read. */
  'peer',
  /** Requests of the peer: answers of ours wait to be sent. */
  'answers-unread',
  /** Requests of the peer: the expected answers of running handlers reach their limit. */
  'answers-expected',
  /** Requests of the peer: `streamsMax` handlers run. */
  'handlers',
  /** Requests of the peer: nothing is served yet. */
  'serve',
] as const;

/** Why something waits: a key of `session.stats().waits`. */
export type WaitReason = (typeof waitReasons)[number];

/** A place where things wait, in their order. */
export interface WaitQueue {
  /** The number of those that wait, of our own or of the peer's. */
  readonly waiting: number;
  /** The reason why the first of them waits. */
  readonly waitReason: WaitReason;
  /** Grows whenever one of them need not wait any longer. */
  readonly departed: number;
}

/** The fields of the event `stalled`. */
export interface Stall {
  readonly reason: WaitReason;
  readonly waiting: number;
  readonly waitedMs: number;
}

interface Watch {
  departed: number;
  since: number;
  isTold: boolean;
}

/** Checks of each place within `stalledAfterMs`. */
const looks = 4;
const lookAtLeastMs = 2_500;

export class Stalls implements Timed {
  timer: Timer | undefined;
  readonly #clock: Clock;
  readonly #stalledAfterMs: number;
  readonly #onStalled: (stall: Stall) => void;
  readonly #places = new Map<WaitQueue, Watch>();
  #isEnded = false;

  constructor(clock: Clock, stalledAfterMs: number, onStalled: (stall: Stall) => void) {
    this.#clock = clock;
    this.#stalledAfterMs = stalledAfterMs;
    this.#onStalled = onStalled;
  }

  /** Watches a place at which something waits. A repeated call does nothing. */
  add(place: WaitQueue): void {
    if (this.#isEnded || this.#places.has(place)) return;
    this.#places.set(place, {
      departed: place.departed,
      since: this.#clock.nowMs(),
      isTold: false,
    });
    if (this.timer === undefined) this.#arm();
  }

  /** Forgets a place at which nothing will wait again. */
  remove(place: WaitQueue): void {
    this.#places.delete(place);
  }

  /** The number of those that wait, by reason. */
  counts(): Record<WaitReason, number> {
    const counts = {} as Record<WaitReason, number>;
    for (const reason of waitReasons) counts[reason] = 0;
    for (const place of this.#places.keys()) {
      if (place.waiting > 0) counts[place.waitReason] += place.waiting;
    }
    return counts;
  }

  onDeadline(): void {
    const now = this.#clock.nowMs();
    const stalls = new Map<WaitReason, Stall>();
    for (const [place, watch] of this.#places) {
      const { waiting, departed, waitReason: reason } = place;
      if (waiting === 0) this.#places.delete(place);
      else if (departed !== watch.departed) {
        watch.departed = departed;
        watch.since = now;
        watch.isTold = false;
      } else if (!watch.isTold && now - watch.since >= this.#stalledAfterMs) {
        watch.isTold = true;
        const before = stalls.get(reason);
        const waitedMs = Math.max(before?.waitedMs ?? 0, Math.round(now - watch.since));
        stalls.set(reason, { reason, waiting: waiting + (before?.waiting ?? 0), waitedMs });
      }
    }
    for (const stall of stalls.values()) this.#onStalled(stall);
    if (this.#places.size > 0 && !this.#isEnded) this.#arm();
  }

  /** The session is over. */
  end(): void {
    this.#isEnded = true;
    cancelDeadline(this.#clock, this);
    this.#places.clear();
  }

  #arm(): void {
    const lookMs = Math.min(this.#stalledAfterMs / looks, lookAtLeastMs);
    armDeadline(this.#clock, this, deadlineAfter(this.#clock, lookMs));
    this.timer?.unref();
  }
}
