// SPDX-License-Identifier: MIT
// The bytes and closes of streams that a session receives, by its queue and by its socket, in the
// order in which the peer sent them.
import type { Socket } from 'node:net';
import { Fifo } from '../base/fifo.ts';
import { descriptorOf } from '../uds/net-socket.ts';
import type { SharedSession, ShmipcAddon } from './shared-session.ts';
import { type SocketEvent, SocketEventReader, Status } from './socket-events.ts';

/** Bytes of a stream, or, without them, its close by the peer. */
export interface Arrival {
  readonly stream: number;
  /** The peer may open a stream with these bytes. */
  readonly opens: boolean;
  readonly bytes: Uint8Array | undefined;
}

/** A close of a stream, which waits until the bytes before it in the socket were read. */
interface WaitingClose {
  readonly stream: number;
  /** Count of bytes of the socket. */
  readonly behind: number;
}

export class Arrivals {
  readonly #native: ShmipcAddon;
  readonly #shared: SharedSession;
  readonly #socket: Socket;
  readonly #reader: SocketEventReader;
  readonly #events = new Fifo<SocketEvent>();
  #waiting: WaitingClose[] = [];
  #socketBytes = 0;
  /** The queue is empty, and the peer sends an event with the next message. */
  #isIdle = false;

  constructor(native: ShmipcAddon, shared: SharedSession, socket: Socket, isServer: boolean) {
    this.#native = native;
    this.#shared = shared;
    this.#socket = socket;
    this.#reader = new SocketEventReader(shared.version, isServer);
  }

  /** All that has arrived was read. */
  get isDone(): boolean {
    return this.#isIdle && this.#events.length === 0;
  }

  /**
   * Bytes of the socket.
   * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL`.
   */
  push(bytes: Uint8Array): void {
    this.#socketBytes += bytes.byteLength;
    for (const event of this.#reader.push(bytes)) this.#events.push(event);
    if (!this.#reader.isMidway) this.#close(({ behind }) => behind <= this.#socketBytes);
  }

  /** The socket has ended; messages of the peer may still lie in the queue. */
  endSocket(): void {
    this.#close(() => true);
    this.#isIdle = false;
  }

  /**
   * Some of what has arrived.
   * @throws {SidecallError} `ERR_SIDECALL_RING_CORRUPT`.
   */
  read(): readonly Arrival[] {
    if (!this.#isIdle) return this.#readQueue();
    const event = this.#events.peek();
    if (event === undefined) return [];
    // The stream of the event may have sent before it, by the queue.
    const arrivals = this.#readQueue();
    if (!this.#isIdle) return arrivals;
    this.#events.shift();
    if (event.type === 'data') return [...arrivals, arrivalOf(event)];
    if (event.type === 'close') return [...arrivals, closeOf(event.stream)];
    return arrivals;
  }

  #readQueue(): readonly Arrival[] {
    const { isIdle, parts } = this.#shared.receive();
    this.#isIdle = isIdle;
    const arrivals: Arrival[] = [];
    for (const part of parts) {
      if (part.bytes === undefined) this.#closeBehindSocket(part.stream);
      else arrivals.push(arrivalOf(part));
    }
    return arrivals;
  }

  /** Bytes of the stream that had no room in the memory may lie in the socket. */
  #closeBehindSocket(stream: number): void {
    const fd = descriptorOf(this.#socket);
    const queued = fd < 0 ? 0 : this.#native.queuedBytes(fd);
    if (queued === 0 && !this.#reader.isMidway) this.#events.push({ type: 'close', stream });
    else this.#waiting.push({ stream, behind: this.#socketBytes + queued });
  }

  #close(isDue: (waiting: WaitingClose) => boolean): void {
    if (this.#waiting.length === 0) return;
    for (const one of this.#waiting.filter(isDue)) {
      this.#events.push({ type: 'close', stream: one.stream });
    }
    this.#waiting = this.#waiting.filter((one) => !isDue(one));
  }
}

function arrivalOf({
  stream,
  status,
  bytes,
}: Omit<Arrival, 'opens'> & { readonly status: number }): Arrival {
  if (status === Status.closed) return closeOf(stream);
  return { stream, opens: status === Status.data, bytes };
}

function closeOf(stream: number): Arrival {
  return { stream, opens: false, bytes: undefined };
}
