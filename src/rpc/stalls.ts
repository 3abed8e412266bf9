// SPDX-License-Identifier: MIT
// Everything in a session that waits, by its reason, and the report of what waits for long.
import type { Clock } from '../base/clock.ts';
import { type WaitReason, waitReasons } from '../base/wait-reasons.ts';
import {
  armDeadline,
  cancelDeadline,
  deadlineAfter,
  type SharedTimer,
  type Timed,
} from './deadline.ts';

/** No waits, by reason. */
export function noWaits(): Record<WaitReason, number> {
  return Object.fromEntries(waitReasons.map((reason) => [reason, 0])) as Record<WaitReason, number>;
}

/** No waits ever, by reason. */
export function noWaitTotals(): Record<WaitReason, WaitTotals> {
  const none = (reason: WaitReason) => [reason, { count: 0, ms: 0 }] as const;
  return Object.fromEntries(waitReasons.map(none)) as Record<WaitReason, WaitTotals>;
}

/** A place where things wait, in their order. */
export interface WaitQueue {
  /** The number of those that wait, of our own or of the peer's. */
  readonly waiting: number;
  /** The reason why the first of them waits. */
  readonly waitReason: WaitReason;
  /** Waiters that have left the place, ever. */
  readonly departed: Departures;
}

/** The place of one waiter. */
export interface WaitPlace {
  readonly waitReason: WaitReason;
  /** Takes it out. */
  remove(): void;
}

/** A count of those that left a place, and a look whether it is empty. */
export class Departures {
  count = 0;
  /** Called when one has left. Set while the place is watched. */
  onDeparted: (() => void) | undefined;

  /** A waiter has left: called when the place no longer counts it. */
  add(): void {
    this.count += 1;
    this.onDeparted?.();
  }
}

/** Waits of one reason, ever. */
export interface WaitTotals {
  /** The times that something began to wait where nothing waited. */
  readonly count: number;
  /** Milliseconds in which something waited, of all places together: each stream is one. */
  readonly ms: number;
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
  /** The instant since which something waits there, and the reason then; undefined: nothing. */
  waitingSince: number | undefined;
  reason: WaitReason;
}

/** Checks of each place within `stalledAfterMs`. */
const looks = 4;
const lookAtLeastMs = 2_500;

export class Stalls implements Timed {
  timer: SharedTimer | undefined;
  /** False: nothing waits anywhere. */
  isWatching = false;
  readonly #clock: Clock;
  readonly #stalledAfterMs: number;
  readonly #onStalled: (stall: Stall) => void;
  readonly #places = new Map<WaitQueue, Watch>();
  readonly #counts = new Map<WaitReason, number>();
  readonly #ms = new Map<WaitReason, number>();
  #isEnded = false;
  /** The time of the next check. */
  #dueAt = 0;

  constructor(clock: Clock, stalledAfterMs: number, onStalled: (stall: Stall) => void) {
    this.#clock = clock;
    this.#stalledAfterMs = stalledAfterMs;
    this.#onStalled = onStalled;
  }

  /** Watches a place at which something waits. A repeated call does nothing. */
  add(place: WaitQueue): void {
    if (this.#isEnded) return;
    const known = this.#places.get(place);
    if (known?.waitingSince !== undefined) return;
    const now = this.#clock.nowMs();
    const reason = place.waitReason;
    this.#counts.set(reason, (this.#counts.get(reason) ?? 0) + 1);
    if (known !== undefined) {
      known.waitingSince = now;
      known.reason = reason;
      return;
    }
    const watch: Watch = {
      departed: place.departed.count,
      since: now,
      isTold: false,
      waitingSince: now,
      reason,
    };
    this.#places.set(place, watch);
    this.isWatching = true;
    place.departed.onDeparted = () => {
      if (place.waiting === 0) this.#endWait(watch, this.#clock.nowMs());
    };
    if (this.timer === undefined) this.#arm();
  }

  /** Forgets a place at which nothing will wait again. */
  remove(place: WaitQueue): void {
    const watch = this.#places.get(place);
    if (watch === undefined) return;
    this.#forget(place, watch, this.#clock.nowMs());
  }

  /** The waits that have begun, by reason, and the time of all of them up to now. */
  totals(): Record<WaitReason, WaitTotals> {
    const now = this.#clock.nowMs();
    const totals = {} as Record<WaitReason, { count: number; ms: number }>;
    for (const reason of waitReasons) {
      totals[reason] = { count: this.#counts.get(reason) ?? 0, ms: this.#ms.get(reason) ?? 0 };
    }
    for (const { waitingSince, reason } of this.#places.values()) {
      if (waitingSince !== undefined) totals[reason].ms += now - waitingSince;
    }
    return totals;
  }

  /** The number of those that wait, by reason. */
  counts(): Record<WaitReason, number> {
    const counts = noWaits();
    for (const place of this.#places.keys()) {
      if (place.waiting > 0) counts[place.waitReason] += place.waiting;
    }
    return counts;
  }

  onDeadline(): void {
    const now = this.#clock.nowMs();
    // This process stood still so long, and could not see progress.
    const lateMs = Math.max(0, now - this.#dueAt);
    const stalls = new Map<WaitReason, Stall>();
    for (const [place, watch] of this.#places) {
      watch.since = Math.min(now, watch.since + lateMs);
      const { waiting, waitReason: reason } = place;
      const { count: departed } = place.departed;
      if (waiting === 0) this.#forget(place, watch, now);
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
    cancelDeadline(this);
    const now = this.#clock.nowMs();
    for (const [place, watch] of this.#places) this.#forget(place, watch, now);
  }

  #forget(place: WaitQueue, watch: Watch, now: number): void {
    this.#endWait(watch, now);
    place.departed.onDeparted = undefined;
    this.#places.delete(place);
    this.isWatching = this.#places.size > 0;
  }

  #endWait(watch: Watch, now: number): void {
    const { waitingSince, reason } = watch;
    if (waitingSince === undefined) return;
    watch.waitingSince = undefined;
    this.#ms.set(reason, (this.#ms.get(reason) ?? 0) + now - waitingSince);
  }

  #arm(): void {
    const lookMs = Math.min(this.#stalledAfterMs / looks, lookAtLeastMs);
    this.#dueAt = deadlineAfter(this.#clock, lookMs);
    armDeadline(this.#clock, this, this.#dueAt, false);
  }
}
