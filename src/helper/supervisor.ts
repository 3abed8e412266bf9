// SPDX-License-Identifier: MIT
// Restarts of a helper: its process is started again with back-off, up to a crash-loop limit.

import { backOffMs } from '../base/back-off.ts';
import type { Clock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { emitEvent, type OnEvent } from '../base/events.ts';
import { ignore } from '../base/ignore-errors.ts';
import { pause } from '../base/pause.ts';
import type { Random } from '../base/random.ts';
import { FollowedState } from '../lasting/followed-state.ts';
import { LastingTarget } from '../lasting/lasting-target.ts';
import type { ClosedCalls } from '../rpc/session/closed-calls.ts';
import type { Session } from '../rpc/session/session.ts';
import { exitText, type HelperExit } from './helper-errors.ts';
import type { HelperProcess, StopLimits } from './helper-process.ts';
import { type HelperState, type HelperStates, isHelperEnd } from './helper-state.ts';
import type { ReplacedHelper } from './replacement.ts';
import type { RestartSettings } from './restart-options.ts';

/** A process that a supervisor keeps running. */
export interface SupervisedProcess {
  readonly pid: number;
  readonly session: Session;
  /** Resolves when the process has ended. */
  readonly exited: Promise<HelperExit>;
  readonly exit: HelperExit | undefined;
  /** The handlers that ran, in words, where it ended without `stop()`; undefined: unknown. */
  readonly lastWords?: string | undefined;
  ref(): void;
  unref(): void;
  /** Ends it; resolves when it is gone. `isFollowed`: another process has its place. */
  stop(limits: StopLimits, isFollowed?: boolean): Promise<ClosedCalls>;
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

/** Keeps a helper running. Calls are made on {@link Supervisor.target}. */
export class Supervisor<P extends SupervisedProcess = HelperProcess> {
  readonly target: LastingTarget;
  current: P;
  readonly exited: Promise<HelperExit>;
  readonly states: HelperStates;
  readonly #parts: SupervisorParts<P>;
  readonly #restart: RestartSettings | undefined;
  readonly #retired = new AbortController();
  readonly #restartedAt: number[] = [];
  #isRunning = true;
  #isReferenced = true;
  #restarts = 0;
  // The error of all calls from the moment at which no further process is started.
  #final: SidecallError | undefined;
  #restarting: Promise<void> | undefined;
  #start: (signal: AbortSignal) => Promise<P>;
  // Replacements run one after the other. True: the new process has taken over.
  #replacing: Promise<boolean> | undefined;
  #lastReplacement: Promise<unknown> = Promise.resolve();
  // Processes that were replaced and finish their calls.
  readonly #leaving = new Set<P>();
  #resolveExited!: (exit: HelperExit) => void;

  constructor(parts: SupervisorParts<P>, restart: RestartSettings | undefined, first: P) {
    this.#parts = parts;
    this.target = new LastingTarget({
      name: 'the helper',
      pending: 'the helper was being started again',
      clock: parts.clock,
      random: parts.random,
    });
    this.#restart = restart;
    this.#start = parts.start;
    this.current = first;
    this.target.set(first.session, restart === undefined);
    this.states = new FollowedState(runningState(first, 0), isHelperEnd);
    this.exited = new Promise((resolve) => {
      this.#resolveExited = resolve;
    });
    this.#follow(first);
  }

  setReferenced(isReferenced: boolean): void {
    this.#isReferenced = isReferenced;
    this.target.isReferenced = isReferenced;
    for (const helper of [this.current, ...this.#leaving]) {
      if (isReferenced) helper.ref();
      else helper.unref();
    }
  }

  /**
   * Starts another process and makes it the current one; calls are made on it from then on, and the
   * one before it finishes those that it has. Where the other does not start, rejects, and all is
   * as before. `start` is also how it is started again.
   */
  replace(start: (signal: AbortSignal) => Promise<P>, limits: StopLimits): Promise<ReplacedHelper> {
    const replaced = this.#lastReplacement.then(() => this.#replace(start, limits));
    this.#lastReplacement = replaced.catch(ignore);
    return replaced;
  }

  /** Starts no further process. Resolves to those that may still run, the current one first. */
  async retire(): Promise<readonly P[]> {
    if (this.#final === undefined) {
      this.#final = new SidecallError('ERR_SIDECALL_CLOSED', 'the helper was stopped');
      this.target.end(this.#final);
      this.states.set({ state: 'stopping', restarts: this.#restarts });
    }
    this.#retired.abort();
    await this.#replacing;
    await this.#restarting;
    return [...(this.#isRunning ? [this.current] : []), ...this.#leaving];
  }

  async #replace(
    start: (signal: AbortSignal) => Promise<P>,
    limits: StopLimits,
  ): Promise<ReplacedHelper> {
    await this.#restarting;
    if (this.#final !== undefined) throw this.#final;
    const starting = start(this.#retired.signal);
    this.#replacing = starting.then(
      (next) => this.#takeOver(next),
      () => false,
    );
    const old = this.current;
    const isDone = await this.#replacing;
    this.#replacing = undefined;
    const next = await starting.catch((error: unknown) => {
      throw this.#retired.signal.aborted ? this.#final : error;
    });
    if (!isDone) {
      await next.stop({ deadlineMs: 0, killGraceMs: 0 });
      throw this.#final;
    }
    this.#start = start;
    if (!this.#leaving.has(old)) return { pid: next.pid, moved: 0, drained: 0, forced: 0 };
    const { refused, drained, forced } = await old.stop(limits, true);
    this.#leaving.delete(old);
    return { pid: next.pid, moved: refused, drained, forced };
  }

  /** False: the helper was stopped meanwhile. */
  #takeOver(next: P): boolean {
    if (this.#final !== undefined) return false;
    if (this.#isRunning) this.#leaving.add(this.current);
    this.#isRunning = true;
    this.current = next;
    this.#follow(next);
    this.states.set(runningState(next, this.#restarts));
    this.target.set(next.session, this.#restart === undefined);
    return true;
  }

  #follow(helper: P): void {
    if (!this.#isReferenced) helper.unref();
    void helper.session.closed.then((error) => {
      const isReplaced = helper !== this.current;
      if (isReplaced || helper.exit !== undefined || this.#final !== undefined) return;
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
    if (helper !== this.current) return; // it was replaced
    this.#isRunning = false;
    this.target.clear();
    if (this.#final !== undefined) return this.#end(exit);
    const text = exitText(helper.pid, exit, helper.lastWords);
    const cause = new SidecallError('ERR_SIDECALL_PEER_GONE', text);
    this.#report(cause);
    // True: the session ended with the process, or in order before it, and did not cause the exit.
    const isClean = error === undefined || error.code === 'ERR_SIDECALL_PEER_GONE';
    const hasFinished = exit.code === 0 && isClean && this.#restart?.onSuccess !== true;
    const restart = hasFinished ? undefined : this.#restart;
    if (this.#replacing === undefined) return this.#followExit(restart, exit, cause);
    const restarts = this.#restarts;
    this.states.set({ state: 'restarting', error: cause, pauseMs: 0, restarts });
    this.#restarting = this.#replacing.then((isDone) => {
      this.#restarting = undefined;
      if (!isDone) this.#followExit(restart, exit, cause);
    });
  }

  #followExit(restart: RestartSettings | undefined, exit: HelperExit, cause: SidecallError): void {
    if (restart === undefined || this.#final !== undefined) {
      this.#final ??= cause;
      return this.#end(exit);
    }
    this.#restarting = this.#startAgain(restart, exit, cause);
  }

  async #startAgain(
    restart: RestartSettings,
    last: HelperExit,
    cause: SidecallError,
  ): Promise<void> {
    let why = cause;
    for (;;) {
      const now = this.target.clock.nowMs();
      while ((this.#restartedAt[0] ?? now) < now - restart.windowMs) this.#restartedAt.shift();
      const count = this.#restartedAt.length;
      if (count >= restart.maxRestarts) {
        const what =
          why === cause
            ? `ended ${count + 1} times within ${restart.windowMs} ms: given up as a crash loop`
            : `was not started again in ${count} attempts within ${restart.windowMs} ms: ${why.message}`;
        const text = `helper ${this.#parts.command} ${what}`;
        const facts = { retryable: false, cause: why };
        this.#final ??= new SidecallError('ERR_SIDECALL_HELPER_FAILED', text, facts);
        this.#report(this.#final);
        return this.#end(last);
      }
      this.#restartedAt.push(now);
      const pauseMs = backOffMs(count, restart, this.target.random);
      this.states.set({ state: 'restarting', error: why, pauseMs, restarts: this.#restarts });
      await pause(this.target.clock, pauseMs, this.#retired.signal, this.#isReferenced);
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
      this.current = await this.#start(this.#retired.signal);
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
    this.target.set(this.current.session);
    return undefined;
  }

  #end(exit: HelperExit): void {
    this.#restarting = undefined;
    if (this.#final !== undefined) this.target.end(this.#final);
    const isStopped = this.#final?.code === 'ERR_SIDECALL_CLOSED';
    const error = isStopped ? undefined : this.#final;
    this.states.set({ state: 'ended', exit, error, restarts: this.#restarts });
    this.#resolveExited(exit);
  }

  #report(error: SidecallError): void {
    const { onEvent } = this.#parts;
    emitEvent(onEvent, { type: 'helper-exited', error, peer: this.current.session.peer });
  }
}

function runningState({ pid, session }: SupervisedProcess, restarts: number): HelperState {
  return { state: 'running', pid, session, restarts };
}
