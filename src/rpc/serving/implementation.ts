// SPDX-License-Identifier: MIT
// A service together with the functions that answer it, and the options of serving it.
import type { Interceptor } from '../contract/interceptor.ts';
import type { Handlers, Methods, Service } from '../contract/method-types.ts';
import { checkService } from '../contract/service.ts';

/** Options of `serve()`. */
export interface ServeOptions {
  /** Functions around every call of the service; the first is the outermost. Default: none. */
  readonly interceptors?: readonly Interceptor[] | undefined;
  /**
   * Serves the methods that have a handler, at least one; calls of the others end with
   * `unimplemented`. Default: each method needs a handler.
   */
  readonly partial?: boolean | undefined;
}

/** The handlers that `serve()` needs with the options `O`. */
export type HandlersFor<M extends Methods, O extends ServeOptions> = O extends {
  readonly partial: true;
}
  ? Partial<Handlers<M>>
  : Handlers<M>;

/** A service with the functions that answer it, for the option `services`. */
export interface Implementation {
  readonly service: Service;
  readonly handlers: unknown;
  readonly options: ServeOptions | undefined;
}

/**
 * A service with its handlers, for the option `services` of all that makes a session: so that it is
 * served before the first call comes. The same as `serve()` otherwise.
 * @throws {TypeError} `ERR_INVALID_ARG_TYPE` for what is no contract.
 * @example
 * ```ts
 * import { connect, implement, service, unary } from 'sidecall';
 *
 * const Clock = service('Clock', { now: unary<void, number>() });
 *
 * const services = [implement(Clock, { now: Date.now })];
 * await connect({ path: '/run/user/1000/app/socket', services });
 * ```
 */
export function implement<M extends Methods, O extends ServeOptions = ServeOptions>(
  service: Service<M>,
  handlers: HandlersFor<M, O>,
  options?: O,
): Implementation {
  checkService('implement()', service);
  return Object.freeze({ service: service as unknown as Service, handlers, options });
}
