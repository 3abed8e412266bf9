// SPDX-License-Identifier: MIT
// Connections to the server of the page that have not shown its token yet. Every user of the
// machine can open them: the oldest is ended for a new one, so that those that stay open do not
// keep the page out. A program that opens hundreds in each second can still delay it.
import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** Connections without the token at once: a browser opens six for a page. */
const unprovenMax = 64;
/** All connections at once. Further ones are refused: only pages with the token are so many. */
const connectionsMax = 1_024;

/** The connections of a server that have not shown its token. */
export class UnprovenConnections {
  /** In the order in which they came. */
  readonly #sockets = new Set<Socket>();

  constructor(server: Server) {
    server.maxConnections = connectionsMax;
    server.on('connection', (socket) => this.#add(socket));
  }

  /** A request on the connection had the token. */
  onProven(socket: Socket): void {
    this.#sockets.delete(socket);
  }

  #add(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    if (this.#sockets.size <= unprovenMax) return;
    const [oldest] = this.#sockets;
    this.#sockets.delete(oldest as Socket);
    oldest?.destroy();
  }
}
