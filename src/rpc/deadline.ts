// SPDX-License-Identifier: MIT
// Duration, instant, time left. The only file in rpc/ that sets timers.

import { AsyncLocalStorage } from 'node:async_hooks';
import type { Clock, Timer } from '../base/clock.ts';
import { ignore } from '../base/ignore-errors.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import { ranges } from '../base/limits/option-limits.ts';

/**
 * Something that a deadline can end. It keeps its timer, so that {@link cancelDeadline} finds it.
 */
export interface Timed {
  timer: Timer | undefined;
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

/** Calls `of.onDeadline()` once the instant has come, never before. */
export function armDeadline(clock: Clock, of: Timed, deadline: number): void {
  // Past 2^31-1 ms Node fires at once; no program waits 24 days for the difference.
  const delayMs = Math.min(timeLeftMs(clock, deadline), ranges.timeoutMs.max);
  of.timer = clock.setTimeout(fire, delayMs, clock, of, deadline);
}

export function cancelDeadline(clock: Clock, of: Timed): void {
  if (of.timer === undefined) return;
  clock.clearTimeout(of.timer);
  of.timer = undefined;
}

function fire(clock: Clock, of: Timed, deadline: number): void {
  of.timer = undefined;
  // Node counts from the beginning of the loop's turn, so a timer set late in one comes early.
  if (deadline > clock.nowMs()) return armDeadline(clock, of, deadline);
  let due = dueOf.get(clock);
  if (due === undefined) {
    due = new Due(clock);
    dueOf.set(clock, due);
  }
  due.add(of);
}

const dueOf = new WeakMap<Clock, Due>();

/** Deadlines that have passed: Node fires all of them in one iteration of the event loop. */
class Due {
  readonly #clock: Clock;
  readonly #waiting = new Set<Timed>();
  #ended = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(of: Timed): void {
    if (this.#ended < tuning.endsPerIterationMax) return this.#end(of);
    of.timer = waits;
    this.#waiting.add(of);
  }

  #end(of: Timed): void {
    this.#ended += 1;
    if (this.#ended === tuning.endsPerIterationMax) this.#clock.setImmediate(onIteration, this);
    of.onDeadline();
  }

  onIteration(): void {
    this.#ended = 0;
    for (const of of this.#waiting) {
      if (this.#ended === tuning.endsPerIterationMax) return;
      this.#waiting.delete(of);
      if (of.timer !== waits) continue; // it has ended meanwhile
      of.timer = undefined;
      this.#end(of);
    }
  }
}

/** The timer of a deadline that waits for a later iteration. */
const waits: Timer = { unref: ignore };

function onIteration(due: Due): void {
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
