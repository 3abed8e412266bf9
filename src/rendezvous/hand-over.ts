// SPDX-License-Identifier: MIT
// The listener's side of a hand-over: it gives its socket to one successor, or goes on.
import { onAbort, onAbortOf } from '../base/abort-listeners.ts';
import type { Clock } from '../base/clock.ts';
import { RpcError, SidecallError } from '../base/errors.ts';
import { ignore } from '../base/ignore-errors.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import { ranges } from '../base/limits/option-limits.ts';
import type { Metadata } from '../base/metadata.ts';
import { checkFunction, checkInteger, checkKeys, checkSignal } from '../base/misuse.ts';
import { pause } from '../base/pause.ts';
import type { Peer } from '../base/peer.ts';
import { withDeadline } from '../open/time-limit.ts';
import type { CallContext } from '../rpc/contract/call-context.ts';
import { authorize, checkPolicy, type PeerPolicy } from '../uds/peer-policy.ts';
import type { ListenerStep, SuccessorStep } from './hand-over-service.ts';

/** Options of {@link Listener.handOver}. */
export interface HandOverOptions {
  /** The process that may be the successor. Default: a process of our own effective uid. */
  readonly to?: PeerPolicy | undefined;
  /**
   * Called for each successor, with its `takeOver.metadata`: returns the reason of a refusal, such
   * as an older version, or undefined. Default: none is refused.
   */
  readonly refuse?: ((metadata: Metadata, peer: Peer) => string | undefined) | undefined;
  /**
   * Milliseconds to wait for a successor that is ready. Default: no limit; 0 to 2,147,483,647.
   */
  readonly waitMs?: number | undefined;
  /** Milliseconds for calls in flight, once the successor accepts. Default 5,000; 0 to 600,000. */
  readonly deadlineMs?: number | undefined;
  /** Ends the wait for a successor: `handOver` rejects with its reason. The listener goes on. */
  readonly signal?: AbortSignal | undefined;
}

/** The result of {@link Listener.handOver}. */
export interface HandedOver {
  /** The number of hand-overs of this path, this one included. */
  readonly epoch: number;
  readonly successor: Peer;
  /** Sessions that ended in order, within the deadline. */
  readonly moved: number;
  /**
   * Sessions that were cut off at the deadline: answers that were sent last may not have arrived.
   */
  readonly forced: number;
  /** Calls of both sides that were finished by then. */
  readonly drained: number;
  /** Calls that were cut off, or whose answers the peer had perhaps not taken by then. */
  readonly cutOff: number;
}

/** The successors that are let in. */
interface HandOverRules {
  readonly to: PeerPolicy | undefined;
  readonly refuse: HandOverOptions['refuse'];
}

/** Checked {@link HandOverOptions}. */
export interface HandOverSettings extends HandOverRules {
  readonly waitMs: number | undefined;
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
}

/** @throws {TypeError | RangeError} for misuse. */
export function checkHandOver(options: HandOverOptions): HandOverSettings {
  checkKeys('handOver()', options, ['to', 'refuse', 'waitMs', 'deadlineMs', 'signal']);
  const { to, refuse, waitMs, deadlineMs, signal } = options;
  checkPolicy('to', to);
  checkSignal(signal);
  checkFunction('refuse', refuse);
  return {
    to,
    refuse,
    waitMs: waitMs === undefined ? undefined : checkInteger('waitMs', waitMs, ranges.timeoutMs),
    deadlineMs: checkInteger('deadlineMs', deadlineMs, ranges.closeDeadlineMs),
    signal,
  };
}

/** A place at which the successor gets the socket. */
export interface OfferedPlace {
  /** The path of the place. */
  readonly path: string;
  /** Gives the socket to the successor, once that is ready for it. Rejects at the signal. */
  give(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/** The listening socket, as a hand-over uses it, and the system around it. */
export interface GivenPath {
  readonly clock: Clock;
  readonly epoch: number;
  /** Accepts no connection until `resume()`. */
  pause(): void;
  resume(): void;
  /** The name of a file that does not exist, in the directory of the socket. */
  proofName(): string;
  /** True: that file was made by the user of the successor. It is removed. */
  takeProof(name: string, successor: Peer): boolean;
  /** Opens a place for one process. */
  offer(successor: Peer): Promise<OfferedPlace>;
}

/**
 * Successors that have proved their right and prepare themselves at the same time: the first one
 * that is ready is the next.
 */
const preparingMax = 16;
/** Processes that are remembered because they did not finish a hand-over. */
const lostMax = 64;

/** Waits for one successor and gives it the socket. Until that one accepts, all stays as it is. */
export class HandOver {
  /** Resolves to the successor, once we accept no connections and it may. */
  readonly taken: Promise<Peer>;
  readonly #path: GivenPath;
  readonly #rules: HandOverRules;
  /** Aborted when no successor is waited for any more. */
  readonly #ended: AbortSignal;
  #preparing = 0;
  /** Processes with a hand-over in progress: one has one. Those without a pid count by session. */
  readonly #calling = new Set<Peer | number>();
  /** Resolves when connections are accepted again; undefined: they are. */
  #pause: Promise<void> | undefined;
  /** The earliest time of the next pause: connections are accepted for as long as they waited. */
  #nextPauseMs = 0;
  #isGiven = false;
  /** Processes that were given the path and did not take it, how often, and how long each waits. */
  readonly #lost = new Map<number, { readonly times: number; readonly untilMs: number }>();
  #resolve!: (successor: Peer) => void;

  constructor(path: GivenPath, rules: HandOverRules, ended: AbortSignal) {
    this.#path = path;
    this.#rules = rules;
    this.#ended = ended;
    this.taken = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  /** The handler of a successor's call. */
  async *serve(
    steps: AsyncIterable<SuccessorStep>,
    { peer, signal, metadata }: Pick<CallContext, 'peer' | 'signal' | 'metadata'>,
  ): AsyncGenerator<ListenerStep> {
    try {
      await authorize(this.#rules.to, { peer, isAlive: undefined }, signal);
    } catch (error) {
      throw new RpcError('permission_denied', SidecallError.from(error).message);
    }
    const refusal = this.#rules.refuse?.(metadata, peer);
    if (refusal !== undefined) throw new RpcError('failed_precondition', refusal);
    this.#checkHeldOff(peer);
    const caller = peer.pid || peer;
    if (this.#calling.has(caller)) {
      throw new RpcError('unavailable', `process ${peer.pid} has a hand-over in progress already`);
    }
    const either = new AbortController();
    const end = (reason: unknown): void => either.abort(reason);
    // AbortSignal.any() would leave an entry of each call in the second one.
    const forget = [onAbortOf(signal, end), onAbortOf(this.#ended, end)];
    const said = steps[Symbol.asyncIterator]();
    const isNext = async (wanted: SuccessorStep): Promise<boolean> =>
      (await orAborted(said.next(), either.signal)).value === wanted;
    this.#calling.add(caller);
    try {
      either.signal.throwIfAborted();
      yield* this.#offer(peer, isNext, either.signal);
      yield* this.#prepare(peer, isNext, either.signal);
    } catch (error) {
      if (this.#ended.aborted && !SidecallError.is(error)) {
        throw new RpcError('unavailable', 'no successor is waited for any more', { cause: error });
      }
      // A successor that is late, or gone, is no fault of ours: the listener goes on.
      if (!SidecallError.is(error) || RpcError.is(error)) throw error;
      throw new RpcError('unavailable', error.message, { cause: error });
    } finally {
      this.#calling.delete(caller);
      for (const each of forget) each();
    }
  }

  /** Waits until the successor is ready, with the socket that it has, and passes the path to it. */
  async *#prepare(
    peer: Peer,
    isNext: (wanted: SuccessorStep) => Promise<boolean>,
    either: AbortSignal,
  ): AsyncGenerator<ListenerStep> {
    if (this.#preparing >= preparingMax) {
      throw new RpcError('unavailable', `${preparingMax} successors prepare themselves`);
    }
    this.#preparing += 1;
    try {
      if (await isNext('ready')) yield* this.#pass(peer, isNext, either);
    } finally {
      this.#preparing -= 1;
    }
  }

  /**
   * Gives the socket to a process that could have taken the path in any case, since it can write to
   * the directory. @throws {RpcError} `permission_denied` for another one.
   */
  async *#offer(
    peer: Peer,
    isNext: (wanted: SuccessorStep) => Promise<boolean>,
    either: AbortSignal,
  ): AsyncGenerator<ListenerStep> {
    const { clock, epoch } = this.#path;
    const inTime = <T>(work: (until: AbortSignal) => Promise<T>): Promise<T> =>
      withDeadline('the successor', tuning.handOverStepMs, either, work, clock);
    const file = this.#path.proofName();
    let isSaid = false;
    let isMade = false;
    try {
      yield { step: 'prove', file };
      isSaid = await inTime((until) => orAborted(isNext('proved'), until));
    } finally {
      isMade = this.#path.takeProof(file, peer); // also that of a successor that is lost
      if (!isMade || !isSaid) this.#noteLost(peer);
    }
    if (!isMade || !isSaid) {
      const text = `process ${peer.pid} did not make the file ${file} beside the socket: a successor is a process that can write to that directory`;
      throw new RpcError('permission_denied', text);
    }
    const place = await this.#path.offer(peer);
    try {
      yield { step: 'offer', epoch: epoch + 1, place: place.path };
      await inTime((until) => place.give(until));
    } finally {
      await place.close();
    }
  }

  /**
   * Passes the path to a successor that is ready, and may be stopped at any step: connections wait
   * for a short time only, and so do other successors. The first one that says `accepting` has it.
   */
  async *#pass(
    peer: Peer,
    isNext: (wanted: SuccessorStep) => Promise<boolean>,
    either: AbortSignal,
  ): AsyncGenerator<ListenerStep> {
    const { clock } = this.#path;
    const isEarly = (): boolean => clock.nowMs() < this.#nextPauseMs;
    while (this.#pause !== undefined || isEarly()) {
      await (this.#pause ?? pause(clock, this.#nextPauseMs - clock.nowMs(), either));
      either.throwIfAborted();
    }
    if (this.#isGiven) throw new RpcError('unavailable', 'another successor has the path');
    const endPause = this.#beginPause();
    let isTaken = false;
    try {
      yield { step: 'yours' };
      const accepting = (until: AbortSignal): Promise<boolean> =>
        orAborted(isNext('accepting'), until);
      const isSaid = await withDeadline(
        'the successor',
        tuning.handOverStepMs,
        this.#ended,
        accepting,
        clock,
      );
      if (isSaid && !this.#isGiven) {
        this.#stopAccepting();
        this.#isGiven = true;
        isTaken = true;
      }
    } finally {
      endPause();
      if (!isTaken) this.#noteLost(peer);
    }
    if (!isTaken) throw new RpcError('unavailable', 'another successor has the path');
    this.#resolve(peer);
  }

  /** Accepts no connections for a while. Returns how to end that. */
  #beginPause(): () => void {
    const { clock } = this.#path;
    this.#stopAccepting();
    let resolve: () => void = ignore;
    this.#pause = new Promise((done) => {
      resolve = done;
    });
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      this.#pause = undefined;
      this.#nextPauseMs = clock.nowMs() + tuning.handOverPauseMs;
      clock.clearTimeout(timer);
      forget();
      if (!this.#isGiven) this.#path.resume();
      resolve();
    };
    const timer = clock.setTimeout(end, tuning.handOverPauseMs);
    const forget = onAbort(this.#ended, end);
    return end;
  }

  /** @throws {SidecallError} such as `ERR_SIDECALL_LIMIT_DESCRIPTORS`: all stays as it was. */
  #stopAccepting(): void {
    try {
      this.#path.pause();
    } catch (cause) {
      throw SidecallError.from(cause);
    }
  }

  /** @throws {RpcError} for a process that was given the path just now and did not take it. */
  #checkHeldOff({ pid = 0 }: Peer): void {
    const { untilMs = 0 } = this.#lost.get(pid) ?? {};
    const leftMs = Math.ceil(untilMs - this.#path.clock.nowMs());
    if (leftMs <= 0) return;
    const text = `process ${pid} did not finish its last hand-over: it may try again in ${leftMs} ms`;
    throw new RpcError('unavailable', text);
  }

  #noteLost({ pid = 0 }: Peer): void {
    const { clock } = this.#path;
    const times = (this.#lost.get(pid)?.times ?? 0) + 1;
    const waitMs = Math.min(tuning.handOverPauseMs * 2 ** times, tuning.handOverHeldOffMaxMs);
    this.#lost.delete(pid);
    this.#lost.set(pid, { times, untilMs: clock.nowMs() + waitMs });
    const [oldest] = this.#lost.keys();
    if (this.#lost.size > lostMax && oldest !== undefined) this.#lost.delete(oldest);
  }
}

/** The result of `promise`; rejects with the reason of the signal as soon as it is aborted. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort);
    if (signal.aborted) onAbort();
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
