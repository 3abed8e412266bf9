// SPDX-License-Identifier: MIT
// Restarts of a helper: its process is started again with back-off, up to a crash-loop limit.

import { backOffMs } from '../base/back-off.ts';
import type { Clock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { emitEvent, type OnEvent } from '../base/events.ts';
import { pause } from '../base/pause.ts';
import type { Random } from '../base/random.ts';
import { FollowedState } from '../lasting/followed-state.ts';
import { LastingTarget } from '../lasting/lasting-target.ts';
import type { Session } from '../rpc/session/session.ts';
import { exitText, type HelperExit } from './helper-errors.ts';
import type { HelperProcess } from './helper-process.ts';
import { type HelperState, type HelperStates, isHelperEnd } from './helper-state.ts';
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
    if (isReferenced) this.current.ref();
    else this.current.unref();
  }

  /** Starts no further process. Resolves to the process that may still run. */
  async retire(): Promise<P | undefined> {
    if (this.#final === undefined) {
      this.#final = new SidecallError('ERR_SIDECALL_CLOSED', 'the helper was stopped');
      this.target.end(this.#final);
      this.states.set({ state: 'stopping', restarts: this.#restarts });
    }
    this.#retired.abort();
    await this.#restarting;
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
    this.target.clear();
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
      const now = this.target.clock.nowMs();
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
      const pauseMs = backOffMs(count, restart, this.target.random);
      this.states.set({ state: 'restarting', error: why, pauseMs, restarts: this.#restarts });
      await pause(this.target.clock, pauseMs, this.#retired.signal);
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
