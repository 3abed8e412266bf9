// SPDX-License-Identifier: MIT
// A session as its users hold it: who is there, call, serve, close.
import type { SidecallError } from '../errors.ts';
import { ranges } from '../limits.ts';
import { checkInteger, checkKeys } from '../options.ts';
import type { Peer } from '../peer.ts';
import type { Lane } from '../transport.ts';
import type { CallOptions } from './call.ts';
import { type CallTarget, makeClient } from './client.ts';
import { json } from './codec.ts';
import type { Client, Handlers, Methods, Service } from './service.ts';
import {
  SessionCore,
  type SessionParts,
  type SessionState,
  type SessionStats,
} from './session-core.ts';

/**
 * Two processes that know each other, calling each other. Symmetric: which side listened does not
 * matter, both may {@link Session.call} and {@link Session.serve}.
 */
export class Session implements AsyncDisposable {
  /** Who is at the other end; the policy of this end accepted it before a byte of it was read. */
  readonly peer: Peer;
  /** What carries the frames. */
  readonly lane: Lane;
  /** Why it is that lane. */
  readonly laneReason: string;
  /** Resolves (never rejects) when the session is over: undefined after an orderly close, else why. */
  readonly closed: Promise<SidecallError | undefined>;
  readonly #core: SessionCore;

  /** @internal Sessions come from `connect()`, `listen()`, `spawnHelper()` and `parent()`. */
  constructor(parts: SessionParts) {
    this.peer = parts.peer;
    this.lane = parts.transport.lane;
    this.laneReason = parts.laneReason;
    this.#core = new SessionCore(parts);
    this.closed = this.#core.closed;
  }

  /** Where the session is in its life. */
  get state(): SessionState {
    return this.#core.state;
  }

  /** Load of this session at this moment, in calls and bytes. */
  stats(): SessionStats {
    return this.#core.stats();
  }

  /**
   * The typed functions of a service that the peer serves. Each call rejects, never throws: with
   * `RpcError` for what a handler said, `SidecallError` for what happened on the way, `signal.reason`
   * for the caller's own abort, `TypeError`/`RangeError` for misuse. A rejection that nobody awaits is
   * dropped: it never becomes an `unhandledRejection`.
   */
  client<M extends Methods>(service: Service<M>): Client<M> {
    return makeClient(service, this.#core.caller);
  }

  /**
   * Answers the peer's calls of a service. Before, during and after other calls.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where a handler is missing or the service is served.
   */
  serve<M extends Methods>(service: Service<M>, handlers: Handlers<M>): void {
    this.#core.registry.add(service, handlers);
  }

  /**
   * Calls a method by its wire name, in JSON, without a contract.
   * @throws (as rejection) what the functions of {@link Session.client} reject with.
   */
  call(method: string, request?: unknown, options?: CallOptions): Promise<unknown> {
    const codec = json<unknown>();
    return this.#core.caller.call(
      { name: method, request: codec, response: codec },
      request,
      options,
    );
  }

  /** Sends a notification by its wire name, in JSON. Resolves when it was admitted. */
  async notify(method: string, request?: unknown, options?: CallOptions): Promise<void> {
    const callable = { name: method, request: json<unknown>(), response: undefined };
    await this.#core.caller.call(callable, request, options);
  }

  /**
   * Orderly end: the peer is told, new calls are refused on both sides, calls in flight finish. What
   * is left at the deadline is cut off: own calls reject with `CLOSED`. Twice is the same as once. A handler
   * that awaits the close of the session it was called over waits for itself, until the deadline.
   * @param options.deadlineMs default 5,000; 0 to 600,000.
   */
  async close(options: { readonly deadlineMs?: number | undefined } = {}): Promise<void> {
    checkKeys('close()', options, ['deadlineMs']);
    const deadlineMs = checkInteger('deadlineMs', options.deadlineMs, ranges.closeDeadlineMs);
    await this.#core.close(deadlineMs);
  }

  /** @internal Ends the session at once: whoever started the peer knows that it is gone. */
  terminate(error: SidecallError): void {
    const { transport } = this.#core;
    if (transport.drainLast === undefined) this.#core.fail(error);
    else transport.drainLast(error);
  }

  /** @internal For clients that outlive a session. */
  get target(): CallTarget {
    return this.#core.caller;
  }

  /** The session keeps the process alive (the default). */
  ref(): void {
    this.#core.transport.ref();
  }

  /** The session alone does not keep the process alive. */
  unref(): void {
    this.#core.transport.unref();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
