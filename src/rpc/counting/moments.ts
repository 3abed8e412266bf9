// SPDX-License-Identifier: MIT
// The instants at which the calls of a session begin and end. A look at the clock for each of them
// would cost more than all other counting. A lane that looks at the clock anyway, once in each turn
// of the event loop, says so: calls that arrive or end share those looks. Calls of ours share one
// look in each turn, behind the writing of the first of them. An instant is a plain number in each
// call: objects or places that calls share took two to four times as long.
import type { Clock } from '../../base/clock.ts';
import type { MethodCounters } from './method-counters.ts';

/** The instant of a call that has not begun. */
export const neverBegun = -1;
/** The instant of ends since which the clock was not looked at. */
const notLooked = -1;

/** Runs of ends that wait for a look at most. */
const runsMax = 64;

/** A call of ours. */
export interface BeginningCall {
  begun: number;
}

/** Runs of calls of one method that have begun at one instant, and ended since the last look. */
class EndedRuns {
  readonly counters: MethodCounters[] = [];
  readonly begunMs = new Float64Array(runsMax);
  readonly calls = new Float64Array(runsMax);
  count = 0;
}

/** The lane of a session, as far as it has to do with the clock: see `Transport`. */
interface TimedLane {
  readonly tellsTime?: boolean | undefined;
  readonly isAwake?: boolean;
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
  /** A call of ours has begun in this turn of the event loop, at {@link Moments.#beganMs}. */
  #isBeginning = false;
  #beganMs = neverBegun;
  // The last run of calls that have ended since the last look, and those before it. An array that
  // is emptied would give its memory back, and take it again in each turn.
  #endedCounters: MethodCounters | undefined;
  #endedBegunMs = neverBegun;
  #endedCalls = 0;
  #endedBefore: EndedRuns | undefined;
  /**
   * The instant of these ends. They are counted when the event loop goes on: until then the peer
   * waits for the calls that the program makes now that it has its answers.
   */
  #endedMs = notLooked;

  constructor(clock: Clock, lane: TimedLane) {
    this.#clock = clock;
    this.#lane = lane;
    this.#isTold = lane.tellsTime === true;
    this.#lastMs = clock.nowMs();
  }

  /** The instant of the last look; now, where the lane does not say when it looks. */
  get lastMs(): number {
    return this.#isTold ? this.#lastMs : this.#clock.nowMs();
  }

  /** A call of ours begins: with the first one of this turn. */
  begin(call: BeginningCall): void {
    if (!this.#isTold) {
      call.begun = this.#clock.nowMs();
      return;
    }
    if (!this.#isBeginning) {
      this.#isBeginning = true;
      this.#beganMs = this.#clock.nowMs();
      this.#dateEnds(this.#beganMs);
      this.#lookSoon(); // it says when the event loop goes on
    }
    call.begun = this.#beganMs;
  }

  /** A call of the peer's has arrived: since the last look, at which it had not. */
  arrive(): number {
    return this.#isTold ? this.#lastMs : this.#clock.nowMs();
  }

  /** A call that began at this instant ends now: its duration is that at the next look. */
  end(counters: MethodCounters, begunMs: number): void {
    if (!this.#isTold) return counters.latency.record(this.#clock.nowMs() - begunMs);
    if (this.#endedMs !== notLooked) this.#countRuns();
    if (this.#endedCounters === counters && this.#endedBegunMs === begunMs) {
      this.#endedCalls += 1;
      return;
    }
    if (this.#endedCounters !== undefined) this.#keepRun(this.#endedCounters);
    else if (!this.#isTurnCertain()) this.#lookSoon();
    this.#endedCounters = counters;
    this.#endedBegunMs = begunMs;
    this.#endedCalls = 1;
  }

  /** The event loop is about to go on. Ends can wait for a turn that is certain to come. */
  goOn(): void {
    this.#isBeginning = false;
    if (!this.#isTurnCertain()) this.settle();
    else if (this.#endedMs !== notLooked) this.#countRuns();
  }

  /** The lane has looked at the clock. */
  reach(nowMs: number): void {
    this.#isBeginning = false;
    this.#lastMs = nowMs;
    this.#dateEnds(nowMs);
  }

  /** Looks at the clock itself where a call has ended: all is in the numbers then. */
  settle(): void {
    const isOwed = this.#endedCounters !== undefined && this.#endedMs === notLooked;
    if (isOwed) this.reach(this.#clock.nowMs());
    if (this.#endedMs !== notLooked) this.#countRuns();
  }

  /** For the tick that was asked for. */
  onTick(): void {
    this.#isLookQueued = false;
    this.goOn();
  }

  /** A turn of the lane follows, behind which it looks at the clock. */
  #isTurnCertain(): boolean {
    return this.#lane.lookSoon !== undefined && this.#lane.isAwake === true;
  }

  /** Asks for a look before the event loop goes on. */
  #lookSoon(): void {
    if (this.#lane.lookSoon !== undefined) return this.#lane.lookSoon();
    if (this.#isLookQueued) return;
    this.#isLookQueued = true;
    this.#clock.nextTick(lookLater, this);
  }

  #dateEnds(nowMs: number): void {
    if (this.#endedMs !== notLooked) this.#countRuns();
    else if (this.#endedCounters !== undefined) this.#endedMs = nowMs;
  }

  #keepRun(counters: MethodCounters): void {
    this.#endedBefore ??= new EndedRuns();
    const before = this.#endedBefore;
    if (before.count === runsMax) return this.settle();
    before.counters[before.count] = counters;
    before.begunMs[before.count] = this.#endedBegunMs;
    before.calls[before.count] = this.#endedCalls;
    before.count += 1;
  }

  /** Counts the ends whose instant is known. */
  #countRuns(): void {
    const endedMs = this.#endedMs;
    const last = this.#endedCounters as MethodCounters;
    this.#endedMs = notLooked;
    this.#endedCounters = undefined;
    last.latency.record(endedMs - this.#endedBegunMs, this.#endedCalls);
    const before = this.#endedBefore;
    if (before === undefined || before.count === 0) return;
    const { counters, begunMs, calls } = before;
    for (let at = 0; at < before.count; at += 1) {
      const ms = endedMs - (begunMs[at] as number);
      (counters[at] as MethodCounters).latency.record(ms, calls[at]);
    }
    before.count = 0;
  }
}

function lookLater(moments: Moments): void {
  moments.onTick();
}
