// SPDX-License-Identifier: MIT
// listenGrpc(): services at an address or a path, for gRPC clients, in one step.
import { type ServerOptions as GrpcServerOptions, Server, ServerCredentials } from '@grpc/grpc-js';
import { systemClock } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import { ignore, quiet } from '../../base/ignore-errors.ts';
import { checkLimits, ranges, sessionRanges } from '../../base/limits/option-limits.ts';
import { checkInteger, checkKeys, checkObject, nodeError } from '../../base/misuse.ts';
import { type ListenBaseOptions, listen, plainListenNames } from '../../rendezvous/listen.ts';
import type { PlainListener } from '../../rendezvous/plain-listener.ts';
import { held } from '../../rpc/serving/hold-door.ts';
import { type Services, servedSetOf } from '../../rpc/serving/registry.ts';
import { attachListener } from './attach-listener.ts';
import type { Authenticate } from './caller-gate.ts';
import { checkServeGrpc, type ServeGrpcOptions, serveAll } from './serve-grpc.ts';

/** Options of {@link listenGrpc}, wherever it listens. */
export interface ListenGrpcBaseOptions
  extends Pick<ServeGrpcOptions, 'health' | 'introspection' | 'onEvent'> {
  /** A `server()`, which then closes this listener too; or a list of `implement(…)`. */
  readonly services: Services;
  /**
   * Largest request that is accepted, in bytes. Default: that of the `server()`, else 4 MiB; 1 KiB
   * to 1 GiB.
   */
  readonly receiveMaxBytes?: number | undefined;
  /**
   * Further options of the server, as grpc-js names them. Default: its own, and
   * `grpc.max_concurrent_streams` is `limits.streamsMax` of the `server()`, else 4,096.
   */
  readonly serverOptions?: GrpcServerOptions | undefined;
}

/** Options of {@link listenGrpc} for callers on other machines, or on this one by TCP. */
export interface ListenGrpcAddressOptions extends ListenGrpcBaseOptions {
  /** Host and port: `0.0.0.0:443`, `[::1]:0`. Port 0: the system chooses one. */
  readonly address: string;
  /**
   * As grpc-js makes them: `ServerCredentials.createSsl()`, or `createInsecure()` where no other
   * machine can listen in.
   */
  readonly credentials: ServerCredentials;
  /** As of {@link serveGrpc}: which calls are let in. */
  readonly authenticate: Authenticate;
  readonly path?: undefined;
}

/**
 * Options of {@link listenGrpc} at a path, for any gRPC client of this machine (`unix:/path`): the
 * kernel says who calls, and `authorize` who may.
 */
export interface ListenGrpcPathOptions
  extends ListenGrpcBaseOptions,
    Omit<ListenBaseOptions, 'onEvent'> {
  readonly address?: undefined;
}

/** Options of {@link listenGrpc}. */
export type ListenGrpcOptions = ListenGrpcAddressOptions | ListenGrpcPathOptions;

const names = [
  'services',
  'receiveMaxBytes',
  'serverOptions',
  'health',
  'introspection',
  'onEvent',
] as const;
const ofPlain = plainListenNames.filter((name) => name !== 'protocol');
const pathNames = [...names, ...ofPlain, 'address'] as const;
const addressNames = [...names, 'address', 'credentials', 'authenticate'] as const;

/**
 * Serves contracts by gRPC, at a path or at an address of TCP, with `grpc.health.v1` and server
 * reflection: as {@link serveGrpc}, with a server of its own.
 * @throws (as rejection) {SidecallError} `ERR_SIDECALL_SYSTEM` where the address cannot be bound,
 * `ERR_SIDECALL_CLOSED` where the server of `services` was closed, what `listen()` rejects with at
 * a path; {TypeError | RangeError} for misuse.
 * @example
 * ```ts
 * import { readFileSync } from 'node:fs';
 * import { ServerCredentials } from '@grpc/grpc-js';
 * import { server, service, unary } from 'sidecall';
 * import { listenGrpc } from 'sidecall/grpc';
 *
 * const Clock = service('Clock', { now: unary<void, number>() });
 *
 * const app = server();
 * app.serve(Clock, { now: () => Date.now() });
 * const pair = { private_key: readFileSync('key.pem'), cert_chain: readFileSync('cert.pem') };
 * await listenGrpc({
 *   services: app,
 *   address: '0.0.0.0:443',
 *   credentials: ServerCredentials.createSsl(null, [pair]),
 *   authenticate: ({ metadata }) =>
 *     metadata.authorization === `Bearer ${process.env.TOKEN}` ? { origin: 'secret' } : undefined,
 * });
 * ```
 */
export async function listenGrpc(options: ListenGrpcOptions): Promise<GrpcListener> {
  if (typeof options !== 'object' || options === null || options.services === undefined) {
    const text = 'listenGrpc() needs services: a server(), or a list of implement(…)';
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  const listener = isAtAddress(options) ? await atAddress(options) : await atPath(options);
  return held(options.services, listener, { isListener: true });
}

function isAtAddress(options: ListenGrpcOptions): options is ListenGrpcAddressOptions {
  return options.address !== undefined;
}

async function atAddress(options: ListenGrpcAddressOptions): Promise<GrpcListener> {
  checkKeys('listenGrpc() at an address', options, addressNames);
  const { address, credentials, services, authenticate, health, introspection, onEvent } = options;
  if (!(credentials instanceof ServerCredentials)) {
    const text =
      'listenGrpc() at an address needs credentials: ServerCredentials.createSsl() or createInsecure()';
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  const isEncrypted = credentials._isSecure();
  const settings = checkServeGrpc('listenGrpc()', {
    authenticate,
    isEncrypted,
    health,
    introspection,
    onEvent,
  });
  const server = newServer(options);
  const closing = new AbortController();
  const unwatch = serveAll(server, services, settings, closing.signal);
  try {
    const port = await bound(server, address, credentials);
    return new GrpcListener({ server, unwatch, closing, port, plain: undefined });
  } catch (error) {
    unwatch();
    server.forceShutdown();
    throw error;
  }
}

async function atPath(options: ListenGrpcPathOptions): Promise<GrpcListener> {
  checkKeys('listenGrpc()', options, pathNames);
  const { services, health, introspection, onEvent } = options;
  const settings = checkServeGrpc('listenGrpc()', {
    authenticate: () => undefined, // every caller has come by the listener
    health,
    introspection,
    onEvent,
  });
  servedSetOf(services)?.checkOpen();
  const server = newServer(options);
  const closing = new AbortController();
  const unwatch = serveAll(server, services, settings, closing.signal);
  try {
    const door = Object.entries(options).filter(([name]) => !grpcOnly.has(name));
    const plain = await listen({ ...Object.fromEntries(door), onEvent, protocol: 'plain' });
    return new GrpcListener({ server, unwatch, closing, port: undefined, plain });
  } catch (error) {
    unwatch();
    server.forceShutdown();
    throw error;
  }
}

const grpcOnly = new Set<string>([...names, 'address']);

function newServer({ services, receiveMaxBytes, serverOptions }: ListenGrpcBaseOptions): Server {
  const ofServer = checkLimits(servedSetOf(services)?.limits);
  const most = receiveMaxBytes ?? ofServer.receiveMaxBytes;
  return new Server({
    'grpc.max_receive_message_length': checkInteger(
      'receiveMaxBytes',
      most,
      sessionRanges.receiveMaxBytes,
    ),
    'grpc.max_concurrent_streams': ofServer.streamsMax,
    ...checkObject('serverOptions', serverOptions),
  });
}

function bound(server: Server, address: string, credentials: ServerCredentials): Promise<number> {
  if (typeof address !== 'string' || !/:\d+$/.test(address)) {
    const text = `listenGrpc(): the address must be a host and a port, as 127.0.0.1:0, got '${String(address)}'`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (cause, port) => {
      if (cause === null) return resolve(port);
      const text = `${address} could not be bound: ${cause.message}`;
      reject(new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause }));
    });
  });
}

interface GrpcListenerParts {
  readonly server: Server;
  readonly unwatch: () => void;
  readonly closing: AbortController;
  readonly port: number | undefined;
  readonly plain: PlainListener | undefined;
}

/** Listens for gRPC clients. Made by {@link listenGrpc}. */
export class GrpcListener implements AsyncDisposable {
  /** The port of TCP that is listened on, at an address. */
  readonly port: number | undefined;
  /** Absolute path of the socket, at a path. */
  readonly path: string | undefined;
  /** Resolves (never rejects) once {@link GrpcListener.close} is done. */
  readonly closed: Promise<void>;
  readonly #parts: GrpcListenerParts;
  readonly #attached: Promise<void>;
  #closing: Promise<void> | undefined;
  #resolveClosed: () => void = ignore;

  /** @internal Use `listenGrpc()`. */
  constructor(parts: GrpcListenerParts) {
    const { port, plain, server } = parts;
    this.#parts = parts;
    this.port = port;
    this.path = plain?.path;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    this.#attached = plain === undefined ? Promise.resolve() : attachListener(server, plain);
    void this.#attached.catch(ignore);
  }

  /** The server of grpc-js, for further services of its own kind. */
  get server(): Server {
    return this.#parts.server;
  }

  /**
   * Stops listening, lets calls under way finish, and ends all connections. A second call has no
   * further effect.
   * @param options.deadlineMs for calls under way: default 5,000; 0 to 600,000.
   */
  close(options: { readonly deadlineMs?: number | undefined } = {}): Promise<void> {
    return quiet(this.#checkAndClose(options));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #checkAndClose(options: { readonly deadlineMs?: number | undefined }): Promise<void> {
    checkKeys('close()', options, ['deadlineMs']);
    const deadlineMs = checkInteger('deadlineMs', options.deadlineMs, ranges.closeDeadlineMs);
    this.#closing ??= this.#close(deadlineMs);
    await this.#closing;
  }

  async #close(deadlineMs: number): Promise<void> {
    const { server, plain, unwatch, closing } = this.#parts;
    unwatch();
    closing.abort();
    await plain?.close({ deadlineMs });
    await this.#attached.catch(ignore);
    await new Promise<void>((resolve) => {
      const force = (): void => {
        server.forceShutdown();
        resolve();
      };
      const timer = systemClock.setTimeout(force, deadlineMs);
      server.tryShutdown(() => {
        systemClock.clearTimeout(timer);
        resolve();
      });
    });
    this.#resolveClosed();
  }
}
