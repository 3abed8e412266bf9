// SPDX-License-Identifier: MIT
// `sidecall/grpc`: gRPC servers of @grpc/grpc-js (1.11 or later, which the application brings)
// whose callers the kernel identifies; and contracts of this package, served by gRPC to
// callers on other machines.
import {
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerReadableStream,
  type ServerUnaryCall,
  type ServerWritableStream,
} from '@grpc/grpc-js';
import type { OnEvent } from '../base/events.ts';
import { checkKeys, nodeError } from '../base/misuse.ts';
import type { Peer } from '../base/peer.ts';
import { closeInOrder, PlainListener } from '../rendezvous/plain-listener.ts';
import type { Interceptor } from '../rpc/contract/interceptor.ts';
import type { Handlers, Methods, Service } from '../rpc/contract/method-types.ts';
import { Registry } from '../rpc/serving/registry.ts';
import { type Authenticate, GrpcGate } from './grpc-gate.ts';
import { introduce, type PeerCarrier, peerOfCall, removePeer } from './grpc-peers.ts';
import { definitionOf, implementationOf } from './grpc-service.ts';

export type { Authenticate, GrpcCaller, GrpcIdentity } from './grpc-gate.ts';

if (typeof Server.prototype.createConnectionInjector !== 'function') {
  const text =
    'sidecall/grpc needs @grpc/grpc-js 1.11 or later: the installed one cannot be given connections';
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}

/** A call as a handler of grpc-js is given it. */
export type GrpcCall =
  // biome-ignore-start lint/suspicious/noExplicitAny: of any messages
  | ServerUnaryCall<any, any>
  | ServerReadableStream<any, any>
  | ServerWritableStream<any, any>
  | ServerDuplexStream<any, any>;
// biome-ignore-end lint/suspicious/noExplicitAny: of any messages

/**
 * Feeds the connections of a plain listener to a gRPC server: its services are reached at the path
 * as at any `unix:` address, by peers that the listener's policy accepts, and {@link peerOf} says
 * who calls. Further ports of the server stay as they are. `listener.close()` ends them in order:
 * calls under way finish, within its deadline. The server's own shutdown knows nothing of the
 * listener: close that as well. Resolves when the listener has closed.
 * @param listener of `listen({ protocol: 'plain' })`; it has no other iterator.
 * @throws (as rejection) {TypeError} for other arguments.
 */
export async function attachListener(server: Server, listener: PlainListener): Promise<void> {
  if (
    !(listener instanceof PlainListener) ||
    typeof server?.createConnectionInjector !== 'function'
  ) {
    const text =
      "attachListener(server, listener) needs a grpc.Server of @grpc/grpc-js and a listener of listen({ protocol: 'plain' })";
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  // Insecure credentials: the policy of the listener has authenticated the peers already.
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  let isDraining = false;
  const drain = (deadlineMs: number): void => {
    if (isDraining) return;
    isDraining = true;
    injector.drain(deadlineMs); // of all connections
  };
  try {
    for await (const connection of listener) {
      if (connection.destroyed) continue;
      introduce(connection);
      connection.once('close', () => removePeer(connection));
      connection[closeInOrder] = drain;
      injector.injectConnection(connection);
      connection.resume(); // HTTP/2 reads an injected socket only where it flows
    }
    await listener.closed;
  } finally {
    injector.destroy();
  }
}

/**
 * The peer that makes a call, if it came by {@link attachListener}; undefined if it came another
 * way. Ask at the beginning of the handler: once the connection is gone it is not known any more.
 */
export function peerOf(call: GrpcCall): Peer | undefined {
  return peerOfCall(call as unknown as PeerCarrier);
}

/** Options of {@link serveGrpc}. */
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
  /** As of `serve()`. */
  readonly interceptors?: readonly Interceptor[] | undefined;
  /** As of `listen()`: refusals and failing handlers. */
  readonly onEvent?: OnEvent | undefined;
}

/**
 * Serves a contract of `protobufService()` by gRPC, with the handlers that serve it on this
 * machine: for services that outgrow one. Deadlines, cancelling, metadata, trailers, status codes
 * and the pace of streams are those of the gRPC call; `ctx.peer` is what `authenticate` said, with
 * `origin` `'tls'` or `'secret'` and no uid. Messages are bounded by grpc-js
 * (`grpc.max_receive_message_length`). Listening, certificates and the end are the server's.
 * @throws {TypeError} where `authenticate` or a handler is missing, or the names of the service are
 * none of gRPC.
 */
export function serveGrpc<M extends Methods>(
  server: Server,
  service: Service<M>,
  handlers: Handlers<M>,
  options: ServeGrpcOptions,
): void {
  checkKeys('serveGrpc()', options ?? {}, [
    'authenticate',
    'isEncrypted',
    'interceptors',
    'onEvent',
  ]);
  if (typeof options?.authenticate !== 'function') {
    const text =
      'serveGrpc() needs options.authenticate: off this machine no kernel says who calls';
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  if (!(server instanceof Server) && typeof (server as Server)?.addService !== 'function') {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'serveGrpc() needs a grpc.Server');
  }
  const registry = new Registry();
  registry.add(service, handlers, { interceptors: options.interceptors });
  const gate = new GrpcGate(options.authenticate, options.onEvent);
  const isEncrypted = options.isEncrypted === true;
  const parts = {
    isEncrypted,
    service: service as unknown as Service,
    registry,
    gate,
    onEvent: options.onEvent,
  };
  server.addService(definitionOf(parts.service), implementationOf(parts));
}
