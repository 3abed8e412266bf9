// SPDX-License-Identifier: MIT
// serveGrpc(): contracts of this package on a server of grpc-js, with health and reflection.
import { Server } from '@grpc/grpc-js';
import type { OnEvent } from '../../base/events.ts';
import { checkBoolean, checkFunction, checkKeys, nodeError } from '../../base/misuse.ts';
import type { Interceptor } from '../../rpc/contract/interceptor.ts';
import type { Handlers, Methods, Service } from '../../rpc/contract/method-types.ts';
import { implement } from '../../rpc/serving/implementation.ts';
import { Registry, type Services } from '../../rpc/serving/registry.ts';
import type { GrpcServiceParts } from './call-bridge.ts';
import { type Authenticate, anonymous, GrpcGate } from './caller-gate.ts';
import { CallerSessions } from './caller-sessions.ts';
import { GrpcHealth, grpcHealthHandlers } from './grpc-health.ts';
import { GrpcReflection, GrpcReflectionAlpha, grpcReflectionHandlers } from './grpc-reflection.ts';
import { definitionOf, implementationOf } from './grpc-service.ts';

/** Options of {@link serveGrpc} for a whole server. */
export interface ServeGrpcOptions {
  /**
   * Identifies the caller of each call that did not come by {@link attachListener}, before a
   * codec or a handler sees the call. Required, since no kernel identifies a caller on
   * another machine. An error that it throws refuses the call: an `RpcError` as it is, any
   * other as `unauthenticated`.
   */
  readonly authenticate: Authenticate;
  /**
   * Callers from another machine come by TLS: all such ports of the server were bound with
   * `createSsl()`. Then a `secret` from there is believed. Default: no; grpc-js itself tells of TLS
   * only where the caller showed a certificate.
   */
  readonly isEncrypted?: boolean | undefined;
  /**
   * Serves `grpc.health.v1.Health`, with the statuses of the server's `health`. `anonymous`: to
   * callers that `authenticate` does not know, too, as the probes of Kubernetes are; they learn
   * the statuses and nothing else. Default `true`.
   */
  readonly health?: boolean | 'anonymous' | undefined;
  /**
   * Serves reflection (`grpc.reflection.v1` and `v1alpha`): the names of services, and descriptors
   * of those that have some. Default: to callers of our own uid on this machine.
   */
  readonly introspection?: boolean | undefined;
  /** As of `listen()`: refusals and failing handlers. */
  readonly onEvent?: OnEvent | undefined;
}

/** Options of {@link serveGrpc} for one service. */
export interface ServeGrpcServiceOptions
  extends Pick<ServeGrpcOptions, 'authenticate' | 'isEncrypted' | 'onEvent'> {
  /** As of `serve()`. */
  readonly interceptors?: readonly Interceptor[] | undefined;
}

/**
 * Serves contracts by gRPC, with the handlers that serve them on this machine: for services that
 * outgrow one. Deadlines, cancelling, metadata, trailers, status codes and the pace of streams are
 * those of the gRPC call; `ctx.peer` is what `authenticate` said, with `origin` `'tls'` or
 * `'secret'` and no uid. Messages are bounded by grpc-js (`grpc.max_receive_message_length`).
 * Contracts of `.proto` files are served as any gRPC client knows them; others with the bytes of
 * their codecs, JSON for instance. A notification is a unary call with an empty answer, which comes
 * when the handler was started; unlike on a session, two notifications may overtake each other.
 * Listening, certificates and the end are the server's.
 * @param services a `server()`, or a list of `implement(…)`. Services that a `server()`
 * serves later are served here from then on.
 * @throws {TypeError} where `authenticate` is missing, or a contract is none that gRPC carries.
 */
export function serveGrpc(server: Server, services: Services, options: ServeGrpcOptions): void;
/**
 * Serves one contract, and nothing else.
 * @throws {TypeError} where `authenticate` or a handler is missing, or gRPC cannot carry it.
 */
export function serveGrpc<M extends Methods>(
  server: Server,
  service: Service<M>,
  handlers: Handlers<M>,
  options: ServeGrpcServiceOptions,
): void;
export function serveGrpc(
  server: Server,
  served: Services | Service,
  second: ServeGrpcOptions | Handlers<Methods>,
  third?: ServeGrpcServiceOptions,
): void {
  if (!(server instanceof Server) && typeof (server as Server)?.addService !== 'function') {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'serveGrpc() needs a grpc.Server');
  }
  if (third === undefined && !isService(served)) {
    serveAll(server, served as Services, checkServeGrpc('serveGrpc()', second as ServeGrpcOptions));
    return;
  }
  const names = ['authenticate', 'isEncrypted', 'interceptors', 'onEvent'] as const;
  const given = third ?? ({} as ServeGrpcServiceOptions);
  checkKeys('serveGrpc()', given, names);
  const { interceptors, ...options } = given;
  const { parts } = checkServeGrpc('serveGrpc()', options);
  const registry = new Registry();
  registry.addAll([implement(served as Service, second as Handlers<Methods>, { interceptors })]);
  const sessions = new CallerSessions(registry, options.onEvent);
  addService(server, { ...parts, sessions }, served as Service);
}

function isService(value: unknown): value is Service {
  return typeof (value as Partial<Service> | undefined)?.wireName === 'function';
}

/** Checked {@link ServeGrpcOptions}. */
export interface ServeGrpcSettings {
  readonly parts: Omit<GrpcServiceParts, 'sessions'>;
  readonly health: boolean | 'anonymous';
  readonly introspection: boolean | undefined;
}

/** The names of {@link ServeGrpcOptions}. */
const serveGrpcNames = [
  'authenticate',
  'isEncrypted',
  'health',
  'introspection',
  'onEvent',
] as const satisfies readonly (keyof ServeGrpcOptions)[];

/** @throws {TypeError} for misuse. */
export function checkServeGrpc(what: string, options: ServeGrpcOptions): ServeGrpcSettings {
  checkKeys(what, options ?? {}, serveGrpcNames);
  if (typeof options?.authenticate !== 'function') {
    const text = `${what} needs options.authenticate: the kernel of this machine does not know callers on others`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  const { health = true, introspection } = options;
  if (typeof health !== 'boolean' && health !== 'anonymous') {
    const text = `${what}: health must be true, false or 'anonymous', got '${String(health)}'`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  if (introspection !== undefined) checkBoolean(`${what}: introspection`, introspection);
  const { authenticate, onEvent } = options;
  checkFunction(`${what}: onEvent`, onEvent);
  const gate = new GrpcGate(authenticate, onEvent);
  const isEncrypted = checkBoolean(`${what}: isEncrypted`, options.isEncrypted);
  const parts = { gate, isEncrypted, onEvent, notifications: { count: 0 } };
  return { parts, health, introspection };
}

/**
 * Serves everything that `services` holds, now and later. A service that gRPC cannot carry is
 * refused where it is added, at the `server()`.
 * @param closing as of {@link grpcHealthHandlers}.
 * @returns what ends the watch for services that come later.
 */
export function serveAll(
  server: Server,
  services: Services,
  { parts, health, introspection }: ServeGrpcSettings,
  closing: AbortSignal = new AbortController().signal,
): () => void {
  const shared = new Registry();
  shared.addAll(services);
  const registry = new Registry(shared);
  const common = { ...parts, sessions: new CallerSessions(registry, parts.onEvent) };
  if (health !== false) {
    const isAnonymous = health === 'anonymous';
    const handlers = grpcHealthHandlers(shared.health, { closing, isAnonymous });
    registry.addOwn(GrpcHealth, handlers);
    const gate = isAnonymous ? anonymous : parts.gate;
    addService(server, { ...common, gate }, GrpcHealth);
  }
  if (introspection !== false) {
    const own = health === false ? [] : [GrpcHealth as unknown as Service];
    const handlers = grpcReflectionHandlers(() => [...shared.services, ...own], introspection);
    for (const reflection of [GrpcReflection, GrpcReflectionAlpha]) {
      registry.addOwn(reflection, handlers);
      addService(server, common, reflection);
    }
  }
  const added = new Set<Service>();
  const addNew = (): void => {
    const { services: now } = shared;
    for (const service of added) {
      // Its methods stay, answered with UNIMPLEMENTED, until another contract has the name.
      const isReplaced = now.some(({ name }) => name === service.name);
      if (now.includes(service) || !isReplaced) continue;
      added.delete(service);
      removeService(server, service);
    }
    for (const service of now) {
      if (added.has(service)) continue;
      added.add(service);
      addService(server, common, service);
    }
  };
  const check = (service: Service): void => {
    const paths = pathsOf(service);
    const clash = shared.services.find((other) =>
      pathsOf(other).some((path) => paths.includes(path)),
    );
    if (clash === undefined) return;
    const text = `serveGrpc(): '${service.name}' and '${clash.name}' have a method of one path, '/service/method', of gRPC`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  };
  addNew();
  return shared.watch(addNew, check);
}

/** @throws {TypeError} for a contract that gRPC cannot carry. */
function pathsOf(service: Service): readonly string[] {
  return Object.values(definitionOf('serveGrpc()', service)).map(({ path }) => path);
}

function removeService(server: Server, service: Service): void {
  server.removeService(definitionOf('serveGrpc()', service));
}

function addService(server: Server, parts: GrpcServiceParts, service: Service): void {
  server.addService(definitionOf('serveGrpc()', service), implementationOf(parts, service));
}
