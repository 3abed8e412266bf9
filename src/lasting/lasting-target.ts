// SPDX-License-Identifier: MIT
// The target of calls that outlives its sessions: between two of them calls wait for the next.

import { onAbort } from '../base/abort-listeners.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { Fifo } from '../base/fifo.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { pause } from '../base/pause.ts';
import { type Random, systemRandom } from '../base/random.ts';
import { failingAtCallSite } from '../rpc/calling/call-site.ts';
import type { CallTarget, MethodCall, StreamCall } from '../rpc/calling/call-target.ts';
import { DeferredCall } from '../rpc/calling/stream-call.ts';
import {
  type CallOptions,
  checkCallOptions,
  timeoutOf,
  withInheritedDeadline,
} from '../rpc/contract/call-options.ts';
import type { Session } from '../rpc/session/session.ts';

/** The source of time and chance, and the words of errors. */
export interface LastingTargetParts {
  /** The target in errors, as in 'too many calls wait for the helper'. */
  readonly name: string;
  /** The reason of a wait in errors, as in 'timeoutMs 50 passed while the helper was started'. */
  readonly pending: string;
  /** Default: those of this thread and of the system. */
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

interface Waiter {
  readonly wake: (session: Session | undefined) => void;
}

/** Makes calls on the session of now. Its owner says which that is. */
export class LastingTarget implements CallTarget {
  readonly outlivesSessions = true;
  readonly clock: Clock;
  readonly random: Random;
  readonly #parts: LastingTargetParts;
  readonly #waiters = new Fifo<Waiter>();
  #session: Session | undefined;
  #isLast = false;
  #final: SidecallError | undefined;

  constructor(parts: LastingTargetParts) {
    this.#parts = parts;
    this.clock = parts.clock ?? systemClock;
    this.random = parts.random ?? systemRandom;
  }

  /** Calls that wait for a session. */
  get waiting(): number {
    return this.#waiters.length;
  }

  /** The session that takes a call at once; undefined: calls wait, or fail. */
  get session(): Session | undefined {
    const session = this.#session;
    return this.#isLast || session?.state === 'open' ? session : undefined;
  }

  /**
   * From now on calls are made on this session, those that wait first. `isLast`: no other session
   * follows, so that calls fail with the reason of its end.
   */
  set(session: Session, isLast = false): void {
    if (this.#final !== undefined) return;
    this.#session = session;
    this.#isLast = isLast;
    this.#wakeAll(session);
  }

  /** From now on calls wait for the next session. */
  clear(): void {
    this.#session = undefined;
    this.#isLast = false;
  }

  /** No session follows: all calls fail with this error, those that wait as well. */
  end(error: SidecallError): void {
    this.#final ??= error;
    this.clear();
    this.#wakeAll(undefined);
  }

  /**
   * Rejects, never throws. Between two sessions it waits, no longer than the call's own deadline.
   */
  call(callable: MethodCall, value: unknown, options: CallOptions | undefined): Promise<unknown> {
    const target = this.session?.target;
    if (target !== undefined) return target.call(callable, value, options);
    return failingAtCallSite(
      this.#later(callable.name, options, (next, left) => next.call(callable, value, left)),
    );
  }

  openStream(callable: MethodCall, value: unknown, options: CallOptions | undefined): StreamCall {
    const target = this.session?.target;
    if (target !== undefined) return target.openStream(callable, value, options);
    const stopped = new AbortController();
    const given = options?.signal;
    const signal = given === undefined ? stopped.signal : AbortSignal.any([given, stopped.signal]);
    const later = this.#later(callable.name, { ...options, signal }, async (next, left) =>
      next.openStream(callable, value, { ...left, signal: given }),
    );
    later.catch(() => undefined);
    return new DeferredCall(later, (reason) => stopped.abort(reason));
  }

  #wakeAll(session: Session | undefined): void {
    for (let waiter = this.#waiters.shift(); waiter; waiter = this.#waiters.shift()) {
      waiter.wake(session);
    }
  }

  /** Begins a call on the next session, with the time that is left then. */
  async #later<T>(
    method: string,
    given: CallOptions | undefined,
    begin: (target: CallTarget, options: CallOptions) => Promise<T>,
  ): Promise<T> {
    const options = withInheritedDeadline(checkCallOptions(given));
    options.signal?.throwIfAborted();
    const { signal } = options;
    const timeoutMs = timeoutOf(options);
    const since = this.clock.nowMs();
    const { target } = await this.#nextSession(method, timeoutMs, signal);
    if (timeoutMs === undefined) return begin(target, options);
    const leftMs = Math.max(0, Math.ceil(timeoutMs - (this.clock.nowMs() - since)));
    return begin(target, { ...options, timeoutMs: leftMs });
  }

  async #nextSession(
    method: string,
    timeoutMs: number | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Session> {
    if (this.#final !== undefined) throw unsent(this.#final);
    const { name, pending } = this.#parts;
    if (this.#waiters.length >= tuning.waitingCallsMax) {
      throw new SidecallError('ERR_SIDECALL_LIMIT_STREAMS', `too many calls wait for ${name}`);
    }
    const awake = new AbortController();
    let next: Session | undefined;
    const waiter: Waiter = {
      wake: (session) => {
        next = session;
        awake.abort();
      },
    };
    const forget = signal && onAbort(signal, () => awake.abort());
    this.#waiters.push(waiter);
    try {
      await pause(this.clock, timeoutMs ?? ranges.timeoutMs.max, awake.signal);
    } finally {
      forget?.();
      this.#waiters.remove(waiter);
    }
    signal?.throwIfAborted();
    if (next !== undefined) return next;
    if (this.#final !== undefined) throw unsent(this.#final);
    const text = `${method}: timeoutMs ${timeoutMs} passed while ${pending}`;
    throw new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', text, { delivered: 'no' });
  }
}

/** The final error, for a call of which nothing was sent. */
function unsent({ code, message, retryable }: SidecallError): SidecallError {
  return new SidecallError(code, message, { delivered: 'no', retryable });
}
