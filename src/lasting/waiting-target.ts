// SPDX-License-Identifier: MIT
// The target of calls that outlives its sessions: while there is none calls wait for the next.

import { onAbort, onAbortOf } from '../base/abort-listeners.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { rejected } from '../base/ignore-errors.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { checkKeys, checkSignal, nodeError } from '../base/misuse.ts';
import { endWaits, pause } from '../base/pause.ts';
import { type Random, systemRandom } from '../base/random.ts';
import { takeUnseen } from '../rpc/calling/call-request.ts';
import { failingAtCallSite } from '../rpc/calling/call-site.ts';
import type { CallTarget, MethodCall, StreamCall } from '../rpc/calling/call-target.ts';
import { DeferredCall, FailedCall } from '../rpc/calling/stream-call.ts';
import {
  type CallOptions,
  checkCallOptions,
  timeoutOf,
  withInheritedDeadline,
} from '../rpc/contract/call-options.ts';
import { encodeWith, keepWaiting } from '../rpc/contract/codec.ts';
import { Block } from '../rpc/contract/leases.ts';
import { armDeadline, cancelDeadline, deadlineAfter, type Timed } from '../rpc/deadline.ts';
import type { Session } from '../rpc/session/session.ts';
import { CallKind, sendsMany } from '../wire/frame-header.ts';
import { ResubscribingStream } from './resubscribing-stream.ts';

/** The source of time and chance, and the words of errors. */
export interface WaitingTargetParts {
  /** The target in errors, as in 'too many calls wait for the helper'. */
  readonly name: string;
  /** The reason of a wait in errors, as in 'timeoutMs 50 passed while the helper was started'. */
  readonly pending: string;
  /** Default: those of this thread and of the system. */
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

interface Waiter extends Timed {
  readonly options: CallOptions | undefined;
  readonly begin: (session: Session) => void;
}

/** Makes each call on the session that {@link WaitingTarget.pick} names, or lets it wait. */
export abstract class WaitingTarget implements CallTarget {
  readonly outlivesSessions = true;
  /** False: calls that wait do not keep this process alive. */
  isReferenced = true;
  readonly clock: Clock;
  readonly random: Random;
  readonly #parts: WaitingTargetParts;
  // In the order in which they came.
  readonly #waiters = new Set<Waiter>();
  #onWaiter: (() => void) | undefined;
  #onIdle: (() => void) | undefined;
  /** The error of new calls. */
  #refusal: SidecallError | undefined;
  #final: SidecallError | undefined;

  constructor(parts: WaitingTargetParts) {
    this.#parts = parts;
    this.clock = parts.clock ?? systemClock;
    this.random = parts.random ?? systemRandom;
  }

  /** Calls that wait for a session. */
  get waiting(): number {
    return this.#waiters.size;
  }

  /** Resolves when a call waits, or the signal is aborted. For one caller at a time. */
  async whenWaiting(signal: AbortSignal): Promise<void> {
    if (this.#waiters.size > 0 || signal.aborted) return;
    await new Promise<void>((resolve) => {
      const forget = onAbort(signal, resolve);
      this.#onWaiter = () => {
        forget();
        resolve();
      };
    });
    this.#onWaiter = undefined;
  }

  /** The session that takes this call at once; undefined: it waits. */
  protected abstract pick(options: CallOptions | undefined): Session | undefined;

  /** True: calls that this session has refused may be made on another one. */
  protected abstract isLeft(session: Session): boolean;

  /** Makes a call with one answer, or none. */
  protected callOn(
    session: Session,
    callable: MethodCall,
    value: unknown,
    options: CallOptions | undefined,
  ): Promise<unknown> {
    return session.target.call(callable, value, options);
  }

  /** Opens a call with streams. */
  protected streamOn(
    session: Session,
    callable: MethodCall,
    value: unknown,
    options: CallOptions | undefined,
  ): StreamCall {
    return session.target.openStream(callable, value, options);
  }

  /** The error of every call, behind {@link WaitingTarget.end}. */
  get final(): SidecallError | undefined {
    return this.#final;
  }

  /** A session may take calls: begins those that wait, in their order. */
  protected beginWaiting(): void {
    for (const waiter of this.#waiters) {
      const session = this.pick(waiter.options);
      if (session === undefined) return;
      this.#waiters.delete(waiter);
      waiter.begin(session);
    }
  }

  /**
   * Refuses new calls with this error. Resolves when none of those that wait is left, or `ms` have
   * passed.
   */
  async finish(error: SidecallError, ms: number): Promise<void> {
    this.#refusal = error;
    if (this.#waiters.size === 0 || this.#final !== undefined) return;
    const idle = new AbortController();
    this.#onIdle = () => endWaits(idle);
    await pause(this.clock, ms, idle.signal, this.isReferenced);
    this.#onIdle = undefined;
  }

  /** No session follows: all calls fail with this error, those that wait as well. */
  end(error: SidecallError): void {
    this.#final ??= error;
    for (const waiter of this.#waiters) waiter.onDeadline();
  }

  /**
   * Rejects, never throws. Between two sessions it waits, no longer than the call's own deadline. A
   * call that its session could not deliver any more is made on the next one.
   */
  call(callable: MethodCall, value: unknown, options: CallOptions | undefined): Promise<unknown> {
    if (this.#refusal !== undefined) return rejected(unsent(this.#refusal));
    const session = this.pick(options);
    const isMovable = callable.kind === CallKind.unary && !Block.is(value);
    if (session !== undefined && !isMovable) return this.callOn(session, callable, value, options);
    const called = isMovable ? movable(callable) : callable;
    return failingAtCallSite(this.#call(called, value, options, session));
  }

  async #call(
    callable: MethodCall,
    value: unknown,
    given: CallOptions | undefined,
    first: Session | undefined,
  ): Promise<unknown> {
    let since = this.clock.nowMs();
    let options = given;
    let encoded = callable;
    let session = first;
    if (session === undefined) {
      options = withInheritedDeadline(checkCallOptions(given));
      encoded = encodedCall(callable, value);
    }
    for (;;) {
      try {
        if (session !== undefined) return await this.callOn(session, encoded, value, options);
        return await this.#onNextSession(callable.name, options, (next) => {
          session = next;
          options = this.#left(options, since);
          since = this.clock.nowMs();
          return this.callOn(next, encoded, value, options);
        });
      } catch (error) {
        const message = takeUnseen(error);
        // A session that had ended before refuses a call without looking at its request.
        const isHeld = callable.isMovable === true && encoded !== callable && isUnseen(error);
        const isMoving = message !== undefined || isHeld;
        if (!isMoving || session === undefined || !this.isLeft(session)) throw error;
        options = withInheritedDeadline(checkCallOptions(this.#left(options, since)));
        since = this.clock.nowMs();
        if (message !== undefined) encoded = withRequest(callable, message);
        session = this.pick(options);
      }
    }
  }

  openStream(callable: MethodCall, value: unknown, given: CallOptions | undefined): StreamCall {
    if (given?.resubscribe === undefined) return this.#open(callable, value, given);
    try {
      const { resubscribe, ...options } = given;
      const { onGap } = checkResubscribe(callable, value, resubscribe);
      const { clock, random } = this;
      const encoded = encodedCall(callable, value); // each stream begins with the same request
      const open = (): StreamCall => this.#open(encoded, value, options);
      const { signal } = options;
      return new ResubscribingStream({ clock, random, signal, open, onGap });
    } catch (error) {
      return new FailedCall(error);
    }
  }

  #open(callable: MethodCall, value: unknown, options: CallOptions | undefined): StreamCall {
    if (this.#refusal !== undefined) return new FailedCall(unsent(this.#refusal));
    const session = this.pick(options);
    if (session !== undefined) return this.streamOn(session, callable, value, options);
    const stopped = new AbortController();
    let given: AbortSignal | undefined;
    try {
      given = checkSignal(options?.signal);
    } catch (error) {
      return new FailedCall(error);
    }
    const forget = onAbortOf(given, (reason) => stopped.abort(reason));
    const waiting = { ...options, signal: stopped.signal };
    const later = this.#openLater(callable, value, waiting, given);
    later.then(forget, forget);
    return new DeferredCall(later, (reason) => stopped.abort(reason));
  }

  async #openLater(
    callable: MethodCall,
    value: unknown,
    given: CallOptions,
    signal: AbortSignal | undefined,
  ): Promise<StreamCall> {
    const since = this.clock.nowMs();
    const options = withInheritedDeadline(checkCallOptions(given));
    const encoded = sendsMany(callable.kind) ? callable : encodedCall(callable, value);
    return this.#onNextSession(callable.name, options, (session) =>
      this.streamOn(session, encoded, value, { ...this.#left(options, since), signal }),
    );
  }

  /** The options with the time that is left; the same ones where they have no time. */
  #left(options: CallOptions | undefined, since: number): CallOptions | undefined {
    const timeoutMs = options === undefined ? undefined : timeoutOf(options);
    if (timeoutMs === undefined) return options;
    const passedMs = this.clock.nowMs() - since;
    return { ...options, timeoutMs: Math.max(0, Math.ceil(timeoutMs - passedMs)) };
  }

  /**
   * Begins a call on the next session, at once when it is there, so that calls begin in the order
   * in which they waited, and before calls that are made later. Waits no longer than the options
   * say.
   */
  async #onNextSession<T>(
    method: string,
    options: CallOptions | undefined,
    begin: (session: Session) => T,
  ): Promise<Awaited<T>> {
    const timeoutMs = options && timeoutOf(options);
    const signal = options?.signal;
    signal?.throwIfAborted();
    if (this.#final !== undefined) throw unsent(this.#final);
    const { name, pending } = this.#parts;
    if (this.#waiters.size >= tuning.waitingCallsMax) {
      throw new SidecallError('ERR_SIDECALL_LIMIT_STREAMS', `too many calls wait for ${name}`);
    }
    let begun: { readonly call: T } | undefined;
    // No signal: thousands may wait, and end at once.
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        cancelDeadline(waiter);
        forget?.();
        this.#waiters.delete(waiter);
        if (this.#waiters.size === 0) this.#onIdle?.();
        resolve();
      };
      const waiter: Waiter = {
        options,
        begin: (session) => {
          begun = { call: begin(session) };
          wake();
        },
        timer: undefined,
        onDeadline: wake,
      };
      const deadline = deadlineAfter(this.clock, timeoutMs ?? ranges.timeoutMs.max);
      armDeadline(this.clock, waiter, deadline, this.isReferenced);
      const forget = signal && onAbort(signal, wake);
      this.#waiters.add(waiter);
      this.#onWaiter?.();
    });
    if (begun !== undefined) return await begun.call;
    signal?.throwIfAborted();
    if (this.#final !== undefined) throw unsent(this.#final);
    const text = `${method}: timeoutMs ${timeoutMs} passed while ${pending}`;
    throw new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', text, { delivered: 'no' });
  }
}

/** A call with its request encoded now: until there is a session the value may change. */
function encodedCall(callable: MethodCall, value: unknown): MethodCall {
  if (Block.is(value)) return callable;
  return withRequest(callable, keepWaiting(callable.request, encodeWith(callable.request, value)));
}

function withRequest(callable: MethodCall, message: Uint8Array | string): MethodCall {
  const { name, decode } = callable.request;
  return { ...callable, request: { name, decode, encode: () => message } };
}

/** @throws {TypeError} for misuse. */
function checkResubscribe(
  { kind, name }: MethodCall,
  value: unknown,
  resubscribe: NonNullable<CallOptions['resubscribe']>,
): NonNullable<CallOptions['resubscribe']> {
  checkKeys('resubscribe', resubscribe, ['onGap']);
  if (typeof resubscribe.onGap !== 'function') {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'resubscribe.onGap must be a function');
  }
  if (!sendsMany(kind) && !Block.is(value)) return resubscribe;
  const text = `${name}: resubscribe is for server streams whose request can be sent again`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}

function isUnseen(error: unknown): boolean {
  return SidecallError.is(error) && error.delivered === 'no' && error.retryable;
}

/** The final error, for a call of which nothing was sent. */
function unsent({ code, message, retryable }: SidecallError): SidecallError {
  return new SidecallError(code, message, { delivered: 'no', retryable });
}

// Made once for each method: to make one for each call took a third of the time of a short call.
const movables = new WeakMap<MethodCall, MethodCall>();

function movable(callable: MethodCall): MethodCall {
  let made = movables.get(callable);
  if (made === undefined) {
    made = { ...callable, isMovable: true };
    movables.set(callable, made);
  }
  return made;
}
