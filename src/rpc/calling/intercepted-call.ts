// SPDX-License-Identifier: MIT
// Calls with interceptors around them. The time of a call, its signal, `cancel()` and `return()`
// hold while an interceptor works, too.

import { onAbort, onAbortOf } from '../../base/abort-listeners.ts';
import { isPromise } from '../../base/brands.ts';
import type { Clock } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import { checkSignal } from '../../base/misuse.ts';
import {
  type CallOptions,
  checkCallOptions,
  timeoutOf,
  withInheritedDeadline,
} from '../contract/call-options.ts';
import { around, type InterceptedCall, type Interceptor } from '../contract/interceptor.ts';
import { Block, releaseBlockIn } from '../contract/leases.ts';
import type { MethodKind } from '../contract/method-types.ts';
import {
  armDeadline,
  cancelDeadline,
  deadlineAfter,
  type SharedTimer,
  type Timed,
  timeLeftMs,
} from '../deadline.ts';
import { failingAtCallSite } from './call-site.ts';
import type { StreamCall } from './call-target.ts';
import { CallerBidi, CallerClientStream, CallerServerStream } from './caller-streams.ts';
import { checkInterceptedStream, FailedCall, InterceptedStream } from './stream-call.ts';

/** Makes a call of one method; what it gives depends on the kind. */
export type Invoke = (request: unknown, options: CallOptions | undefined) => unknown;

/** The call `plain` with interceptors around it. */
export function intercepted(
  clock: Clock,
  method: string,
  kind: MethodKind,
  plain: Invoke,
  interceptors: readonly Interceptor[],
): Invoke {
  if (interceptors.length === 0) return plain;
  return (request, options) => {
    try {
      const bounds = new Bounds(clock, method, withInheritedDeadline(checkCallOptions(options)));
      const composed = around(interceptors, (inner) =>
        bounds.begin(plain, inner.request, inner.options),
      );
      const call: InterceptedCall = {
        method,
        kind,
        side: 'caller',
        request,
        options: options ?? {},
        ctx: undefined,
      };
      const result = lifted(kind, request, composed(call), bounds);
      if (Block.is(request)) releaseBehind(request, result);
      return result;
    } catch (error) {
      releaseBlockIn(request);
      return failed(kind, request, error);
    }
  };
}

/** The deadline and the signal of a call, which end it also while an interceptor runs. */
class Bounds implements Timed {
  timer: SharedTimer | undefined;
  readonly #clock: Clock;
  readonly #method: string;
  readonly #given: CallOptions;
  readonly #deadline: number | undefined;
  #isBegun = false;
  /**
   * Calls by the interceptors that have not settled. They observe deadline and signal themselves.
   */
  #running = 0;
  /** Stops the call that fills the caller's buffer, once the buffer is the caller's again. */
  #filling: AbortController | undefined;
  /** True: the caller's buffer holds an answer, or is used again, and is not written any more. */
  #isFilled = false;
  #stop: (reason: unknown) => void = () => undefined;
  #reason: { readonly reason: unknown } | undefined;

  constructor(clock: Clock, method: string, given: CallOptions) {
    this.#clock = clock;
    this.#method = method;
    this.#given = given;
    const timeoutMs = timeoutOf(given);
    if (timeoutMs !== undefined) this.#deadline = deadlineAfter(clock, timeoutMs);
  }

  /** The call itself, with the time that is left. */
  begin(plain: Invoke, request: unknown, options: CallOptions | undefined): unknown {
    this.#isBegun = true;
    const left = this.#leftOf(options);
    const filling = left?.into === undefined ? undefined : this.#beginFilling();
    const forget =
      filling && onAbortOf(checkSignal(left?.signal), (reason) => filling.abort(reason));
    const result = plain(request, left?.into === undefined ? left : intoOf(left, filling));
    if (!isPromise(result)) return result;
    if (filling !== undefined) this.#watchFilling(result, filling);
    if (forget !== undefined) result.then(forget, forget);
    this.#running += 1;
    const onSettled = (): void => {
      this.#running -= 1;
      if (this.#reason !== undefined) this.#cancelLater();
    };
    result.then(onSettled, onSettled);
    return result;
  }

  /** The caller has its answer, or an error: its buffer is its own again. */
  onAnswered(): void {
    this.#isFilled = true;
    this.#filling?.abort(new SidecallError('ERR_SIDECALL_CANCELLED'));
  }

  /** undefined: another call fills the caller's buffer, or nothing may. */
  #beginFilling(): AbortController | undefined {
    if (this.#isFilled || this.#filling !== undefined) return undefined;
    this.#filling = new AbortController();
    return this.#filling;
  }

  #watchFilling(result: Promise<unknown>, filling: AbortController): void {
    const onFailed = (): void => {
      if (this.#filling === filling) this.#filling = undefined;
    };
    const onFilled = (): void => {
      this.#isFilled = true;
      onFailed();
    };
    result.then(onFilled, onFailed);
  }

  /** Ends the wait for `result` with `stop(reason)` when time or signal say so. */
  watch(result: Promise<unknown>, stop: (reason: unknown) => void): void {
    const { signal } = this.#given;
    if (this.#deadline === undefined && signal === undefined) return;
    this.#stop = stop;
    const abort = (): void => this.#onOver(signal?.reason);
    const forget = signal && onAbort(signal, abort);
    const onSettled = (): void => {
      cancelDeadline(this);
      forget?.();
    };
    result.then(onSettled, onSettled);
    if (this.#deadline !== undefined) armDeadline(this.#clock, this, this.#deadline);
    if (signal?.aborted === true) abort();
  }

  onDeadline(): void {
    const text = `${this.#method}: timeoutMs ${this.#given.timeoutMs} passed in an interceptor`;
    const delivered = this.#isBegun ? 'unknown' : 'no';
    this.#onOver(new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', text, { delivered }));
  }

  #onOver(reason: unknown): void {
    this.#reason ??= { reason };
    if (this.#running === 0) this.#cancelLater();
  }

  /** Stops a turn later, since an interceptor may have an answer for a call that has failed. */
  #cancelLater(): void {
    this.#clock.setImmediate(() => {
      if (this.#running === 0) this.#stop(this.#reason?.reason);
    });
  }

  #leftOf(options: CallOptions | undefined): CallOptions | undefined {
    if (this.#deadline === undefined) return options;
    const leftMs = timeLeftMs(this.#clock, this.#deadline);
    const given = options?.timeoutMs;
    return typeof given === 'number' && given < leftMs
      ? options
      : { ...options, timeoutMs: leftMs };
  }
}

/** The options of a call by an interceptor; without `filling` its answer has its own memory. */
function intoOf(options: CallOptions, filling: AbortController | undefined): CallOptions {
  if (filling === undefined) return { ...options, into: undefined };
  return { ...options, signal: filling.signal };
}

/**
 * Frees the block once the call has settled: an interceptor may have answered without the call
 * that would have taken it.
 */
function releaseBehind(block: Block, result: unknown): void {
  const free = (): void => block.free();
  if (isPromise(result)) result.then(free, free);
}

/**
 * The result of the interceptors, of the kind that the caller expects: the promise of a stream that
 * an async interceptor returns becomes a stream.
 */
function lifted(kind: MethodKind, request: unknown, result: unknown, bounds: Bounds): unknown {
  const isPromised = typeof (result as Partial<Promise<unknown>> | undefined)?.then === 'function';
  const isAnswered = kind === 'unary' || kind === 'notification';
  if (isAnswered || (kind === 'clientStream' && request !== undefined)) {
    return answerWithin(Promise.resolve(result), bounds);
  }
  if (!isPromised) {
    checkInterceptedStream(result);
    return result;
  }
  const call = new InterceptedStream(result as Promise<unknown>);
  bounds.watch(call.promise, (reason) => call.cancel(reason));
  return streamOf(kind, request, call);
}

function answerWithin(answer: Promise<unknown>, bounds: Bounds): Promise<unknown> {
  const answered = new Promise((resolve, reject) => {
    answer.then(resolve, reject);
    bounds.watch(answer, reject);
  });
  const onAnswered = (): void => bounds.onAnswered();
  answered.then(onAnswered, onAnswered);
  return failingAtCallSite(answered);
}

/**
 * The result of a call that an interceptor failed: a rejected promise, or a stream that
 * fails. Calls never throw.
 */
export function failed(kind: MethodKind, request: unknown, error: unknown): unknown {
  return streamOf(kind, request, new FailedCall(error)) ?? new FailedCall(error).promise;
}

/** The stream that callers of this kind hold; undefined: they hold a promise. */
function streamOf(kind: MethodKind, request: unknown, call: StreamCall): unknown {
  if (kind === 'serverStream') return new CallerServerStream(call);
  if (kind === 'bidi')
    return request === undefined ? new CallerBidi(call) : new CallerServerStream(call);
  if (kind === 'clientStream' && request === undefined) return new CallerClientStream(call);
  return undefined;
}
