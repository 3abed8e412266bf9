// SPDX-License-Identifier: MIT
// The peers of gRPC calls. grpc-js shows a handler only the address of its connection, so each
// injected connection gets a unique address that no real one equals.
import type { Peer } from '../../base/peer.ts';
import type { PlainConnection } from '../../rendezvous/plain-listener.ts';

/** The part of a call that tells its peer's address. */
export interface PeerCarrier {
  getPeer(): string;
}

const byAddress = new Map<string, Peer>();
const byCall = new WeakMap<PeerCarrier, Peer>();
const addresses = new WeakMap<PlainConnection, string>();
let counter = 0;

/** Gives a connection the name that {@link peerOfCall} finds its peer by. */
export function introduce(connection: PlainConnection): void {
  counter += 1;
  const address = `sidecall:${counter}`;
  addresses.set(connection, address);
  byAddress.set(address, connection.peer);
  Object.defineProperty(connection, 'remoteAddress', { value: address, configurable: true });
}

/** Forgets the peer of a closed connection, whose address grpc-js does not report any more. */
export function removePeer(connection: PlainConnection): void {
  byAddress.delete(addresses.get(connection) as string);
}

/** The peer of a call; the answer stays the same once it was asked for. */
export function peerOfCall(call: PeerCarrier): Peer | undefined {
  const known = byCall.get(call) ?? byAddress.get(call.getPeer());
  if (known !== undefined) byCall.set(call, known);
  return known;
}
