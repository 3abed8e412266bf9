// SPDX-License-Identifier: MIT
// A listener without a protocol of ours: the same acceptor and the same policy, and then a
// net.Socket whose first byte belongs to the application. For programs that speak something else,
// in any language.
import type { Socket } from 'node:net';
import type { NativeAddon } from '../addon/addon-api.ts';
import { systemClock } from '../base/clock.ts';
import type { OnEvent } from '../base/events.ts';
import { pause } from '../base/pause.ts';
import type { Peer } from '../base/peer.ts';
import { type Arrival, dropArrival, plainSocket, startsByItself } from '../uds/net-socket.ts';

import { PathAcceptor } from './accept.ts';
import type { AcceptedConnection, AcceptorSettings } from './accepted-connection.ts';
import { ConnectionListener } from './connection-listener.ts';

/** @internal The orderly end of the protocol on a connection; without it, our half is ended. */
export const closeInOrder: unique symbol = Symbol('sidecall.endGently');

/** A connection that the policy accepted, of which nothing was read yet. */
export type PlainConnection = Socket & {
  /** The process at the other end. */
  readonly peer: Peer;
  /** @internal */
  [closeInOrder]?: ((deadlineMs: number) => void) | undefined;
};

/** Listens at a path, for connections that speak a protocol of their own. Iterate it. */
export class PlainListener extends ConnectionListener<AcceptedPlain, PlainConnection> {
  /** @internal As of `listen()`. */
  readonly onEvent: OnEvent | undefined;

  private constructor(acceptor: PathAcceptor<AcceptedPlain>, onEvent: OnEvent | undefined) {
    super(acceptor, ({ connection }) => connection);
    this.onEvent = onEvent;
  }

  /** @internal Use `listen({ protocol: 'plain' })`. */
  static async open(settings: AcceptorSettings): Promise<PlainListener> {
    const acceptor = await PathAcceptor.open<AcceptedPlain>(settings, {
      keepsSockets: true,
      receive: async ({ native, arrival, peer, admit }) => {
        const full = admit();
        if (full === undefined) return accepted(native, arrival, peer);
        dropArrival(native, arrival, undefined);
        throw full;
      },
      receiveAtOnce: accepted,
      receiveStream: async ({ socket, peer, admit }) => {
        const full = admit();
        if (full === undefined) return new AcceptedPlain(socket, peer);
        socket.destroy();
        throw full;
      },
      peersSpeakFirst: false,
      onClosing: async () => undefined,
    });
    return new PlainListener(acceptor, settings.onEvent);
  }

  /** Connections open at this moment. */
  get connectionCount(): number {
    return this.count;
  }
}

function accepted(native: NativeAddon, { fd, socket }: Arrival, peer: Peer): AcceptedPlain {
  return new AcceptedPlain(
    socket === undefined ? plainSocket(native, fd) : startsByItself(socket),
    peer,
  );
}

class AcceptedPlain implements AcceptedConnection {
  readonly peer: Peer;
  readonly connection: PlainConnection;
  readonly closed: Promise<void>;

  constructor(socket: Socket, peer: Peer) {
    this.peer = peer;
    this.connection = Object.assign(socket, { peer });
    // A failure before the connection was taken has no other listener; later the taker may add one.
    socket.on('error', () => undefined);
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()));
  }

  async close({ deadlineMs }: { readonly deadlineMs: number }): Promise<void> {
    const closed = new AbortController();
    void this.closed.then(() => closed.abort());
    const gently = this.connection[closeInOrder];
    if (gently === undefined) this.connection.end();
    else gently(deadlineMs);
    if (deadlineMs > 0) await pause(systemClock, deadlineMs, closed.signal);
    this.connection.destroy();
    await this.closed;
  }
}
