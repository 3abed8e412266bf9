// SPDX-License-Identifier: MIT
// The public face of a pool: one client over several helpers, or sessions with a listener.
import { SidecallError } from '../base/errors.ts';
import { quiet } from '../base/ignore-errors.ts';
import { isIterable } from '../base/iterable.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { checkBoolean, checkInteger, checkKeys, checkSignal, nodeError } from '../base/misuse.ts';
import { FollowedState, type LastingState } from '../lasting/followed-state.ts';
import type { LastingPeer } from '../lasting/lasting-peer.ts';
import { type ClientOptions, makeClient } from '../rpc/calling/client.ts';
import type { Client, Methods, Service } from '../rpc/contract/method-types.ts';
import type { HandlersFor, ServeOptions } from '../rpc/serving/implementation.ts';
import type { Session } from '../rpc/session/session.ts';
import { SessionSums } from '../rpc/session/session-sums.ts';
import { type MapItem, mapItems } from './map-items.ts';
import type { PoolSettings } from './pool-options.ts';
import { isPoolEnd, type PoolState, type PoolStats } from './pool-state.ts';
import { PoolSeat, PoolTarget } from './pool-target.ts';

/** A member of a pool: a helper, or a connection. */
export type PoolMember = Pick<
  LastingPeer<LastingState>,
  'session' | 'peer' | 'state' | 'states' | 'serve' | 'unserve' | 'ref' | 'unref'
>;

/** Options of the end of a pool. */
export interface PoolStopOptions {
  /** Milliseconds for calls in flight. Default 5,000; 0 to 600,000. */
  readonly deadlineMs?: number | undefined;
}

/** Options of {@link Pool.map}. */
export interface MapOptions {
  /**
   * Calls under way at once. Default: twice the size of the pool, or what `callsPerMember` allows;
   * 1 to 131,072. At most four times as many items are taken ahead of the results that were read.
   */
  readonly concurrency?: number | undefined;
  /** Results in the order of the items (the default), or as they come. */
  readonly ordered?: boolean | undefined;
  /** Aborting it ends the iteration with its reason, and aborts the calls. */
  readonly signal?: AbortSignal | undefined;
}

/** The numbers of a member, which its declared type leaves out. */
function sumsOf(member: PoolMember): SessionSums {
  return (member as LastingPeer<LastingState>).sums;
}

/** The parts of a pool. */
export interface PoolParts<M extends PoolMember> {
  readonly members: readonly M[];
  readonly settings: PoolSettings;
  /** The reason for which a member has ended for good. */
  readonly endOf: (member: M) => SidecallError | undefined;
  readonly stop: (member: M, deadlineMs: number) => Promise<unknown>;
  /** Told when a call was begun on the member of this number. */
  readonly onBegun?: ((member: number, begun: number) => void) | undefined;
  readonly recycled?: ((member: number) => number) | undefined;
  /** Told when the pool stops. */
  readonly onStop?: (() => void) | undefined;
}

/**
 * Several processes or sessions behind one client. Each call goes to the member with the fewest
 * calls under way; members that drain, start again or are busy get nothing new. Calls that no
 * handler of a member has seen when it ended are made on another one. Streams stay on the member on
 * which they began.
 */
export class Pool<M extends PoolMember = PoolMember> implements AsyncDisposable {
  /** The helpers or connections, in no particular order; their number does not change. */
  readonly members: readonly M[];
  /**
   * Resolves (never rejects) when no member follows any more: undefined after {@link Pool.stop},
   * else why the last member has ended.
   */
  readonly ended: Promise<SidecallError | undefined>;
  readonly #parts: PoolParts<M>;
  readonly #seats: readonly PoolSeat[];
  readonly #target: PoolTarget;
  readonly #states: FollowedState<PoolState>;
  #resolveEnded!: (error: SidecallError | undefined) => void;
  #living: number;
  #stopping: Promise<void> | undefined;

  /** @internal Use `spawnPool()` or `connectPool()`. */
  constructor(parts: PoolParts<M>) {
    this.#parts = parts;
    this.members = parts.members;
    this.#living = parts.members.length;
    this.#seats = parts.members.map((member, index) => new PoolSeat(index, () => member.session));
    this.#target = new PoolTarget({
      name: 'a member of the pool',
      pending: 'every member of the pool was away or busy',
      seats: this.#seats,
      callsPerMember: parts.settings.callsPerMember,
      onBegun: ({ index, begun }) => parts.onBegun?.(index, begun),
    });
    this.#states = new FollowedState<PoolState>({ state: 'ready', open: this.#open }, isPoolEnd);
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    for (const member of parts.members) void this.#follow(member);
  }

  /** The number of members. */
  get size(): number {
    return this.members.length;
  }

  /** The present state. */
  get state(): PoolState {
    return this.#states.latest;
  }

  /** The present state at once, then each change. A slow reader sees the latest state only. */
  states(): AsyncIterableIterator<PoolState, undefined> {
    return this.#states.follow();
  }

  /** Load of the pool at this moment, in calls. */
  stats(): PoolStats {
    const now = this.#target.clock.nowMs();
    const members = this.members.map((member, at) => {
      const { slow, begun } = this.#seats[at] as PoolSeat;
      return {
        state: member.state.state,
        pid: member.peer.pid,
        begun,
        underWay: member.session.target.work,
        slowness: slow.factor(now),
        recycled: this.#parts.recycled?.(at) ?? 0,
      };
    });
    const total = SessionSums.of(this.members.map(sumsOf));
    return { open: this.#open, waiting: this.#target.waiting, members, total };
  }

  /**
   * Typed functions of a service that every member serves. Calls wait while each member is away or
   * busy, no longer than their deadlines. At most 131,072 wait. A call with the option `key` goes
   * to the member of that key.
   */
  client<T extends Methods>(service: Service<T>, options?: ClientOptions): Client<T> {
    return makeClient(service, this.#target, options);
  }

  /**
   * Answers the calls of every member.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where a handler is missing or the service is
   * served.
   */
  serve<T extends Methods, O extends ServeOptions = ServeOptions>(
    service: Service<T>,
    handlers: HandlersFor<T, O>,
    options?: O,
  ): void {
    for (const member of this.members) member.serve(service, handlers, options);
  }

  /**
   * As {@link Session.unserve}, for every member.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where it is not served here.
   */
  unserve<T extends Methods>(service: Service<T>): void {
    for (const member of this.members) member.unserve(service);
  }

  /**
   * The session that the next call would go to, for channels and byte streams, which end with it.
   * @param options.key that of the member, as of a call.
   * @throws {SidecallError} `ERR_SIDECALL_GOING_AWAY`, retryable, while every member is away or
   * busy; the final error of the pool once it has ended.
   */
  session(options: { readonly key?: string | number | undefined } = {}): Session {
    checkKeys('session()', options, ['key']);
    const session = this.#target.pick(options);
    if (session !== undefined) return session;
    throw this.#target.final ?? new SidecallError('ERR_SIDECALL_GOING_AWAY', awayText);
  }

  /**
   * Results of one call for each item, in their order, to be iterated by `for await`. An item is
   * taken when a call may be made for it, so that the items may be more than fit into memory. The
   * first call that rejects ends the iteration with its error and aborts the others, as does
   * leaving the loop.
   * @param method a function of a client of this pool, or any that returns a promise; it gets the
   * item, and `{ signal }`.
   * @throws {TypeError | RangeError} for misuse.
   * @example
   * ```ts
   * import { service, spawnPool, unary } from 'sidecall';
   *
   * const Hasher = service('Hasher', { hash: unary<string, string>() });
   *
   * await using pool = await spawnPool(new URL('hasher.mjs', import.meta.url));
   * const { hash } = pool.client(Hasher);
   * for await (const line of pool.map(['a.txt', 'b.txt'], hash)) console.log(line);
   * ```
   */
  map<T, R>(
    items: Iterable<T> | AsyncIterable<T>,
    method: MapItem<T, R>,
    options: MapOptions = {},
  ): AsyncGenerator<R, undefined> {
    checkKeys('map()', options, ['concurrency', 'ordered', 'signal']);
    if (!isIterable(items) || typeof method !== 'function') {
      const text = 'map() needs items that can be iterated, and a function';
      throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
    }
    const { concurrency } = options;
    const signal = checkSignal(options.signal);
    const isOrdered = checkBoolean('ordered', options.ordered, true);
    const most = Math.min(2, this.#parts.settings.callsPerMember) * this.size;
    return mapItems(items, method, {
      concurrency:
        concurrency === undefined
          ? most
          : checkInteger('concurrency', concurrency, ranges.mapConcurrency),
      isOrdered,
      signal,
    });
  }

  /**
   * Ends every member in order: calls in flight finish, those that wait are begun and finish, too,
   * as far as `deadlineMs` lets them, and new ones are refused. Resolves when all is gone. A second
   * call has no further effect.
   */
  stop(options: PoolStopOptions = {}): Promise<void> {
    return quiet(this.#checkAndStop(options));
  }

  /** The pool keeps this process alive (the default). */
  ref(): void {
    for (const member of this.members) member.ref();
  }

  /** The pool alone does not keep this process alive. */
  unref(): void {
    for (const member of this.members) member.unref();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  get #open(): number {
    return this.#seats.filter(({ session }) => session !== undefined).length;
  }

  async #checkAndStop(options: PoolStopOptions): Promise<void> {
    checkKeys('stop()', options, ['deadlineMs']);
    const deadlineMs = checkInteger('deadlineMs', options.deadlineMs, ranges.closeDeadlineMs);
    this.#stopping ??= this.#stop(deadlineMs);
    await this.#stopping;
  }

  async #stop(deadlineMs: number): Promise<void> {
    this.#parts.onStop?.();
    if (isPoolEnd(this.state)) return;
    const stopped = new SidecallError('ERR_SIDECALL_CLOSED', 'the pool was stopped');
    const { clock } = this.#target;
    const until = clock.nowMs() + deadlineMs;
    this.#states.set({ state: 'stopping', open: this.#open });
    await this.#target.finish(stopped, deadlineMs);
    this.#target.end(stopped);
    const leftMs = Math.max(0, Math.ceil(until - clock.nowMs()));
    await Promise.all(this.members.map((member) => this.#parts.stop(member, leftMs)));
    await this.ended;
  }

  async #follow(member: M): Promise<void> {
    const states = member.states();
    while ((await states.next()).done !== true) this.#onChange();
    this.#living -= 1;
    if (this.#living > 0) return this.#onChange();
    const error = this.#stopping === undefined ? this.#parts.endOf(member) : undefined;
    this.#parts.onStop?.();
    this.#target.end(error ?? new SidecallError('ERR_SIDECALL_CLOSED', 'the pool has ended'));
    this.#states.set({ state: 'ended', open: 0, error });
    this.#resolveEnded(error);
  }

  /** A member has come or gone. */
  #onChange(): void {
    const open = this.#open;
    const { latest } = this.#states;
    if (isPoolEnd(latest)) return;
    if (this.#stopping === undefined && open !== latest.open) {
      this.#states.set(open === 0 ? { state: 'waiting', open } : { state: 'ready', open });
    }
    this.#target.onRoom();
  }
}

const awayText = 'every member of the pool is away or busy';
