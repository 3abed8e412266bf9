// SPDX-License-Identifier: MIT
// The listener's side of a hand-over: it gives its socket to one successor, or goes on.
import { onAbort } from '../base/abort-listeners.ts';
import type { Clock } from '../base/clock.ts';
import { RpcError, SidecallError } from '../base/errors.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import { ranges } from '../base/limits/option-limits.ts';
import type { Metadata } from '../base/metadata.ts';
import { checkFunction, checkInteger, checkKeys, checkSignal } from '../base/misuse.ts';
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
   * Asked for each successor, with its `takeOver.metadata`: the reason for which it is refused, or
   * undefined. For versions, for one. Default: none is refused.
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
  /** Opens a place for one process. */
  offer(successor: Peer): Promise<OfferedPlace>;
}

/** Waits for one successor and gives it the socket. Until that one accepts, all stays as it is. */
export class HandOver {
  /** Resolves to the successor, once it accepts connections and we do not. */
  readonly taken: Promise<Peer>;
  readonly #path: GivenPath;
  readonly #rules: HandOverRules;
  /** Aborted when no successor is waited for any more. */
  readonly #ended: AbortSignal;
  #isBusy = false;
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
    if (this.#isBusy) throw new RpcError('unavailable', 'another successor takes over');
    this.#isBusy = true;
    const { clock, epoch } = this.#path;
    const either = AbortSignal.any([signal, this.#ended]);
    const said = steps[Symbol.asyncIterator]();
    const isNext = async (wanted: SuccessorStep): Promise<boolean> =>
      (await orAborted(said.next(), either)).value === wanted;
    let isTaken = false;
    let isLost = false;
    let endPause: (() => void) | undefined;
    try {
      either.throwIfAborted();
      const place = await this.#path.offer(peer);
      try {
        yield { step: 'offer', epoch: epoch + 1, place: place.path };
        const give = (until: AbortSignal): Promise<void> => place.give(until);
        await withDeadline('the successor', tuning.handOverStepMs, either, give, clock);
      } finally {
        await place.close();
      }
      if (!(await isNext('ready'))) return;
      this.#path.pause();
      // Whether or not the successor takes what follows: a pause has an end.
      endPause = this.#limitPause(() => {
        isLost = true;
      });
      yield { step: 'yours' };
      isTaken = (await isNext('accepting')) && !isLost;
    } catch (error) {
      // A successor that is late, or gone, is no fault of ours: the listener goes on.
      if (!SidecallError.is(error) || RpcError.is(error)) throw error;
      throw new RpcError('unavailable', error.message, { cause: error });
    } finally {
      this.#isBusy = false;
      endPause?.();
      if (isTaken) this.#resolve(peer);
      else this.#path.resume();
    }
  }

  /** Accepts connections again after a while, or when the wait is over. Returns how to end that. */
  #limitPause(onEnd: () => void): () => void {
    const { clock } = this.#path;
    const end = (): void => {
      onEnd();
      this.#path.resume();
    };
    const timer = clock.setTimeout(end, tuning.handOverStepMs);
    const forget = onAbort(this.#ended, end);
    return () => {
      clock.clearTimeout(timer);
      forget();
    };
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
