// SPDX-License-Identifier: MIT
// server(): one set of services, served at any number of doors (listeners, helpers, connections,
// gRPC), and one end for all of them.
import { systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { ignore, quiet } from '../base/ignore-errors.ts';
import { checkLimits, ranges, type SessionLimits } from '../base/limits/option-limits.ts';
import { checkInteger, checkKeys } from '../base/misuse.ts';
import { checkInterceptors, type Interceptor } from '../rpc/contract/interceptor.ts';
import type { Methods, Service } from '../rpc/contract/method-types.ts';
import type { Health } from '../rpc/serving/health.ts';
import type { HandlersFor, Implementation, ServeOptions } from '../rpc/serving/implementation.ts';
import {
  checkServiceList,
  type Door,
  Registry,
  type ServedSet,
  type ServiceSet,
  servedSet,
} from '../rpc/serving/registry.ts';

/** Options of {@link server}. */
export interface ServerOptions {
  /** Services from the start: `[implement(Contract, handlers)]`. Default: none. */
  readonly services?: readonly Implementation[] | undefined;
  /** Functions around every call of every service; the first is the outermost. Default: none. */
  readonly interceptors?: readonly Interceptor[] | undefined;
  /**
   * Limits of all sessions of the server. A session that is given limits of its own has those where
   * they differ. Default: those of {@link SessionLimits}.
   */
  readonly limits?: Partial<SessionLimits> | undefined;
}

/**
 * Services with their handlers, health and limits, for any number of listeners, helpers and
 * sessions at once: give it as the option `services` to `listen()`, `spawnHelper()`, `parent()`,
 * `connect()`, to the functions of `sidecall/grpc` and the other adapters, and to
 * `createSessionPair()` in tests.
 * {@link Server.close} ends them all.
 * @throws {TypeError | RangeError} for misuse.
 * @example
 * ```ts
 * import { listen, server, service, unary } from 'sidecall';
 *
 * const Clock = service('Clock', { now: unary<void, number>() });
 *
 * const app = server();
 * app.serve(Clock, { now: () => Date.now() });
 * await listen({ path: '/run/user/1000/clock/socket', services: app });
 * await listen({ path: '/run/clock/group', mode: '0660', authorize: { gid: 20 }, services: app });
 * process.once('SIGTERM', () => app.close());
 * ```
 */
export function server(options: ServerOptions = {}): Server {
  return new Server(options);
}

/** A set of services, and all that serves it. Made by {@link server}. */
export class Server implements ServiceSet, AsyncDisposable {
  /** Resolves (never rejects) once {@link Server.close} is done. */
  readonly closed: Promise<void>;
  /** @internal */
  readonly [servedSet]: ServedSet;
  readonly #registry = new Registry();
  readonly #interceptors: readonly Interceptor[];
  readonly #doors = new Set<Door>();
  #closing: Promise<void> | undefined;
  #resolveClosed: () => void = ignore;

  /** @internal Use `server()`. */
  constructor(options: ServerOptions) {
    checkKeys('server()', options, ['services', 'interceptors', 'limits']);
    const { services, limits } = options;
    checkLimits(limits);
    this.#interceptors = checkInterceptors('server()', options.interceptors);
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    const registry = this.#registry;
    checkServiceList(services);
    for (const { service, handlers, options: own } of services ?? []) {
      this.serve(service, handlers as never, own);
    }
    if (services !== undefined) registry.settle();
    this[servedSet] = {
      registry,
      limits,
      checkOpen: () => this.#checkOpen(),
      hold: (door) => this.#hold(door),
    };
  }

  /**
   * Answers calls of a service at all listeners, helpers and sessions, also those that come later.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where a handler is missing or the service is served
   * already.
   */
  serve<M extends Methods, O extends ServeOptions = ServeOptions>(
    service: Service<M>,
    handlers: HandlersFor<M, O>,
    options?: O,
  ): void {
    const own = checkInterceptors('serve()', options?.interceptors);
    this.#registry.add(service, handlers, {
      ...options,
      interceptors: [...this.#interceptors, ...own],
    });
  }

  /**
   * Serves a service no more: calls of it are refused with `unimplemented` from now on, those that
   * run go on.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where it is not served here.
   */
  unserve<M extends Methods>(service: Service<M>): void {
    this.#registry.remove(service as unknown as Service);
  }

  /** The health of the services, the same for all callers. {@link Server.close} shuts it down. */
  get health(): Health {
    return this.#registry.health;
  }

  /** Listeners, helpers and sessions that serve this server at the moment. */
  get openCount(): number {
    return this.#doors.size;
  }

  /**
   * Ends everything that serves, each in its order: health says `not_serving`, new calls are
   * refused, calls under way finish. The listeners end first, then helpers and sessions, which the
   * handlers of calls may still use. A listener removes its socket file, a helper process is ended.
   * A second call has no further effect.
   * @param options.deadlineMs for calls under way: default 5,000; 0 to 600,000.
   * @throws (as rejection) {TypeError | RangeError} for misuse.
   */
  close(options: { readonly deadlineMs?: number | undefined } = {}): Promise<void> {
    return quiet(this.#checkAndClose(options));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #checkOpen(): void {
    if (this.#closing === undefined) return;
    throw new SidecallError('ERR_SIDECALL_CLOSED', 'the server was closed');
  }

  async #hold(door: Door): Promise<void> {
    if (this.#closing !== undefined) {
      await door.close(0);
      this.#checkOpen();
    }
    this.#doors.add(door);
    const forget = (): void => void this.#doors.delete(door);
    door.closed.then(forget, forget);
  }

  async #checkAndClose(options: { readonly deadlineMs?: number | undefined }): Promise<void> {
    checkKeys('close()', options, ['deadlineMs']);
    const deadlineMs = checkInteger('deadlineMs', options.deadlineMs, ranges.closeDeadlineMs);
    this.#closing ??= this.#close(deadlineMs);
    await this.#closing;
  }

  async #close(deadlineMs: number): Promise<void> {
    const until = systemClock.nowMs() + deadlineMs;
    await this.#registry.shutDown(systemClock);
    const leftMs = (): number => Math.max(0, Math.floor(until - systemClock.nowMs()));
    const end = (door: Door): Promise<unknown> => door.close(leftMs());
    await Promise.allSettled([...this.#doors].filter(({ isListener }) => isListener).map(end));
    await Promise.allSettled([...this.#doors].map(end));
    this.#resolveClosed();
  }
}
