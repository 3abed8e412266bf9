// SPDX-License-Identifier: MIT
// Repeats calls that failed and may be repeated: with growing pauses, and within a budget that
// successful calls refill. The budget is gRPC's retry throttling (proposal A6).

import { backOffMs } from '../../base/back-off.ts';
import type { Clock } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import { incidentOf } from '../../base/incident.ts';
import { ranges } from '../../base/limits/option-limits.ts';
import { checkInteger, checkKeys } from '../../base/misuse.ts';
import { pause } from '../../base/pause.ts';
import type { Random } from '../../base/random.ts';
import { sendsMany } from '../../wire/frame-header.ts';
import {
  type CallOptions,
  checkCallOptions,
  timeoutOf,
  withInheritedDeadline,
} from '../contract/call-options.ts';
import { Block } from '../contract/leases.ts';
import { deadlineAfter, timeLeftMs } from '../deadline.ts';
import { failingAtCallSite } from './call-site.ts';
import type { CallTarget, MethodCall, StreamCall } from './call-target.ts';
import { FailedCall } from './stream-call.ts';

/**
 * The rules by which a call is repeated. Its error must be `retryable`, and `delivered` must be
 * `no`, or `unknown` for an `idempotent` method. Over a session that is lost for good only refusals
 * are repeated: LIMIT_* and GOING_AWAY. A call with a stream of requests is never repeated, one
 * with a stream of responses only before the first response.
 */
export interface RetryOptions {
  /** Most attempts of a call, the first one included. Default 4; 2 to 100. */
  readonly attempts?: number | undefined;
  /** Pause before the second, each further one 1.6 times as long. Default 10; 1 to 600,000. */
  readonly firstMs?: number | undefined;
  /** The longest pause. Default 1,000; 1 to 600,000. */
  readonly maxMs?: number | undefined;
  /**
   * Tokens of the client: a failed call takes one, a successful one gives a tenth of
   * one back. Calls are repeated only while more than half of the tokens are left.
   * Default 10; 1 to 1,000,000.
   */
  readonly budget?: number | undefined;
}

/** Checked {@link RetryOptions}. */
export interface RetrySettings {
  readonly attempts: number;
  readonly firstMs: number;
  readonly maxMs: number;
  readonly budget: number;
}

const successPays = 0.1;

/** @throws {TypeError | RangeError} for misuse. */
export function checkRetry(retry: boolean | RetryOptions | undefined): RetrySettings | undefined {
  if (retry === undefined || retry === false) return undefined;
  const given = retry === true ? {} : retry;
  checkKeys('retry', given, ['attempts', 'firstMs', 'maxMs', 'budget']);
  return {
    attempts: checkInteger('retry.attempts', given.attempts, ranges.retryAttempts),
    firstMs: checkInteger('retry.firstMs', given.firstMs, ranges.retryFirstMs),
    maxMs: checkInteger('retry.maxMs', given.maxMs, ranges.retryMaxMs),
    budget: checkInteger('retry.budget', given.budget, ranges.retryBudget),
  };
}

/** A target of calls that repeats those that failed. */
export class Retrying implements CallTarget {
  readonly outlivesSessions: boolean;
  readonly clock: Clock;
  readonly random: Random;
  readonly #target: CallTarget;
  readonly #settings: RetrySettings;
  #tokens: number;
  // The answer of the budget at each incident.
  readonly #incidents = new WeakMap<object, boolean>();

  constructor(target: CallTarget, settings: RetrySettings) {
    this.#target = target;
    this.outlivesSessions = target.outlivesSessions;
    this.clock = target.clock;
    this.random = target.random;
    this.#settings = settings;
    this.#tokens = settings.budget;
  }

  call(callable: MethodCall, value: unknown, options: CallOptions | undefined): Promise<unknown> {
    // A block can be sent once.
    if (Block.is(value)) return this.#target.call(callable, value, options);
    return failingAtCallSite(this.#call(callable, value, options));
  }

  openStream(callable: MethodCall, value: unknown, options: CallOptions | undefined): StreamCall {
    const open = (given: CallOptions | undefined): StreamCall =>
      this.#target.openStream(callable, value, given);
    if (sendsMany(callable.kind) || Block.is(value)) return open(options);
    try {
      return new RetryingStream(open, this.#plan(callable, options), options);
    } catch (error) {
      return new FailedCall(error); // wrong options
    }
  }

  async #call(
    callable: MethodCall,
    value: unknown,
    given: CallOptions | undefined,
  ): Promise<unknown> {
    const plan = this.#plan(callable, given);
    for (let options = given; ; options = plan.options()) {
      try {
        const answer = await this.#target.call(callable, value, options);
        this.#refill();
        return answer;
      } catch (error) {
        if (!(await plan.mayRepeat(error))) throw plan.reasonFor(error);
      }
    }
  }

  #plan(callable: MethodCall, options: CallOptions | undefined): RetryAttempts {
    const given = withInheritedDeadline(checkCallOptions(options));
    return new RetryAttempts(callable, given, this.#settings, {
      outlivesSessions: this.outlivesSessions,
      clock: this.clock,
      random: this.random,
      spend: (error) => this.#spend(error),
      refill: () => this.#refill(),
    });
  }

  /**
   * Charges a failure to the budget. True: the call may be repeated. All calls that are lost with
   * one session count as one failure, however many they are.
   */
  #spend(error: SidecallError): boolean {
    const incident = incidentOf(error);
    const before = incident && this.#incidents.get(incident);
    if (before !== undefined) return before;
    this.#tokens = Math.max(0, this.#tokens - 1);
    const hasBudget = this.#tokens > this.#settings.budget / 2;
    if (incident !== undefined) this.#incidents.set(incident, hasBudget);
    return hasBudget;
  }

  #refill(): void {
    this.#tokens = Math.min(this.#settings.budget, this.#tokens + successPays);
  }
}

interface RetryBudget {
  readonly clock: Clock;
  readonly random: Random;
  readonly outlivesSessions: boolean;
  readonly spend: (error: SidecallError) => boolean;
  readonly refill: () => void;
}

/** The attempts of one call. */
class RetryAttempts {
  readonly budget: RetryBudget;
  readonly #callable: MethodCall;
  readonly #given: CallOptions;
  readonly #settings: RetrySettings;
  readonly #deadline: number | undefined;
  #failures = 0;

  constructor(
    callable: MethodCall,
    given: CallOptions,
    settings: RetrySettings,
    purse: RetryBudget,
  ) {
    this.#callable = callable;
    this.#given = given;
    this.#settings = settings;
    this.budget = purse;
    const timeoutMs = timeoutOf(given);
    this.#deadline = timeoutMs === undefined ? undefined : deadlineAfter(purse.clock, timeoutMs);
  }

  /** Options of the next attempt: the time that is left. */
  options(): CallOptions {
    if (this.#deadline === undefined) return this.#given;
    return { ...this.#given, timeoutMs: timeLeftMs(this.budget.clock, this.#deadline) };
  }

  /** False at once, or true when it is time to try again. */
  async mayRepeat(error: unknown): Promise<boolean> {
    const { attempts } = this.#settings;
    const { signal } = this.#given;
    if (!SidecallError.is(error) || !error.retryable || isAborted(signal)) return false;
    this.#failures += 1;
    const hasBudget = this.budget.spend(error);
    if (!hasBudget || this.#failures >= attempts || !this.#isSafe(error)) return false;
    const pauseMs = backOffMs(this.#failures - 1, this.#settings, this.budget.random);
    if (this.#deadline !== undefined && timeLeftMs(this.budget.clock, this.#deadline) <= pauseMs)
      return false;
    await pause(this.budget.clock, pauseMs, signal ?? never);
    return !isAborted(signal);
  }

  /** The reason of the call that is not repeated: that of its caller's abort, if it was aborted. */
  reasonFor(error: unknown): unknown {
    const { signal } = this.#given;
    return signal?.aborted === true ? signal.reason : error;
  }

  #isSafe(error: SidecallError): boolean {
    const isRefusal =
      error.code.startsWith('ERR_SIDECALL_LIMIT_') || error.code === 'ERR_SIDECALL_GOING_AWAY';
    if (!this.budget.outlivesSessions && !isRefusal) return false;
    const { delivered } = error;
    return delivered === 'no' || (delivered === 'unknown' && this.#callable.isIdempotent);
  }
}

const never = new AbortController().signal;

function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

/** A stream of responses that is begun again while none of them came. */
class RetryingStream implements StreamCall {
  readonly #open: (options: CallOptions | undefined) => StreamCall;
  readonly #plan: RetryAttempts;
  readonly promise: Promise<unknown>;
  #resolve!: (value: unknown) => void;
  #call: StreamCall;
  #cancelled: { readonly reason: unknown } | undefined;
  #isBegun = false;
  #beginning: Promise<IteratorResult<unknown, undefined>> | undefined;

  constructor(
    open: (options: CallOptions | undefined) => StreamCall,
    plan: RetryAttempts,
    options: CallOptions | undefined,
  ) {
    this.#open = open;
    this.#plan = plan;
    this.#call = open(options);
    this.promise = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.promise.catch(() => undefined); // a failure that is not awaited
  }

  get queuedBytes(): number {
    return this.#call.queuedBytes;
  }

  next(): Promise<IteratorResult<unknown, undefined>> {
    if (this.#isBegun) return this.#call.next();
    const before = this.#beginning;
    if (before !== undefined) {
      const following = before.then(() => this.#call.next());
      following.catch(() => undefined);
      return following;
    }
    this.#beginning = this.#first();
    this.#beginning.catch(() => undefined);
    return this.#beginning;
  }

  cancelReading(): void {
    this.#cancelled = { reason: undefined };
    this.#call.cancelReading();
  }

  send(value: unknown): Promise<void> {
    return this.#call.send(value);
  }

  end(): Promise<void> {
    return this.#call.end();
  }

  cancel(reason: unknown): void {
    this.#cancelled = { reason };
    this.#call.cancel(reason);
  }

  async #first(): Promise<IteratorResult<unknown, undefined>> {
    for (;;) {
      try {
        const step = await this.#call.next();
        this.#isBegun = true;
        this.#plan.budget.refill();
        this.#resolve(this.#call.promise);
        return step;
      } catch (error) {
        const wasCancelled = this.#cancelled !== undefined;
        const goesOn = !wasCancelled && (await this.#plan.mayRepeat(error));
        if (!goesOn || this.#cancelled !== undefined) {
          this.#isBegun = true;
          this.#resolve(this.#call.promise);
          throw wasCancelled ? error : (this.#cancelled?.reason ?? this.#plan.reasonFor(error));
        }
        this.#call = this.#open(this.#plan.options());
      }
    }
  }
}
