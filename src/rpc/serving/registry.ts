// SPDX-License-Identifier: MIT
// Methods that are served, by wire name. A Map: a method called `toString` is unknown like any
// other.

import { AsyncResource } from 'node:async_hooks';
import type { Clock } from '../../base/clock.ts';
import type { SessionLimits } from '../../base/limits/option-limits.ts';
import { checkBoolean, checkKeys, nodeError } from '../../base/misuse.ts';
import { isThenable } from '../../base/thenable.ts';
import type { CallContext } from '../contract/call-context.ts';
import type { Codec } from '../contract/codec.ts';
import { around, checkInterceptors, type Interceptor } from '../contract/interceptor.ts';
import { isLeased } from '../contract/leases.ts';
import type { Handlers, Method, MethodKind, Methods, Service } from '../contract/method-types.ts';
import { builtInPrefix, callKindOf, checkService } from '../contract/service.ts';
import { withoutInheritance } from '../deadline.ts';
import { Health, HealthService } from './health.ts';
import type { Implementation, ServeOptions } from './implementation.ts';
import { ReflectionService, reflectionHandlers } from './reflection.ts';
import { holdsRequest, type RequestHolder } from './request-memory.ts';

/** The services of a `server()`, as everything that serves them sees it. */
export interface ServedSet {
  readonly registry: Registry;
  /** Limits of sessions that set none themselves. */
  readonly limits: Partial<SessionLimits> | undefined;
  /** @throws {SidecallError} `ERR_SIDECALL_CLOSED` where the server was closed. */
  checkOpen(): void;
  /**
   * Closes `door` when the server is closed.
   * @throws (as rejection) {SidecallError} `ERR_SIDECALL_CLOSED` where that has happened already;
   * then `door` is closed.
   */
  hold(door: Door): Promise<void>;
}

/** A way to the services of a server. */
export interface Door {
  /** Settles when it is over. */
  readonly closed: Promise<unknown>;
  /** True: others call by it. It ends before helpers and sessions, which its calls may use. */
  readonly isListener: boolean;
  close(deadlineMs: number): Promise<unknown>;
}

/** @internal */
export const servedSet: unique symbol = Symbol('sidecall.servedSet');

/** The services of a `server()`, for the option `services`. */
export interface ServiceSet {
  /** @internal */
  readonly [servedSet]: ServedSet;
}

/** The option `services`. */
export type Services = readonly Implementation[] | ServiceSet;

/** The services as a server holds them, where `services` is one. */
export function servedSetOf(services: Services | undefined): ServedSet | undefined {
  return (services as Partial<ServiceSet> | undefined)?.[servedSet];
}

type Handler = (request: unknown, ctx: CallContext) => unknown;

/** A method with the function that answers it. */
export interface Served {
  readonly kind: MethodKind;
  /** {@link Served.kind} on the wire. */
  readonly callKind: number;
  readonly request: Codec<unknown>;
  readonly response: Codec<unknown> | undefined;
  /** Its handler gives a stream. */
  readonly isStreaming: boolean;
  /** Its calls have one answer, hold no memory that goes back, and no place behind others. */
  readonly isPlain: boolean;
  readonly isBulk: boolean;
  /** A method of the package itself: its handler is short, and never waits to be started. */
  readonly isBuiltIn: boolean;
  readonly handler: Handler;
  /**
   * The asynchronous context of `serve()`, in which the handler runs: not in that of the code that
   * woke the session. `AsyncLocalStorage.snapshot()` takes eight times as long to enter.
   */
  readonly context: AsyncResource;
  /** Its calls are told when the session is about to close: they would last for ever. */
  readonly endsAtDrain: boolean;
}

interface Watcher {
  readonly onServed: () => void;
  readonly check: ((service: Service) => void) | undefined;
}

/** Changes of what is served anywhere, ever. */
export const changes = { count: 0 };

/**
 * Methods of one session, on top of those that its listener or helper serves for all of its own.
 */
export class Registry {
  readonly #methods = new Map<string, Served>();
  readonly #services: Service[] = [];
  #parent: Registry | undefined;
  #builtIns: Map<string, Served> | undefined;
  #health: Health | undefined;
  readonly #watchers = new Set<Watcher>();
  // The method that was looked for last: most calls of a session are of one.
  #lastName: string | undefined;
  #lastChange = 0;
  #last: Served | undefined;
  #hasServed = false;
  /** The peer may list what is served here. */
  isIntrospective = false;

  constructor(parent?: Registry) {
    this.#parent = parent;
  }

  find(name: string): Served | undefined {
    if (name === this.#lastName && this.#lastChange === changes.count) return this.#last;
    const served = this.#find(name);
    this.#lastName = name;
    this.#lastChange = changes.count;
    this.#last = served;
    return served;
  }

  #find(name: string): Served | undefined {
    const served = this.#methods.get(name) ?? this.#parent?.find(name);
    if (served !== undefined || !name.startsWith(builtInPrefix)) return served;
    return this.#findBuiltIn(name);
  }

  /**
   * True: services were given, or an empty list of them. A method that is not found
   * will not be served later.
   */
  get hasServed(): boolean {
    return this.#hasServed || this.#parent?.hasServed === true;
  }

  /**
   * Calls `onServed` for every service that comes, and `check` before it comes, which throws for
   * one that cannot be served. Returns how to end that.
   */
  watch(onServed: () => void, check?: (service: Service) => void): () => void {
    const unwatch = this.#parent?.watch(onServed, check);
    const watcher = { onServed, check };
    this.#watchers.add(watcher);
    return () => {
      this.#watchers.delete(watcher);
      unwatch?.();
    };
  }

  /** The list of services is complete: requests for others do not wait. */
  settle(): void {
    this.#hasServed = true;
    for (const { onServed } of [...this.#watchers]) onServed();
  }

  /** Everything that is served here, the built-in services not included. */
  get services(): readonly Service[] {
    return [...(this.#parent?.services ?? []), ...this.#services];
  }

  /** The health of our services; that of the listener or helper, where there is one. */
  get health(): Health {
    if (this.#parent !== undefined) return this.#parent.health;
    this.#health ??= new Health();
    return this.#health;
  }

  /**
   * Tells the watchers of our health that we serve no more. A listener or helper tells
   * those of its sessions itself.
   */
  shutDown(clock: Clock): Promise<void> | undefined {
    if (this.#parent !== undefined || this.#health === undefined) return undefined;
    this.#health.shutdown();
    // A watcher hears of it before the session drains.
    if (!this.#health.isWatched) return undefined;
    return new Promise((resolve) => clock.setImmediate(resolve));
  }

  /**
   * Serves a service.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where a handler is missing or the service is served
   * already, or a listener of another protocol cannot serve it; then nothing of it is served.
   */
  add<M extends Methods>(
    service: Service<M>,
    handlers: Partial<Handlers<M>>,
    options: ServeOptions = {},
  ): void {
    checkService('serve()', service);
    checkKeys('serve()', options, ['interceptors', 'partial']);
    const isPartial = checkBoolean(`serve(${service.name}): partial`, options.partial);
    const interceptors = checkInterceptors(`serve(${service.name})`, options.interceptors);
    if (typeof handlers !== 'object' || handlers === null) {
      throw misuse(`serve(${service.name}): handlers are missing`);
    }
    const added = served(service, handlers, interceptors, { isPartial });
    if (added.size === 0) throw misuse(`serve(${service.name}): there is no handler`);
    for (const name of added.keys()) {
      if (this.find(name) === undefined) continue;
      throw misuse(`serve(${service.name}): '${name}' is served already`);
    }
    for (const { check } of this.#watchers) check?.(service as unknown as Service);
    for (const [name, method] of added) this.#methods.set(name, method);
    changes.count += 1;
    this.#services.push(service as unknown as Service);
    this.settle();
  }

  /**
   * Serves a service of the package for a while. `isBuiltIn`: its handlers always start at once,
   * whatever waits. Returns how to end that.
   */
  addOwn<M extends Methods>(
    service: Service<M>,
    handlers: Handlers<M>,
    { isBuiltIn }: { readonly isBuiltIn?: boolean } = {},
  ): () => void {
    const added = served(service, handlers, [], { isBuiltIn: isBuiltIn === true });
    for (const [name, method] of added) this.#methods.set(name, method);
    changes.count += 1;
    return () => {
      for (const name of added.keys()) this.#methods.delete(name);
      changes.count += 1;
    };
  }

  /**
   * Serves what the option `services` says: of a list nothing else, unless `serve()` is called; of
   * a server everything that it serves, now and later. undefined: it was left out.
   * @throws {TypeError} as `serve()`; {SidecallError} `ERR_SIDECALL_CLOSED` for a closed server.
   */
  addAll(services: Services | undefined): void {
    if (services === undefined) return;
    const set = servedSetOf(services);
    if (set !== undefined) {
      set.checkOpen();
      this.#parent = set.registry;
      changes.count += 1;
      return;
    }
    checkServiceList(services as readonly Implementation[]);
    for (const { service, handlers, options } of services as readonly Implementation[]) {
      this.add(service, handlers as Handlers<Methods>, options);
    }
    this.settle();
  }

  /**
   * Serves a service no more: calls of it are refused from now on, those that run go on.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where it is not served here.
   */
  remove(service: Service): void {
    checkService('unserve()', service);
    const at = this.#services.indexOf(service);
    if (at === -1) throw misuse(`unserve(${service.name}): it is not served here`);
    this.#services.splice(at, 1);
    for (const method of Object.keys(service.methods)) {
      this.#methods.delete(service.wireName(method));
    }
    changes.count += 1;
  }

  #findBuiltIn(name: string): Served | undefined {
    this.#builtIns ??= this.#makeBuiltIns();
    return this.#builtIns.get(name);
  }

  #makeBuiltIns(): Map<string, Served> {
    const builtIns = served(HealthService, this.health.handlers, [], { isBuiltIn: true });
    if (!this.isIntrospective) return builtIns;
    const reflection = reflectionHandlers(
      () => this.services,
      (name) => this.find(name) !== undefined,
    );
    const introspection = served(ReflectionService, reflection, [], { isBuiltIn: true });
    return new Map([...builtIns, ...introspection]);
  }
}

/** A member of an object of handlers or its class; `Object.prototype` is the class of none. */
function memberOf(handlers: object, name: string): unknown {
  let holder: object | null = handlers;
  while (holder !== null && !Object.hasOwn(holder, name)) holder = Object.getPrototypeOf(holder);
  if (holder === null) return undefined;
  const isRoot = Object.getPrototypeOf(holder) === null && Object.hasOwn(holder, 'isPrototypeOf');
  return isRoot ? undefined : (handlers as Record<string, unknown>)[name];
}

/** The methods of a service with their handlers. @throws {TypeError} where one is missing. */
function served<M extends Methods>(
  service: Service<M>,
  handlers: Partial<Handlers<M>>,
  interceptors: readonly Interceptor[],
  { isBuiltIn = false, isPartial = false }: { isBuiltIn?: boolean; isPartial?: boolean },
): Map<string, Served> {
  const methods = new Map<string, Served>();
  const context = withoutInheritance(
    () => new AsyncResource('sidecall:serve', { requireManualDestroy: true }),
  );
  for (const [method, description] of Object.entries<Method>(service.methods)) {
    const name = service.wireName(method);
    const handler = memberOf(handlers, method);
    if (handler === undefined && isPartial) continue;
    if (typeof handler !== 'function') {
      throw misuse(`serve(${service.name}): no handler '${method}'; { partial: true } needs none`);
    }
    const { kind, request } = description;
    const response = 'response' in description ? description.response : undefined;
    const isBulk = 'priority' in description && description.priority === 'bulk';
    const isBorrowing = request.borrowsBytes === true || isLeased(request);
    const isPlain = kind === 'unary' && !isBulk && !isBuiltIn && !isBorrowing;
    const plain: Handler = (request, ctx) => handler.call(handlers, request, ctx);
    methods.set(name, {
      kind,
      callKind: callKindOf[kind],
      request,
      response,
      isPlain,
      isStreaming: kind === 'serverStream' || kind === 'bidi',
      isBulk,
      isBuiltIn,
      handler: intercepted(name, description, plain, interceptors),
      context,
      endsAtDrain: name === healthWatch,
    });
  }
  return methods;
}

const healthWatch = HealthService.wireName('watch');

function intercepted(
  method: string,
  { kind }: Method,
  handler: Handler,
  interceptors: readonly Interceptor[],
): Handler {
  if (interceptors.length === 0) return handler;
  const call = around(interceptors, ({ request, ctx }) => {
    const result = handler(request, ctx as CallContext);
    if (!isThenable(result)) return result;
    // Once through Promise.resolve: the `then` of some objects does their work each time.
    const settled = Promise.resolve(result);
    (ctx as Partial<RequestHolder> | undefined)?.[holdsRequest]?.(settled);
    return settled;
  });
  return (request, ctx) =>
    call({ method, kind, side: 'handler', request, options: undefined, ctx });
}

/** @throws {TypeError} for what is no list of implementations; `undefined` is one without any. */
export function checkServiceList(services: readonly Implementation[] | undefined): void {
  const isList = services === undefined || Array.isArray(services);
  if (isList && (services ?? []).every((each) => each?.service !== undefined)) return;
  throw misuse('services must be a list of implement(…), or a server()');
}

function misuse(text: string): TypeError {
  return nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}
