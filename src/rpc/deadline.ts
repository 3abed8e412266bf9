// SPDX-License-Identifier: MIT
// Duration, instant, time left. The only file in rpc/ that sets timers.

import { AsyncLocalStorage } from 'node:async_hooks';
import type { Clock, Timer } from '../base/clock.ts';
import { Fifo } from '../base/fifo.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import { ranges } from '../base/limits/option-limits.ts';

/**
 * Something that a deadline can end. It keeps the timer that it shares, so that
 * {@link cancelDeadline} finds it.
 */
export interface Timed {
  timer: SharedTimer | undefined;
  onDeadline(): void;
}

/** The instant in `timeoutMs`, on the clock of its session. */
export function deadlineAfter(clock: Clock, timeoutMs: number): number {
  return clock.nowMs() + timeoutMs;
}

/** Whole milliseconds left, for the wire; 0 once it has passed. */
export function timeLeftMs(clock: Clock, deadline: number): number {
  return Math.max(0, Math.ceil(deadline - clock.nowMs()));
}

/**
 * Calls `of.onDeadline()` once the instant has come, at most a millisecond and the delay of Node's
 * timers later, never before. `isReferenced`: the process stays alive for it.
 */
export function armDeadline(clock: Clock, of: Timed, deadline: number, isReferenced = true): void {
  let timers = clock.deadlines as Timers | undefined;
  // A copy of a clock has timers of its own.
  if (timers?.clock !== clock) {
    timers = new Timers(clock);
    clock.deadlines = timers;
  }
  timers.add(of, Math.ceil(deadline), isReferenced);
}

export function cancelDeadline(of: Timed): void {
  const { timer } = of;
  if (timer === undefined) return;
  of.timer = undefined;
  timer.timers.remove(timer, of);
}

/** The deadlines of one millisecond: thousands may pass in it, and Node fires a timer each. */
export interface SharedTimer {
  readonly timers: Timers;
  readonly at: number;
  readonly isReferenced: boolean;
  readonly all: Set<Timed>;
  /** undefined: the deadlines have passed. */
  timer: Timer | undefined;
}

/** A shared timer belongs to no call: AsyncLocalStorage would show one what another has set. */
const outsideOfCalls = AsyncLocalStorage.snapshot();

/** The timers of one clock. */
class Timers {
  readonly clock: Clock;
  readonly #referenced = new Map<number, SharedTimer>();
  readonly #unreferenced = new Map<number, SharedTimer>();
  readonly #due: DueDeadlines;
  /**
   * A timer that ends nothing any more: calls that follow each other use it again, which costs
   * less than a timer each. The process does not stay alive for it.
   */
  #empty: SharedTimer | undefined;

  constructor(clock: Clock) {
    this.clock = clock;
    this.#due = new DueDeadlines(clock);
  }

  add(of: Timed, at: number, isReferenced: boolean): void {
    const siblings = this.#siblings(isReferenced);
    let timer = siblings.get(at);
    if (timer === undefined) {
      timer = { timers: this, at, isReferenced, all: new Set(), timer: undefined };
      siblings.set(at, timer);
      this.#start(timer);
    } else if (timer === this.#empty) {
      this.#empty = undefined;
      if (isReferenced) timer.timer?.ref();
    }
    timer.all.add(of);
    of.timer = timer;
  }

  remove(timer: SharedTimer, of: Timed): void {
    timer.all.delete(of);
    if (timer.all.size > 0 || timer.timer === undefined) return;
    if (this.#empty !== undefined) {
      this.clock.clearTimeout(this.#empty.timer);
      this.#forget(this.#empty);
    }
    this.#empty = timer;
    timer.timer.unref();
  }

  onFired(timer: SharedTimer): void {
    // Node counts from the beginning of the loop's turn, so a timer set late in one comes early.
    if (timer.at > this.clock.nowMs()) return this.#start(timer);
    this.#forget(timer);
    if (timer === this.#empty) this.#empty = undefined;
    else this.#due.add(timer.all);
  }

  #siblings(isReferenced: boolean): Map<number, SharedTimer> {
    return isReferenced ? this.#referenced : this.#unreferenced;
  }

  #start(timer: SharedTimer): void {
    // Past 2^31-1 ms Node fires at once; no program waits 24 days for the difference.
    const delayMs = Math.min(timeLeftMs(this.clock, timer.at), ranges.timeoutMs.max);
    const { clock } = this;
    timer.timer = outsideOfCalls(() => clock.setTimeout(fire, delayMs, this, timer));
    if (!timer.isReferenced || timer === this.#empty) timer.timer.unref();
  }

  #forget(timer: SharedTimer): void {
    timer.timer = undefined;
    this.#siblings(timer.isReferenced).delete(timer.at);
  }
}

function fire(timers: Timers, timer: SharedTimer): void {
  timers.onFired(timer);
}

/** Deadlines that have passed: one iteration of the event loop ends a part of them. */
class DueDeadlines {
  readonly #clock: Clock;
  readonly #waiting = new Fifo<Set<Timed>>();
  #ended = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(all: Set<Timed>): void {
    this.#waiting.push(all);
    this.#endSome();
  }

  onIteration(): void {
    this.#ended = 0;
    this.#endSome();
  }

  #endSome(): void {
    for (let all = this.#waiting.peek(); all !== undefined; all = this.#waiting.peek()) {
      for (const of of all) {
        if (this.#ended === tuning.endsPerIterationMax) return;
        this.#ended += 1;
        if (this.#ended === tuning.endsPerIterationMax) {
          this.#clock.setImmediate(onIteration, this);
        }
        all.delete(of);
        of.timer = undefined;
        try {
          of.onDeadline();
        } catch (error) {
          this.#clock.setImmediate(onIteration, this); // the others of this instant end all the same
          throw error;
        }
      }
      this.#waiting.shift();
    }
  }
}

function onIteration(due: DueDeadlines): void {
  due.onIteration();
}

/** The running handler, as the calls that it makes see it. */
export interface HandlerScope {
  /** True until the handler has settled: calls that are made later inherit nothing. */
  readonly isRunning: boolean;
  /** The clock of its session. */
  readonly clock: Clock;
  readonly deadline: number | undefined;
  /** It was called by a notification of this session; undefined: by a call that is answered. */
  readonly notifiedBy: object | undefined;
}

const scopes = new AsyncLocalStorage<HandlerScope | undefined>();

/** Runs a handler so that the calls it makes know of it. */
export function inScope(scope: HandlerScope, run: () => void): void {
  scopes.run(scope, run);
}

/** Runs a function outside of the scope of the current handler. */
export function withoutInheritance<T>(run: () => T): T {
  return scopes.getStore() === undefined ? run() : scopes.run(undefined, run);
}

/** Milliseconds that the handler which runs here has left, or undefined. */
export function inheritedTimeMs(): number | undefined {
  const scope = scopes.getStore();
  if (scope?.isRunning !== true || scope.deadline === undefined) return undefined;
  return timeLeftMs(scope.clock, scope.deadline);
}

/** Does a handler run here that a notification of this session has called? */
export function isNotifiedBy(session: object): boolean {
  const scope = scopes.getStore();
  return scope?.isRunning === true && scope.notifiedBy === session;
}
