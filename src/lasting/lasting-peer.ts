// SPDX-License-Identifier: MIT
// The calls, services and streams of a peer whose process may change.
import type { Peer } from '../base/peer.ts';
import { type ClientOptions, makeClient } from '../rpc/calling/client.ts';
import type {
  AcceptDuplexOptions,
  Accepted,
  AcceptOptions,
  Channel,
  ChannelOptions,
  DuplexOptions,
} from '../rpc/channels/channel.ts';
import type { SessionDuplex } from '../rpc/channels/duplex.ts';
import type { Codec } from '../rpc/contract/codec.ts';
import type { Client, Methods, Service } from '../rpc/contract/method-types.ts';
import type { Health } from '../rpc/serving/health.ts';
import type { HandlersFor, ServeOptions } from '../rpc/serving/implementation.ts';
import type { Registry } from '../rpc/serving/registry.ts';
import type { Session } from '../rpc/session/session.ts';
import type { SessionSums, TotalStats } from '../rpc/session/session-sums.ts';
import { LastingAccepted } from './accepted-streams.ts';
import type { FollowedState, LastingState } from './followed-state.ts';
import type { LastingTarget } from './lasting-target.ts';

/** The parts of a {@link LastingPeer}. */
export interface LastingPeerParts<S extends LastingState> {
  readonly target: LastingTarget;
  readonly registry: Registry;
  readonly states: FollowedState<S>;
  /** The sum of its sessions. */
  readonly sums: SessionSums;
}

/**
 * A peer whose process may change: a helper, or the listener at a path. One session follows the
 * other; clients and services live on.
 */
export abstract class LastingPeer<S extends LastingState> implements AsyncDisposable {
  readonly #parts: LastingPeerParts<S>;

  /** @internal */
  constructor(parts: LastingPeerParts<S>) {
    this.#parts = parts;
  }

  /** The current (or last) session. Another one follows it when the process has changed. */
  abstract get session(): Session;

  /** Ends it in order, as its own kind of end says. */
  abstract close(): Promise<void>;

  /** It keeps this process alive (the default). */
  abstract ref(): void;

  /** It alone does not keep this process alive. */
  abstract unref(): void;

  /** The process at the other end of the current (or last) session. */
  get peer(): Peer {
    return this.session.peer;
  }

  /** The present state. */
  get state(): S {
    return this.#parts.states.latest;
  }

  /**
   * The present state at once, then each change, until the final one. A slow reader sees the latest
   * state only. Leaving the loop changes nothing else.
   */
  states(): AsyncIterableIterator<S, undefined> {
    return this.#parts.states.follow();
  }

  /** The numbers of all its sessions together, those that are over included. */
  stats(): TotalStats {
    return this.#parts.sums.stats();
  }

  /** @internal The same, to be added up. */
  get sums(): SessionSums {
    return this.#parts.sums;
  }

  /**
   * Typed functions of a service that the peer serves. Between two sessions they wait for the next,
   * no longer than their deadlines. At most 131,072 calls wait.
   */
  client<M extends Methods>(service: Service<M>, options?: ClientOptions): Client<M> {
    return makeClient(service, this.#parts.target, options);
  }

  /**
   * Answers the peer's calls, on every session.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where a handler is missing or the service is
   * served.
   */
  serve<M extends Methods, O extends ServeOptions = ServeOptions>(
    service: Service<M>,
    handlers: HandlersFor<M, O>,
    options?: O,
  ): void {
    this.#parts.registry.add(service, handlers, options);
  }

  /**
   * As {@link Session.unserve}, on every session.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where it is not served here.
   */
  unserve<M extends Methods>(service: Service<M>): void {
    this.#parts.registry.remove(service as unknown as Service);
  }

  /** The health of our services, as the peer can ask for it on each session. */
  get health(): Health {
    return this.#parts.registry.health;
  }

  /**
   * As {@link Session.openChannel}, on the session of now: a channel ends with its session.
   * @throws {TypeError | RangeError} for misuse.
   */
  openChannel<T, Input = T>(codec: Codec<T, Input>, options: ChannelOptions): Channel<T, Input> {
    return this.session.openChannel(codec, options);
  }

  /**
   * Channels of one name that the peer opens, on every session; as {@link Session.channels}.
   * @throws {TypeError} for misuse, and where the name is accepted already.
   */
  channels<T, Input = T>(
    codec: Codec<T, Input>,
    options: AcceptOptions,
  ): Accepted<Channel<T, Input>> {
    const { states } = this.#parts;
    return new LastingAccepted(states, (session) => session.channels(codec, options));
  }

  /** As {@link Session.openDuplex}, on the session of now. */
  openDuplex(options: DuplexOptions): SessionDuplex {
    return this.session.openDuplex(options);
  }

  /**
   * Byte streams of one name that the peer opens, on every session; as {@link Session.duplexes}.
   */
  duplexes(options: AcceptDuplexOptions): Accepted<SessionDuplex> {
    const { states } = this.#parts;
    return new LastingAccepted(states, (session) => session.duplexes(options));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
