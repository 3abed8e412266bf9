// SPDX-License-Identifier: MIT
// Which gRPC call came over which connection. grpc-js shows a handler one thing of its connection, the address of
// the peer: those we inject have a name of their own there, which no address looks like.
import { Fifo } from '../fifo.ts';
import type { Peer } from '../peer.ts';
import type { PlainConnection } from '../plain-listener.ts';

/** The part of a call that tells its peer's address. */
export interface PeerCarrier {
  getPeer(): string;
}

// A handler may ask when its connection has just closed.
const keptClosed = 1_024;

const byAddress = new Map<string, Peer>();
const closed = new Fifo<string>();
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

export function forgetPeer(connection: PlainConnection): void {
  closed.push(addresses.get(connection) as string);
  if (closed.length > keptClosed) byAddress.delete(closed.shift() as string);
}

export function peerOfCall(call: PeerCarrier): Peer | undefined {
  const known = byCall.get(call) ?? byAddress.get(call.getPeer());
  if (known !== undefined) byCall.set(call, known);
  return known;
}
