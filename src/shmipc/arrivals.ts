// SPDX-License-Identifier: MIT
// The bytes and closes of streams that a session receives, by its queue and by its socket, in the
// order in which the peer sent them.
import type { Socket } from 'node:net';
import { SidecallError } from '../base/errors.ts';
import { Fifo } from '../base/fifo.ts';
import { descriptorOf } from '../uds/net-socket.ts';
import type { SharedSession, ShmipcAddon } from './shared-session.ts';
import { SocketEventReader, Status } from './socket-events.ts';

/** Bytes of a stream, or, without them, its close by the peer. */
export interface Arrival {
  readonly stream: number;
  /** The peer may open a stream with these bytes. */
  readonly opens: boolean;
  readonly bytes: Uint8Array | undefined;
}

/** An arrival by the socket. */
interface Queued {
  readonly arrival: Arrival;
  /** It comes behind so many messages of the queue: those that were put before it was read. */
  readonly behind: number;
}

// Closes that may wait for bytes of the socket; each stream has one.
const waitingMax = 2 ** 20;

export class Arrivals {
  readonly #native: ShmipcAddon;
  readonly #shared: SharedSession;
  readonly #socket: Socket;
  readonly #reader: SocketEventReader;
  readonly #queued = new Fifo<Queued>();
  /** Streams whose close waits until so many bytes of the socket were read. */
  readonly #waiting = new Map<number, number>();
  #socketBytes = 0;
  /** Messages of the queue that were received whole. */
  #received = 0;
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
    return this.#isIdle && this.#queued.length === 0;
  }

  /**
   * Bytes of the socket.
   * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL`, `ERR_SIDECALL_RING_CORRUPT`.
   */
  push(bytes: Uint8Array): void {
    this.#socketBytes += bytes.length;
    const arrivals: Arrival[] = [];
    for (const event of this.#reader.push(bytes)) {
      if (event.type === 'data') arrivals.push(arrivalOf({ ...event, bytes: kept(event.bytes) }));
      if (event.type === 'close') arrivals.push(closeOf(event.stream));
    }
    for (const [stream, behind] of this.#waiting) {
      if (behind > this.#socketBytes) break; // those after it wait for more
      this.#waiting.delete(stream);
      arrivals.push(closeOf(stream));
    }
    this.#isIdle = false; // an event is a wake, too
    if (arrivals.length === 0) return;
    const behind = this.#shared.countPut();
    for (const arrival of arrivals) this.#queued.push({ arrival, behind });
  }

  /**
   * The socket has ended; messages of the peer may still lie in the queue. Returns the streams that
   * the peer has closed behind bytes that were lost with the socket.
   */
  endSocket(): readonly number[] {
    this.#isIdle = false;
    const lost = [...this.#waiting.keys()];
    this.#waiting.clear();
    return lost;
  }

  /**
   * Some of what has arrived.
   * @throws {SidecallError} `ERR_SIDECALL_RING_CORRUPT`, `ERR_SIDECALL_PROTOCOL`.
   */
  read(): readonly Arrival[] {
    const arrivals: Arrival[] = [];
    for (let first = this.#queued.peek(); first !== undefined; first = this.#queued.peek()) {
      if (first.behind > this.#received) break;
      this.#queued.shift();
      arrivals.push(first.arrival);
    }
    if (arrivals.length > 0 || this.isDone) return arrivals;
    const { isIdle, received, parts } = this.#shared.receive();
    this.#isIdle = isIdle;
    this.#received = received;
    for (const part of parts) {
      if (part.bytes !== undefined) arrivals.push(arrivalOf(part));
      else if (this.#isDue(part.stream)) arrivals.push(closeOf(part.stream));
    }
    return arrivals;
  }

  /** Bytes of the stream that had no room in the memory may lie in the socket. */
  #isDue(stream: number): boolean {
    const fd = descriptorOf(this.#socket);
    const unread = this.#socket.readableLength + (fd < 0 ? 0 : this.#native.queuedBytes(fd));
    if (unread > 0) {
      if (this.#waiting.size >= waitingMax) {
        const text = `shmipc: the peer has closed more than ${waitingMax} streams behind unread bytes`;
        throw new SidecallError('ERR_SIDECALL_PROTOCOL', text);
      }
      this.#waiting.set(stream, this.#socketBytes + unread);
    } else if (this.#queued.length > 0) {
      this.#queued.push({ arrival: closeOf(stream), behind: 0 });
    } else return true;
    return false;
  }
}

function arrivalOf(part: Omit<Arrival, 'opens'> & { readonly status: number }): Arrival {
  const { stream, status, bytes } = part;
  if (status === Status.closed) return closeOf(stream);
  return { stream, opens: status === Status.data, bytes };
}

function closeOf(stream: number): Arrival {
  return { stream, opens: false, bytes: undefined };
}

/** Bytes that keep no much larger buffer of the socket alive. */
function kept(bytes: Uint8Array): Uint8Array {
  return bytes.buffer.byteLength > 2 * bytes.length ? Uint8Array.from(bytes) : bytes;
}
