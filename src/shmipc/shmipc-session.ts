// SPDX-License-Identifier: MIT
// A session with a program that uses shmipc-go: its streams over shared memory, and its socket.
import type { Socket } from 'node:net';
import { AsyncQueue } from '../base/async-queue.ts';
import { systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { emitEvent, type OnEvent } from '../base/events.ts';
import { quiet } from '../base/ignore-errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { checkInteger, checkKeys, nodeError } from '../base/misuse.ts';
import { pause } from '../base/pause.ts';
import type { Peer } from '../base/peer.ts';
import { Arrivals } from './arrivals.ts';
import type { ShmipcSettings } from './options.ts';
import { SendQueue } from './send-queue.ts';
import type { SharedSession, ShmipcAddon } from './shared-session.ts';
import { ShmipcStream } from './shmipc-stream.ts';

/** Figures of a {@link ShmipcSession}. */
export interface ShmipcStats {
  /** Streams that are open. */
  readonly streams: number;
  /** Bytes that have arrived and wait for their readers. */
  readonly unreadBytes: number;
  /** Bytes of all slices, which both directions share. */
  readonly capacityBytes: number;
  /** Bytes of slices that are free; may be wrong for a moment, since both processes count. */
  readonly freeBytes: number;
  /** Messages that found no slices and went by the socket, ever. */
  readonly sentBySocket: number;
}

/** @internal The parts of a session, once its handshake has ended. */
export interface SessionParts extends ShmipcSettings {
  readonly native: ShmipcAddon;
  readonly shared: SharedSession;
  readonly socket: Socket;
  readonly peer: Peer;
  readonly isServer: boolean;
  readonly streamsMax: number;
  readonly onEvent: OnEvent | undefined;
}

const drainLookMs = 1;
// The time in one turn of the event loop for what has arrived.
const turnMaxMs = 2;
// Ids of closed streams that are remembered: the peer may have sent before it saw the close.
const closedIdsMax = 16_384;
const idMax = 0xffff_ffff;

/** Streams with one program. Made by `connectShmipc()`; iterate a listener to get others. */
export class ShmipcSession implements AsyncIterable<ShmipcStream>, AsyncDisposable {
  /** The process at the other end, by the kernel. */
  readonly peer: Peer;
  /**
   * Settles when the session is over: undefined after our own close, and after that of a peer that
   * has no stream open; else why. Never rejects.
   */
  readonly closed: Promise<SidecallError | undefined>;
  readonly #parts: SessionParts;
  readonly #arrivals: Arrivals;
  readonly #sending: SendQueue;
  readonly #streams = new Map<number, ShmipcStream>();
  readonly #incoming = new AsyncQueue<ShmipcStream & { onTaken?(): void }>();
  readonly #closedIds = new Set<number>();
  #unreadBytes = 0;
  #lastId = 1;
  #isWorking = false;
  #isOver = false;
  #hasSocketEnded = false;
  #closing: Promise<void> | undefined;
  #resolveClosed!: (error: SidecallError | undefined) => void;

  /** @internal */
  constructor(parts: SessionParts) {
    const { native, shared, socket, peer, isServer, stallTimeoutMs } = parts;
    this.peer = peer;
    this.#parts = parts;
    this.#arrivals = new Arrivals(native, shared, socket, isServer);
    this.#sending = new SendQueue(shared, socket, stallTimeoutMs, (error) => this.#fail(error));
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    socket.on('data', (bytes) => this.#onData(bytes));
    socket.on('error', ignoreError);
    socket.on('close', () => this.#onSocketClosed());
    // The client may have put messages into the queue before the handshake ended.
    this.#work();
  }

  /**
   * Opens a stream; the peer learns of it with its first bytes.
   * @throws {SidecallError} `ERR_SIDECALL_CLOSED`, `ERR_SIDECALL_LIMIT_STREAMS`; {TypeError} at the
   * server: only the client of shmipc-go opens streams.
   */
  open(): ShmipcStream {
    const { isServer, streamsMax } = this.#parts;
    if (isServer) {
      const text = 'open(): only the client of shmipc-go opens streams; iterate the session';
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
    }
    if (this.#isOver || this.#closing !== undefined) {
      throw new SidecallError('ERR_SIDECALL_CLOSED', 'shmipc: the session was closed');
    }
    if (this.#streams.size >= streamsMax) {
      const text = `shmipc: ${streamsMax} streams are open`;
      throw new SidecallError('ERR_SIDECALL_LIMIT_STREAMS', text);
    }
    do this.#lastId = this.#lastId === idMax ? 2 : this.#lastId + 1;
    while (this.#streams.has(this.#lastId));
    return this.#add(this.#lastId);
  }

  /** The streams that the client opens, at the server. Ends with the session. */
  [Symbol.asyncIterator](): AsyncIterator<ShmipcStream, undefined> {
    return this.#incoming.reader();
  }

  /** Figures of this moment. Of a session that is over: zeros for its memory. */
  stats(): ShmipcStats {
    const memory = this.#isOver
      ? { capacityBytes: 0, freeBytes: 0 }
      : this.#parts.shared.progress();
    return {
      streams: this.#streams.size,
      unreadBytes: this.#unreadBytes,
      capacityBytes: memory.capacityBytes,
      freeBytes: memory.freeBytes,
      sentBySocket: this.#sending.sentBySocket,
    };
  }

  /**
   * Closes the streams behind what was written to them, waits until the peer has taken it, and ends
   * the session. A second call has no further effect.
   * @param options.deadlineMs then it is ended at once. Default 5,000; 0 to 600,000.
   */
  close(options: { readonly deadlineMs?: number | undefined } = {}): Promise<void> {
    return quiet(this.#checkAndClose(options));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #checkAndClose(options: { readonly deadlineMs?: number | undefined }): Promise<void> {
    checkKeys('close()', options, ['deadlineMs']);
    const deadlineMs = checkInteger('deadlineMs', options.deadlineMs, ranges.closeDeadlineMs);
    this.#closing ??= this.#close(deadlineMs);
    await this.#closing;
  }

  async #close(deadlineMs: number): Promise<void> {
    const over = new AbortController();
    void this.closed.then(() => over.abort());
    const endAt = systemClock.nowMs() + deadlineMs;
    const streams = [...this.#streams.values()].map((stream) => stream.close());
    await Promise.race([Promise.all(streams), pause(systemClock, deadlineMs, over.signal)]);
    // The end of the socket loses messages that the peer has not read.
    while (!this.#isOver && systemClock.nowMs() < endAt && !this.#isTaken()) {
      await pause(systemClock, drainLookMs, over.signal);
    }
    this.#end(undefined);
    await this.closed;
  }

  #isTaken(): boolean {
    try {
      return this.#sending.isEmpty && this.#parts.shared.progress().isConsumed;
    } catch {
      return true;
    }
  }

  #add(id: number): ShmipcStream {
    const stream = new ShmipcStream(id, {
      send: ({ id: number }, bytes, then) => this.#sending.send(number, bytes, then),
      onRead: (bytes) => this.#onRead(bytes),
      onDestroyed: (one) => this.#onDestroyed(one),
    });
    this.#streams.set(id, stream);
    return stream;
  }

  #onRead(bytes: number): void {
    this.#unreadBytes -= bytes;
    if (!this.#isWorking) systemClock.nextTick(() => this.#work());
  }

  #onDestroyed(stream: ShmipcStream): void {
    const { id, isClosedByPeer } = stream;
    this.#incoming.remove(stream);
    if (!this.#streams.delete(id) || this.#isOver) return;
    this.#sending.drop(id);
    // A client says it also where the server was first: the server may have opened it again, for
    // bytes that were on their way.
    if (!isClosedByPeer || !this.#parts.isServer) this.#sending.sendClose(id);
    if (isClosedByPeer || !this.#parts.isServer) return;
    this.#closedIds.add(id);
    const [oldest] = this.#closedIds;
    if (this.#closedIds.size > closedIdsMax) this.#closedIds.delete(oldest as number);
  }

  #onData(bytes: Uint8Array): void {
    try {
      this.#arrivals.push(bytes);
    } catch (error) {
      return this.#fail(SidecallError.from(error));
    }
    this.#work();
  }

  /** Handles what has arrived, the queue before the socket; a share of it in one turn. */
  #work(): void {
    if (this.#isWorking || this.#isOver) return;
    this.#isWorking = true;
    try {
      const endAt = systemClock.nowMs() + turnMaxMs;
      let isDone = this.#step();
      while (!isDone && !this.#isFull && systemClock.nowMs() < endAt) isDone = this.#step();
      this.#isWorking = false;
      if (this.#isOver) return;
      this.#sending.retry();
      if (isDone) this.#parts.socket.resume();
      else this.#parts.socket.pause();
      // shmipc-go has no other goodbye than the end of the socket.
      const isOrderly = this.#streams.size === 0 || this.#closing !== undefined;
      if (isDone && this.#hasSocketEnded) this.#end(isOrderly ? undefined : peerGone());
      else if (!isDone && !this.#isFull) systemClock.setImmediate(() => this.#work());
    } catch (error) {
      this.#isWorking = false;
      this.#fail(SidecallError.from(error));
    }
  }

  get #isFull(): boolean {
    return this.#unreadBytes >= this.#parts.unreadMaxBytes;
  }

  /** True: all that has arrived is handled. */
  #step(): boolean {
    if (this.#isFull) return false;
    for (const { stream, opens, bytes } of this.#arrivals.read()) {
      if (bytes === undefined) this.#onClosed(stream);
      else this.#onBytes(stream, opens, bytes);
    }
    return this.#arrivals.isDone;
  }

  #onClosed(id: number): void {
    this.#closedIds.delete(id);
    this.#streams.get(id)?.receiveClose();
  }

  #onBytes(id: number, opens: boolean, bytes: Uint8Array): void {
    const known = this.#streams.get(id);
    if (known === undefined && !(opens && this.#accepts(id))) return;
    const stream = known ?? this.#add(id);
    this.#unreadBytes += bytes.byteLength;
    stream.receive(bytes);
    if (known === undefined) this.#incoming.push(stream);
  }

  /** May the client open this stream? Over the limit, it is closed at once. */
  #accepts(id: number): boolean {
    const { isServer, streamsMax, onEvent } = this.#parts;
    if (!isServer || this.#closing !== undefined || this.#closedIds.has(id)) return false;
    if (this.#streams.size < streamsMax) return true;
    const text = `shmipc: ${streamsMax} streams are open (streamsMax)`;
    const error = new SidecallError('ERR_SIDECALL_LIMIT_STREAMS', text);
    emitEvent(onEvent, { type: 'limit', error, peer: this.peer });
    this.#closedIds.add(id);
    this.#sending.sendClose(id);
    return false;
  }

  #onSocketClosed(): void {
    this.#hasSocketEnded = true;
    this.#arrivals.endSocket();
    this.#work();
  }

  #fail(error: SidecallError): void {
    if (this.#isOver) return;
    emitEvent(this.#parts.onEvent, { type: 'adapter-failed', error, peer: this.peer });
    this.#end(error);
  }

  #end(error: SidecallError | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { shared, socket } = this.#parts;
    const reason =
      error ?? new SidecallError('ERR_SIDECALL_CLOSED', 'shmipc: the session was closed');
    this.#sending.end(reason);
    for (const stream of [...this.#streams.values()]) stream.fail(reason);
    this.#incoming.finish();
    socket.destroy();
    shared.close();
    this.#resolveClosed(error);
  }
}

function ignoreError(): void {
  // 'close' follows.
}

function peerGone(): SidecallError {
  return new SidecallError('ERR_SIDECALL_PEER_GONE', 'shmipc: the peer is gone');
}
