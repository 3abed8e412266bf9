// SPDX-License-Identifier: MIT
// The public face of a session: its peer, its calls, its services, its end.

import type { SidecallError } from '../../base/errors.ts';
import { quiet } from '../../base/ignore-errors.ts';
import { ranges } from '../../base/limits/option-limits.ts';
import { checkInteger, checkKeys } from '../../base/misuse.ts';
import type { Peer } from '../../base/peer.ts';
import { CallKind } from '../../wire/frame-header.ts';
import type { Lane } from '../../wire/transport.ts';
import type { SessionTarget } from '../calling/call-target.ts';
import { type ClientOptions, makeClient } from '../calling/client.ts';
import { untyped } from '../calling/untyped-call.ts';
import {
  type AcceptDuplexOptions,
  type Accepted,
  type AcceptOptions,
  Channel,
  type ChannelOptions,
  type DuplexOptions,
} from '../channels/channel.ts';
import { SessionDuplex } from '../channels/duplex.ts';
import { checkAccept, checkHalfOpen, openChannel } from '../channels/open-channel.ts';
import type { CallOptions } from '../contract/call-options.ts';
import { bytes, type Codec } from '../contract/codec.ts';
import type { Block } from '../contract/leases.ts';
import type { Client, Methods, Service } from '../contract/method-types.ts';
import { checkCodec } from '../contract/service.ts';
import type { SessionCounters } from '../counting/session-counters.ts';
import type { SessionState } from '../sending/session-shared.ts';
import type { Health } from '../serving/health.ts';
import type { HandlersFor, ServeOptions } from '../serving/implementation.ts';
import type { ClosedCalls } from './closed-calls.ts';
import { type InspectOptions, inspected, type SessionInspection } from './inspection.ts';
import { KeepAlive } from './keep-alive.ts';
import type { Liveness } from './pings.ts';
import { SessionCore } from './session-core.ts';
import type { SessionParts } from './session-parts.ts';
import type { SessionStats } from './session-stats.ts';
import { StallTimeout } from './stall-timeout.ts';

/**
 * Two processes that know each other, calling each other. Symmetric: which side listened does not
 * matter, both may {@link Session.call} and {@link Session.serve}.
 */
export class Session implements AsyncDisposable {
  /** The process at the other end. Our policy accepted it before a byte of it was read. */
  readonly peer: Peer;
  /** The lane that carries the frames. */
  readonly lane: Lane;
  /** Why it is that lane. */
  readonly laneReason: string;
  /**
   * Resolves (never rejects) when either side begins to close: the time to end streams and channels
   * that would last longer. Accepting ends then.
   */
  readonly draining: Promise<void>;
  /** Resolves (never rejects) at the end: undefined after an orderly close, else why. */
  readonly closed: Promise<SidecallError | undefined>;
  /** Number of the session: 1, 2, 3 … in this thread, never given twice. */
  readonly id: number;
  /** @internal All that the session has counted. */
  readonly counters: SessionCounters;
  readonly #core: SessionCore;

  /** @internal Sessions come from `connect()` and the like; `core` is made by a simulation. */
  constructor(parts: SessionParts, core = new SessionCore(parts)) {
    this.peer = parts.peer;
    this.lane = parts.transport.lane;
    this.laneReason = parts.laneReason;
    this.#core = core;
    this.id = core.shared.id;
    this.counters = core.shared.counters;
    this.closed = this.#core.closed;
    this.draining = this.#core.draining;
    this.target = this.#core.caller;
    const { keepAlive, stallTimeoutMs } = parts;
    if (keepAlive !== undefined) new KeepAlive(keepAlive, this.#core);
    if (stallTimeoutMs !== undefined) new StallTimeout(stallTimeoutMs, this.#core);
  }

  /** The state of the session. */
  get state(): SessionState {
    return this.#core.state;
  }

  /** The numbers of this session: its load at this moment, and what it has counted so far. */
  stats(): SessionStats {
    return this.#core.stats();
  }

  /**
   * The inside of the session at this moment: open calls and streams with their credit, leases with
   * their age, and of a ring the cursors, sleep and headers of unread records, without payload.
   * `ring.faults` names states that no correct process leaves. It copies the unread part of a ring:
   * for people who look for a fault, not for each second. @throws {TypeError | RangeError}.
   */
  inspect(options?: InspectOptions): SessionInspection {
    return inspected(this, this.#core, options);
  }

  /**
   * The typed functions of a service that the peer serves. Each call rejects, never throws: with
   * `RpcError` for what a handler said, `SidecallError` for what happened on the way,
   * `signal.reason` for the caller's own abort, `TypeError`/`RangeError` for misuse. A rejection
   * that is not awaited is dropped: it never becomes an `unhandledRejection`.
   * @example
   * ```ts
   * import { type Session, service, unary } from 'sidecall';
   *
   * const Demo = service('Demo', { add: unary<{ a: number; b: number }, { sum: number }>() });
   *
   * async function add(session: Session): Promise<number> {
   *   const { sum } = await session.client(Demo).add({ a: 1, b: 2 }, { timeoutMs: 1_000 });
   *   return sum;
   * }
   * ```
   */
  client<M extends Methods>(service: Service<M>, options?: ClientOptions): Client<M> {
    return makeClient(service, this.target, options);
  }

  /**
   * Answers the peer's calls of a service. Before, during and after other calls.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where a handler is missing or the service is
   * served.
   * @example
   * ```ts
   * import { type Session, service, unary } from 'sidecall';
   *
   * const Demo = service('Demo', { add: unary<{ a: number; b: number }, { sum: number }>() });
   *
   * function serve(session: Session): void {
   *   session.serve(Demo, { add: ({ a, b }) => ({ sum: a + b }) });
   * }
   * ```
   */
  serve<M extends Methods, O extends ServeOptions = ServeOptions>(
    service: Service<M>,
    handlers: HandlersFor<M, O>,
    options?: O,
  ): void {
    this.#core.registry.add(service, handlers, options);
  }

  /**
   * Serves a service no more, so that what served it can be taken out: its calls are refused with
   * `unimplemented` from now on, those that run go on. Not for services of the listener or helper.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where this session does not serve it.
   */
  unserve<M extends Methods>(service: Service<M>): void {
    this.#core.registry.remove(service as unknown as Service);
  }

  /**
   * The health of our services, as the peer can ask for it; that of the listener or helper, if
   * there is one.
   */
  get health(): Health {
    return this.#core.registry.health;
  }

  /**
   * Opens a byte stream that the peer meets by `duplexes({ name })`. A failure is an
   * 'error' of the stream; for a name that the peer does not accept it is an `RpcError`
   * with status `unimplemented`.
   * @throws {TypeError | RangeError} for misuse.
   * @example
   * ```ts
   * import type { Session } from 'sidecall';
   *
   * function talk(session: Session): void {
   *   const stream = session.openDuplex({ name: 'terminal' });
   *   process.stdin.pipe(stream).pipe(process.stdout);
   * }
   * ```
   */
  openDuplex(options: DuplexOptions): SessionDuplex {
    const { allowHalfOpen, ...channel } = checkHalfOpen('openDuplex()', options);
    const { idleTimeoutMs } = channel;
    const arrived = openChannel(
      this.#core.shared,
      this.#core.caller,
      CallKind.duplex,
      bytes,
      channel,
    );
    return new SessionDuplex(arrived, { idleTimeoutMs, allowHalfOpen });
  }

  /**
   * Byte streams of one name that the peer opens, from now on until the loop is left. At most 64
   * wait to be taken; more are refused with `resource_exhausted`.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where the name is accepted already.
   */
  duplexes(options: AcceptDuplexOptions): Accepted<SessionDuplex> {
    const { allowHalfOpen, ...accept } = checkHalfOpen('duplexes()', options);
    const { idleTimeoutMs } = accept;
    checkAccept('duplexes()', accept);
    return this.#core.acceptors.add({
      kind: CallKind.duplex,
      name: options.name,
      codec: bytes as Codec<unknown>,
      isBulk: options.priority === 'bulk',
      make: (arrived) => new SessionDuplex(arrived, { idleTimeoutMs, allowHalfOpen }),
    });
  }

  /**
   * Opens a channel of messages that the peer meets by `channels(codec, { name })`.
   * @throws {TypeError | RangeError} for misuse. A later failure rejects the
   * promises of the channel.
   * @example
   * ```ts
   * import { json, type Session } from 'sidecall';
   *
   * async function chat(session: Session): Promise<void> {
   *   const channel = session.openChannel(json<{ text: string }>(), { name: 'chat' });
   *   await channel.send({ text: 'hello' });
   *   for await (const { text } of channel) console.log(text);
   * }
   * ```
   */
  openChannel<T, Input = T>(codec: Codec<T, Input>, options: ChannelOptions): Channel<T, Input> {
    checkCodec('openChannel()', codec);
    const arrived = openChannel(
      this.#core.shared,
      this.#core.caller,
      CallKind.channel,
      codec as Codec<unknown>,
      options,
    );
    return new Channel(arrived, options.idleTimeoutMs);
  }

  /** Channels of one name that the peer opens; as {@link Session.duplexes}. */
  channels<T, Input = T>(
    codec: Codec<T, Input>,
    options: AcceptOptions,
  ): Accepted<Channel<T, Input>> {
    checkCodec('channels()', codec);
    checkAccept('channels()', options);
    return this.#core.acceptors.add({
      kind: CallKind.channel,
      name: options.name,
      codec: codec as Codec<unknown>,
      isBulk: options.priority === 'bulk',
      make: (arrived) => new Channel<T, Input>(arrived, options.idleTimeoutMs),
    });
  }

  /**
   * Memory for one message of the codec `leased`, to be filled in place. On the ring lane with an
   * area of `blockAreaBytes` it lies where the peer reads it; where none is free, or on another
   * lane, it is ordinary memory: `block.inPlace` says which, `stats().blocks` counts. Never waits.
   * @param bytes length of the message; 0 to 1 GiB.
   * @throws {RangeError} `ERR_OUT_OF_RANGE`, {@link SidecallError} `ERR_SIDECALL_MESSAGE_TOO_LARGE`
   * beyond the peer's limit.
   */
  allocate(bytes: number): Block {
    return this.#core.shared.allocate(bytes);
  }

  /**
   * Calls a method by its wire name, in JSON, without a contract.
   * @throws (as rejection) what the functions of {@link Session.client} reject with.
   */
  call(method: string, request?: unknown, options?: CallOptions): Promise<unknown> {
    return this.target.call(untyped(method, CallKind.unary), request, options);
  }

  /** Sends a notification by its wire name, in JSON. Resolves when it was admitted. */
  notify(method: string, request?: unknown, options?: CallOptions): Promise<void> {
    const notification = untyped(method, CallKind.notification);
    return this.target.call(notification, request, options) as Promise<void>;
  }

  /**
   * Milliseconds of one round trip to the peer's event loop, which answers while handlers wait.
   * Within a second of an answer the same result is returned, since the peer allows one ping a
   * second. A ping that fails ends neither the session nor a call.
   * @param options.timeoutMs default: no limit; 0 to 2,147,483,647.
   * @throws (as rejection) {SidecallError} `ERR_SIDECALL_PEER_UNRESPONSIVE` where the time passed;
   * the error of the session where it is over.
   */
  ping(options: { readonly timeoutMs?: number | undefined } = {}): Promise<number> {
    return quiet(this.#core.pings.ping(options));
  }

  /**
   * Liveness of the peer: whether its process lives, whether its event loop turns, and since when
   * it does not. A ping is sent unless an answer of the last second is known. Rejects only for
   * misuse, and ends nothing: the program decides whether a busy peer is too busy, by `timeoutMs`
   * of a call or by `helper.stop()`.
   * @param options.waitMs longest wait for the answer to the ping. Default 250; 0 to 600,000.
   */
  liveness(options: { readonly waitMs?: number | undefined } = {}): Promise<Liveness> {
    return quiet(this.#core.pings.livenessAsked(options));
  }

  /**
   * Orderly end: the peer is told, new calls are refused on both sides, calls in flight finish. At
   * the deadline the rest is cut off: own calls reject with `ERR_SIDECALL_CLOSED`, and
   * notifications that were sent may be lost. A second call does nothing, unless its deadline is
   * sooner: then that one counts. A handler that awaits the close of the session it was called over
   * waits for itself, until the deadline.
   * @param options.deadlineMs default 5,000; 0 to 600,000.
   */
  close(options: { readonly deadlineMs?: number | undefined } = {}): Promise<void> {
    return quiet(this.#close(options));
  }

  async #close(options: { readonly deadlineMs?: number | undefined }): Promise<void> {
    checkKeys('close()', options, ['deadlineMs']);
    const deadlineMs = checkInteger('deadlineMs', options.deadlineMs, ranges.closeDeadlineMs);
    await this.#core.close(deadlineMs);
  }

  /** @internal As `close()`. `isFollowed`: another session makes the calls that are left. */
  closeCounted(deadlineMs: number, isFollowed = false): Promise<ClosedCalls> {
    return this.#core.close(deadlineMs, isFollowed);
  }

  /** @internal Ends the session at once: its owner knows that the peer's process is gone. */
  terminate(error: SidecallError): void {
    this.#core.terminate(error);
  }

  /** @internal The session was taken from its listener. */
  onTaken(): void {
    this.#core.callee.onTaken();
  }

  /** @internal For clients that outlive a session. */
  readonly target: SessionTarget;

  /** The session keeps the process alive (the default). */
  ref(): void {
    this.#core.shared.transport.ref();
  }

  /** The session alone does not keep the process alive. */
  unref(): void {
    this.#core.shared.transport.unref();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
