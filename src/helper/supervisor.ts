// SPDX-License-Identifier: MIT
// Restarts of a helper: its process is started again with back-off, up to a crash-loop limit.

import { onAbort } from '../base/abort-listeners.ts';
import { backOffMs } from '../base/back-off.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { emitEvent, type OnEvent } from '../base/events.ts';
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
import { exitText, type HelperExit } from './helper-errors.ts';
import type { HelperProcess } from './helper-process.ts';
import { type HelperState, HelperStates } from './helper-state.ts';
import type { RestartSettings } from './restart-options.ts';

/** A process that a supervisor keeps running. */
export interface SupervisedProcess {
  readonly pid: number;
  readonly session: Session;
  /** Resolves when the process has ended. */
  readonly exited: Promise<HelperExit>;
  readonly exit: HelperExit | undefined;
  ref(): void;
  unref(): void;
}

/** The parts of a supervisor. */
export interface SupervisorParts<P extends SupervisedProcess> {
  /** The command, for errors. */
  readonly command: string;
  /** Starts the next process. Rejects where it does not start, or `signal` is aborted. */
  readonly start: (signal: AbortSignal) => Promise<P>;
  readonly onEvent: OnEvent | undefined;
  /** Default: those of this thread and of the system. */
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

interface Waiter<P> {
  readonly start: (process: P | undefined) => void;
}

/** Keeps a helper running, and calls waiting while it is not. */
export class Supervisor<P extends SupervisedProcess = HelperProcess> implements CallTarget {
  readonly outlivesSessions = true;
  readonly clock: Clock;
  readonly random: Random;
  current: P;
  readonly exited: Promise<HelperExit>;
  readonly states: HelperStates;
  readonly #parts: SupervisorParts<P>;
  readonly #restart: RestartSettings | undefined;
  readonly #retired = new AbortController();
  readonly #restartedAt: number[] = [];
  readonly #waiters = new Fifo<Waiter<P>>();
  #isRunning = true;
  #isReferenced = true;
  #restarts = 0;
  // The error of all calls from the moment at which no further process is started.
  #final: SidecallError | undefined;
  #restarting: Promise<void> | undefined;
  #resolveExited!: (exit: HelperExit) => void;

  constructor(parts: SupervisorParts<P>, restart: RestartSettings | undefined, first: P) {
    this.#parts = parts;
    this.clock = parts.clock ?? systemClock;
    this.random = parts.random ?? systemRandom;
    this.#restart = restart;
    this.current = first;
    this.states = new HelperStates(runningState(first, 0));
    this.exited = new Promise((resolve) => {
      this.#resolveExited = resolve;
    });
    this.#follow(first);
  }

  /**
   * Rejects, never throws. Between two processes it waits, no longer than the call's own deadline.
   */
  call(callable: MethodCall, value: unknown, options: CallOptions | undefined): Promise<unknown> {
    const target = this.#targetNow;
    if (target !== undefined) return target.call(callable, value, options);
    return failingAtCallSite(
      this.#later(callable.name, options, (next, left) => next.call(callable, value, left)),
    );
  }

  openStream(callable: MethodCall, value: unknown, options: CallOptions | undefined): StreamCall {
    const target = this.#targetNow;
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

  /** The session that calls can be made on at once. */
  get #targetNow(): CallTarget | undefined {
    const { session } = this.current;
    // Without restart no further session follows: the call goes to this one,
    // and fails with its reason.
    const isLast = this.#restart === undefined && this.#final === undefined;
    const isUsable = this.#isRunning && (session.state === 'open' || isLast);
    return isUsable ? session.target : undefined;
  }

  setReferenced(isReferenced: boolean): void {
    this.#isReferenced = isReferenced;
    if (isReferenced) this.current.ref();
    else this.current.unref();
  }

  /** Starts no further process. Resolves to the process that may still run. */
  async retire(): Promise<P | undefined> {
    if (this.#final === undefined) {
      this.#final = new SidecallError('ERR_SIDECALL_CLOSED', 'the helper was stopped');
      this.states.set({ state: 'stopping', restarts: this.#restarts });
    }
    this.#retired.abort();
    await this.#restarting;
    this.#releaseWaiters();
    return this.#isRunning ? this.current : undefined;
  }

  #follow(helper: P): void {
    if (!this.#isReferenced) helper.unref();
    void helper.session.closed.then((error) => {
      if (helper.exit !== undefined || this.#final !== undefined) return;
      const why = error ?? new SidecallError('ERR_SIDECALL_CLOSED', 'its session was closed');
      this.states.set({ state: 'ending', error: why, restarts: this.#restarts });
    });
    // The order: the frames of the process are delivered, its session ends, then the
    // next process is started.
    void helper.exited.then(async (exit) => {
      const error = await helper.session.closed;
      this.#onExit(helper, exit, error);
    });
  }

  #onExit(helper: P, exit: HelperExit, error: SidecallError | undefined): void {
    this.#isRunning = false;
    if (this.#final !== undefined) return this.#end(exit);
    const cause = new SidecallError('ERR_SIDECALL_PEER_GONE', exitText(helper.pid, exit));
    this.#report(cause);
    // True: the session ended with the process, or in order before it, and did not cause the exit.
    const isClean = error === undefined || error.code === 'ERR_SIDECALL_PEER_GONE';
    const hasFinished = exit.code === 0 && isClean && this.#restart?.onSuccess !== true;
    if (this.#restart === undefined || hasFinished) {
      this.#final = cause;
      return this.#end(exit);
    }
    this.#restarting = this.#startAgain(this.#restart, exit, cause);
  }

  async #startAgain(
    restart: RestartSettings,
    last: HelperExit,
    cause: SidecallError,
  ): Promise<void> {
    let why = cause;
    for (;;) {
      const now = this.clock.nowMs();
      while ((this.#restartedAt[0] ?? now) < now - restart.windowMs) this.#restartedAt.shift();
      const count = this.#restartedAt.length;
      if (count >= restart.maxRestarts) {
        const text = `helper ${this.#parts.command} ended ${count + 1} times within ${restart.windowMs} ms: given up as a crash loop`;
        this.#final ??= new SidecallError('ERR_SIDECALL_HELPER_FAILED', text, {
          retryable: false,
        });
        this.#report(this.#final);
        return this.#end(last);
      }
      this.#restartedAt.push(now);
      const pauseMs = backOffMs(count, restart, this.random);
      this.states.set({ state: 'restarting', error: why, pauseMs, restarts: this.#restarts });
      await pause(this.clock, pauseMs, this.#retired.signal);
      if (this.#retired.signal.aborted) return this.#end(last);
      const failure = await this.#tryStart();
      if (failure === undefined) return;
      if (this.#retired.signal.aborted) return this.#end(last);
      why = failure;
    }
  }

  /** undefined: a process runs. Else why none does. */
  async #tryStart(): Promise<SidecallError | undefined> {
    try {
      this.current = await this.#parts.start(this.#retired.signal);
    } catch (error) {
      const failure = SidecallError.from(error);
      if (!this.#retired.signal.aborted) this.#report(failure);
      return failure;
    }
    this.#isRunning = true;
    this.#restarts += 1;
    this.#restarting = undefined;
    this.#follow(this.current);
    if (this.#final === undefined) this.states.set(runningState(this.current, this.#restarts));
    this.#releaseWaiters();
    return undefined;
  }

  #end(exit: HelperExit): void {
    this.#restarting = undefined;
    this.#releaseWaiters();
    const isStopped = this.#final?.code === 'ERR_SIDECALL_CLOSED';
    const error = isStopped ? undefined : this.#final;
    this.states.set({ state: 'ended', exit, error, restarts: this.#restarts });
    this.#resolveExited(exit);
  }

  #releaseWaiters(): void {
    const helper = this.#isRunning && this.#final === undefined ? this.current : undefined;
    for (let waiter = this.#waiters.shift(); waiter; waiter = this.#waiters.shift()) {
      waiter.start(helper);
    }
  }

  /** Begins a call on the next process, with the time that is left then. */
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
    const helper = await this.#nextProcess(method, timeoutMs, signal);
    if (timeoutMs === undefined) return begin(helper.session.target, options);
    const leftMs = Math.max(0, Math.ceil(timeoutMs - (this.clock.nowMs() - since)));
    return begin(helper.session.target, { ...options, timeoutMs: leftMs });
  }

  /** The process that runs, or the next one. */
  async #nextProcess(
    method: string,
    timeoutMs: number | undefined,
    signal: AbortSignal | undefined,
  ): Promise<P> {
    if (this.#final !== undefined) throw this.#finalError();
    if (this.#waiters.length >= tuning.waitingCallsMax) {
      throw new SidecallError('ERR_SIDECALL_LIMIT_STREAMS', 'too many calls wait for the helper');
    }
    const wake = new AbortController();
    let next: P | undefined;
    const waiter: Waiter<P> = {
      start: (process) => {
        next = process;
        wake.abort();
      },
    };
    const forget = signal && onAbort(signal, () => wake.abort());
    this.#waiters.push(waiter);
    try {
      await pause(this.clock, timeoutMs ?? ranges.timeoutMs.max, wake.signal);
    } finally {
      forget?.();
      this.#waiters.remove(waiter);
    }
    signal?.throwIfAborted();
    if (next !== undefined) return next;
    if (this.#final !== undefined) throw this.#finalError();
    const text = `${method}: timeoutMs ${timeoutMs} passed while the helper was being started again`;
    throw new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', text, { delivered: 'no' });
  }

  #finalError(): SidecallError {
    const { code, message, retryable } = this.#final as SidecallError;
    return new SidecallError(code, message, { delivered: 'no', retryable });
  }

  #report(error: SidecallError): void {
    const { onEvent } = this.#parts;
    emitEvent(onEvent, { type: 'helper-exited', error, peer: this.current.session.peer });
  }
}

function runningState({ pid, session }: SupervisedProcess, restarts: number): HelperState {
  return { state: 'running', pid, session, restarts };
}
