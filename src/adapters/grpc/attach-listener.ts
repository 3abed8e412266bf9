// SPDX-License-Identifier: MIT
// Connections of a plain listener for a server of grpc-js, whose handlers can ask who calls.
import {
  type Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerReadableStream,
  type ServerUnaryCall,
  type ServerWritableStream,
} from '@grpc/grpc-js';
import { nodeError } from '../../base/misuse.ts';
import type { Peer } from '../../base/peer.ts';
import { closeInOrder, PlainListener } from '../../rendezvous/plain-listener.ts';
import { introduce, type PeerCarrier, peerOfCall, removePeer } from './caller-peers.ts';
import { reportingInjector } from './refused-requests.ts';

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
 * listener: close that as well. Resolves when the listener has closed. A request that HTTP/2 itself
 * refuses is an event of the listener (`adapter-failed`), once for a connection.
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
  const { injector, inject } = reportingInjector(server, listener.onEvent, () =>
    server.createConnectionInjector(ServerCredentials.createInsecure()),
  );
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
      inject(connection);
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
