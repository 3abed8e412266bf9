// SPDX-License-Identifier: MIT
// Duration, instant, time left. The only file in rpc/ that sets timers.

import { AsyncLocalStorage } from 'node:async_hooks';
import { clearTimeout, nowMs, setTimeout } from '../base/clock.ts';
import { ranges } from '../base/limits/option-limits.ts';

/**
 * Something that a deadline can end. It keeps its timer, so that {@link cancelDeadline} finds it.
 */
export interface Timed {
  timer: NodeJS.Timeout | undefined;
  onDeadline(): void;
}

/** Instants are on the clock of `performance.now()`: no step of the wall clock moves them. */
export function deadlineAfter(timeoutMs: number): number {
  return nowMs() + timeoutMs;
}

/** Whole milliseconds left, for the wire; 0 once it has passed. */
export function timeLeftMs(deadline: number): number {
  return Math.max(0, Math.ceil(deadline - nowMs()));
}

/** Calls `of.onDeadline()` once the instant has come, never before. */
export function armDeadline(of: Timed, deadline: number): void {
  // Past 2^31-1 ms Node fires at once; no program waits 24 days for the difference.
  const delayMs = Math.min(timeLeftMs(deadline), ranges.timeoutMs.max);
  of.timer = setTimeout(fire, delayMs, of, deadline);
}

export function cancelDeadline(of: Timed): void {
  if (of.timer === undefined) return;
  clearTimeout(of.timer);
  of.timer = undefined;
}

function fire(of: Timed, deadline: number): void {
  of.timer = undefined;
  // Node counts from the beginning of the loop's turn, so a timer set late in one comes early.
  if (deadline > nowMs()) armDeadline(of, deadline);
  else of.onDeadline();
}

/** The running handler, as the calls that it makes see it. */
export interface HandlerScope {
  /** True until the handler has settled: calls that are made later inherit nothing. */
  readonly isRunning: boolean;
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

/** The deadline of the handler that runs here, or undefined. */
export function inheritedDeadline(): number | undefined {
  const scope = scopes.getStore();
  return scope?.isRunning === true ? scope.deadline : undefined;
}

/** Does a handler run here that a notification of this session has called? */
export function isNotifiedBy(session: object): boolean {
  const scope = scopes.getStore();
  return scope?.isRunning === true && scope.notifiedBy === session;
}
