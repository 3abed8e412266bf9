// SPDX-License-Identifier: MIT
// The instants at which the calls of a session begin and end. A look at the clock for each of them
// would cost more than all other counting. A lane that looks at the clock anyway, once in each turn
// of the event loop, says so: calls that begin between two looks share the second one, as do calls
// that end, and a look is asked for before the event loop goes on. An instant is a number in an
// array, in a place that others use again later: an object for each would have to be collected.
import type { Clock } from '../../base/clock.ts';
import type { MethodCounters } from './method-counters.ts';

/** The place of a call that has not begun. */
export const neverBegun = -1;

/** No place. */
const none = -1;
/** Numbers of a place: its instant, and the open calls that have begun then. */
const perPlace = 2;
const firstPlaces = 16;
/** Runs of ends that wait for a look at most. */
const runsMax = 64;

/** Calls of one method that have begun at one instant, and have ended since the last look. */
interface Run {
  readonly counters: MethodCounters;
  readonly place: number;
  readonly calls: number;
}

/** The lane of a session, as far as it has to do with the clock: see `Transport`. */
interface TimedLane {
  readonly tellsTime?: boolean | undefined;
  lookSoon?(): void;
}

export class Moments {
  readonly #clock: Clock;
  readonly #lane: TimedLane;
  /** False: the lane says nothing, and the clock is looked at for each call. */
  readonly #isTold: boolean;
  #isLookQueued = false;
  /** The instant of the last look. A lane that says nothing is not looked at. */
  #lastMs: number;
  /** The places, in one array: a further array would be further memory to fetch for each call. */
  #places = new Float64Array(perPlace * firstPlaces);
  /** Places without an instant. */
  readonly #free: number[] = [];
  /** The place of the last look. */
  #last: number;
  /** The place of the next look, once calls have begun since the last one. */
  #next = none;
  // The last run of calls that have ended since the last look, and those before it.
  #endedCounters: MethodCounters | undefined;
  #endedPlace = none;
  #endedCalls = 0;
  readonly #endedBefore: Run[] = [];

  constructor(clock: Clock, lane: TimedLane) {
    this.#clock = clock;
    this.#lane = lane;
    this.#isTold = lane.tellsTime === true;
    this.#addPlaces(0);
    this.#lastMs = clock.nowMs();
    this.#last = this.#take(this.#lastMs);
  }

  /**
   * True: a look is needed now. A call that has begun must not begin later because the event loop
   * is blocked; one that has ended can wait for the next turn, where one is certain to come.
   */
  needsLook(isTurnComing: boolean): boolean {
    return this.#next !== none || (this.#endedCalls > 0 && !isTurnComing);
  }

  /** The instant of the last look; now, where the lane does not say when it looks. */
  get lastMs(): number {
    return this.#isTold ? this.#lastMs : this.#clock.nowMs();
  }

  /** A call of ours begins: at the next look, when what was written has left. Returns its place. */
  begin(): number {
    if (!this.#isTold) return this.#addCall(this.#take(this.#clock.nowMs()));
    if (this.#next === none) {
      this.#next = this.#take(Number.NaN);
      this.#lookSoon();
    }
    return this.#addCall(this.#next);
  }

  /** A call of the peer's has arrived: since the last look, at which it had not. As `begin()`. */
  arrive(): number {
    return this.#addCall(this.#isTold ? this.#last : this.#take(this.#clock.nowMs()));
  }

  /** A call that began at this place ends now: its duration is counted. */
  end(counters: MethodCounters, place: number): void {
    if (!this.#isTold) return this.#countEnds(counters, place, 1, this.#clock.nowMs());
    if (this.#endedPlace === place && this.#endedCounters === counters) {
      this.#endedCalls += 1;
      return;
    }
    this.#beginRun(place);
    if (this.#endedCounters === undefined) this.#lookSoon();
    this.#endedCounters = counters;
    this.#endedPlace = place;
    this.#endedCalls = 1;
  }

  /** The instant of this place; undefined: the next look, which has not come. */
  instantAt(place: number): number | undefined {
    const instant = this.#places[place];
    return Number.isNaN(instant) ? undefined : instant;
  }

  /** The lane has looked at the clock. */
  reach(nowMs: number): void {
    this.#lastMs = nowMs;
    const before = this.#last;
    if (this.#next !== none) {
      this.#last = this.#next;
      this.#next = none;
      this.#places[this.#last] = nowMs;
      if (this.#places[before + 1] === 0) this.#free.push(before);
    } else if (this.#places[before + 1] === 0) {
      this.#places[before] = nowMs;
    } else {
      this.#last = this.#take(nowMs);
    }
    if (this.#endedCounters !== undefined) this.#countRuns(this.#endedCounters, nowMs);
  }

  /** Looks at the clock itself, so that nothing is missing from the numbers. */
  settle(): void {
    if (this.needsLook(false)) this.reach(this.#clock.nowMs());
  }

  /** For the tick that was asked for. */
  onTick(): void {
    this.#isLookQueued = false;
    this.settle();
  }

  #lookSoon(): void {
    if (this.#lane.lookSoon !== undefined) return this.#lane.lookSoon();
    if (this.#isLookQueued) return;
    this.#isLookQueued = true;
    this.#clock.nextTick(lookLater, this);
  }

  #beginRun(place: number): void {
    const isFull = this.#endedBefore.length === runsMax;
    if (isFull || place === this.#next) this.reach(this.#clock.nowMs());
    if (this.#endedCounters === undefined) return;
    const run = { counters: this.#endedCounters, place: this.#endedPlace, calls: this.#endedCalls };
    this.#endedBefore.push(run);
  }

  #countRuns(last: MethodCounters, nowMs: number): void {
    this.#endedCounters = undefined;
    this.#countEnds(last, this.#endedPlace, this.#endedCalls, nowMs);
    this.#endedPlace = none;
    this.#endedCalls = 0;
    if (this.#endedBefore.length === 0) return;
    for (const run of this.#endedBefore) {
      this.#countEnds(run.counters, run.place, run.calls, nowMs);
    }
    this.#endedBefore.length = 0;
  }

  #countEnds(counters: MethodCounters, place: number, calls: number, nowMs: number): void {
    counters.latency.record(nowMs - (this.#places[place] as number), calls);
    const left = (this.#places[place + 1] as number) - calls;
    this.#places[place + 1] = left;
    if (left === 0 && place !== this.#last) this.#free.push(place);
  }

  #addCall(place: number): number {
    (this.#places[place + 1] as number) += 1;
    return place;
  }

  #take(instant: number): number {
    if (this.#free.length === 0) this.#grow();
    const place = this.#free.pop() as number;
    this.#places[place] = instant;
    return place;
  }

  #grow(): void {
    const places = this.#places;
    this.#places = new Float64Array(places.length * 2);
    this.#places.set(places);
    this.#addPlaces(places.length);
  }

  #addPlaces(from: number): void {
    for (let place = from; place < this.#places.length; place += perPlace) this.#free.push(place);
  }
}

function lookLater(moments: Moments): void {
  moments.onTick();
}
