// SPDX-License-Identifier: MIT
// A session with a program that uses shmipc-go: its streams over shared memory, and its socket.
import { AsyncQueue } from '../base/async-queue.ts';
import { systemClock, type Timer } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { emitEvent } from '../base/events.ts';
import { ignore, quiet } from '../base/ignore-errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { checkInteger, checkKeys, nodeError } from '../base/misuse.ts';
import { pause } from '../base/pause.ts';
import type { Peer } from '../base/peer.ts';
import { Arrivals } from './arrivals.ts';
import { OpenStreams } from './open-streams.ts';
import { SendQueue } from './send-queue.ts';
import type { SessionParts } from './session-parts.ts';
import type { ShmipcStream } from './shmipc-stream.ts';

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

const drainLookMs = 1;
// The time in one turn of the event loop for what has arrived.
const turnMaxMs = 2;
// Closes that may wait for a peer, beside a message of each stream.
const waitingMax = 16_384;
const closesLookMs = 20;
const limitPauseMs = 1_000;

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
  readonly #streams = new OpenStreams();
  readonly #incoming = new AsyncQueue<ShmipcStream & { onTaken?(): void }>();
  #limitToldAt = Number.NEGATIVE_INFINITY;
  #isWorking = false;
  #isScheduled = false;
  /** The peer is not received from until readers have taken some. */
  #isHeld = false;
  #timer: Timer | undefined;
  #isOver = false;
  #hasSocketEnded = false;
  #closing: Promise<void> | undefined;
  #resolveClosed!: (error: SidecallError | undefined) => void;

  /** @internal */
  constructor(parts: SessionParts) {
    const { native, shared, socket, peer, isServer, stallTimeoutMs, early } = parts;
    this.peer = peer;
    this.#parts = parts;
    this.#arrivals = new Arrivals(native, shared, socket, isServer);
    const onFailed = (error: SidecallError): void => this.#fail(error);
    this.#sending = new SendQueue(native, shared, socket, stallTimeoutMs, onFailed);
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    socket.on('error', ignore); // 'close' follows
    socket.on('data', (bytes) => this.#onData(bytes));
    socket.on('close', () => this.#onSocketClosed());
    // The client may have put messages into the queue before the handshake ended.
    for (const bytes of early) this.#onData(bytes);
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
    return this.#add(this.#streams.nextId());
  }

  /** The streams that the client opens, at the server. Ends with the session. */
  [Symbol.asyncIterator](): AsyncIterator<ShmipcStream, undefined> {
    return this.#incoming.reader();
  }

  /** Figures of this moment. Of a session that is over: zeros for its memory. */
  stats(): ShmipcStats {
    return {
      streams: this.#streams.size,
      unreadBytes: this.#streams.unreadBytes,
      ...this.#memory(),
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

  #memory(): { readonly capacityBytes: number; readonly freeBytes: number } {
    const { shared } = this.#parts;
    try {
      if (!this.#isOver) {
        return { capacityBytes: shared.capacityBytes, freeBytes: shared.progress().freeBytes };
      }
    } catch (error) {
      this.#fail(SidecallError.from(error));
    }
    return { capacityBytes: 0, freeBytes: 0 };
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
    const streams = this.#streams.all().map((stream) => stream.close());
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
    return this.#streams.add(id, {
      send: ({ id: number }, bytes, then) => this.#sending.send(number, bytes, then),
      onRead: (piece) => this.#onRead(piece),
      onDestroyed: (one, error) => this.#onDestroyed(one, error),
    });
  }

  #onRead(piece: Uint8Array): void {
    this.#streams.countRead(piece);
    if (this.#isHeld) this.#schedule();
  }

  #onDestroyed(stream: ShmipcStream, error: Error | null): void {
    const { id, isClosedByPeer } = stream;
    const { isServer } = this.#parts;
    this.#incoming.remove(stream);
    const says = !isClosedByPeer || !isServer;
    const reason =
      error ?? new SidecallError('ERR_SIDECALL_CLOSED', 'shmipc: the stream was closed');
    this.#sending.drop(id, reason, !says);
    if (!this.#streams.remove(id) || this.#isOver) return;
    // A client says it also where the server was first: the server may have opened it again, for
    // bytes that were on their way.
    if (says) this.#sending.sendClose(id);
    if (!isClosedByPeer && isServer) this.#streams.remember(id);
  }

  #onData(bytes: Uint8Array): void {
    if (this.#isOver) return;
    try {
      this.#arrivals.push(bytes);
    } catch (error) {
      return this.#fail(SidecallError.from(error));
    }
    this.#work();
  }

  /** Goes on in the next turn of the event loop. */
  #schedule(): void {
    if (this.#isScheduled || this.#isOver) return;
    this.#isScheduled = true;
    systemClock.setImmediate(() => {
      this.#isScheduled = false;
      this.#work();
    });
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
      if (!this.#isOver) this.#goOn(isDone);
    } catch (error) {
      this.#isWorking = false;
      this.#fail(SidecallError.from(error));
    }
  }

  #goOn(isDone: boolean): void {
    const { socket } = this.#parts;
    this.#sending.retry();
    this.#isHeld = !isDone && this.#isFull;
    if (!isDone) {
      socket.pause();
      if (!this.#isFull) this.#schedule();
      else if (this.#isPiledUp) this.#waitForCloses();
    } else if (!this.#hasSocketEnded) socket.resume();
    else {
      // shmipc-go has no other goodbye than the end of the socket.
      const isOrderly = this.#streams.size === 0 || this.#closing !== undefined;
      this.#end(isOrderly ? undefined : peerGone());
    }
  }

  /** The socket is not read meanwhile, so that its end is not seen. */
  #waitForCloses(): void {
    this.#timer ??= systemClock.setTimeout(() => {
      this.#timer = undefined;
      if (this.#sending.isPeerGone) this.#end(peerGone());
      this.#work();
    }, closesLookMs);
  }

  get #isFull(): boolean {
    return this.#streams.unreadCost >= this.#parts.unreadMaxBytes || this.#isPiledUp;
  }

  /** The peer opens streams and does not take that they are closed. */
  get #isPiledUp(): boolean {
    return this.#sending.length >= waitingMax + this.#streams.size;
  }

  /** True: all that has arrived is handled. */
  #step(): boolean {
    if (this.#isFull) return false;
    for (const { stream, opens, bytes } of this.#arrivals.read()) {
      if (this.#isOver) return false;
      if (bytes === undefined) this.#onClosed(stream);
      else if (bytes.length > 0) this.#onBytes(stream, opens, bytes);
    }
    return this.#arrivals.isDone;
  }

  #onClosed(id: number): void {
    this.#streams.forget(id);
    this.#streams.get(id)?.receiveClose();
  }

  #onBytes(id: number, opens: boolean, bytes: Uint8Array): void {
    const known = this.#streams.get(id);
    if (known === undefined && !(opens && this.#accepts(id))) return;
    const stream = known ?? this.#add(id);
    this.#streams.countArrived(bytes);
    stream.receive(bytes);
    if (known === undefined) this.#incoming.push(stream);
  }

  /** May the client open this stream? Over the limit, it is closed at once. */
  #accepts(id: number): boolean {
    const { isServer, streamsMax, onEvent } = this.#parts;
    if (!isServer || this.#closing !== undefined || this.#streams.isRemembered(id)) return false;
    if (this.#streams.size < streamsMax) return true;
    this.#streams.remember(id);
    this.#sending.sendClose(id);
    const now = systemClock.nowMs();
    if (now - this.#limitToldAt < limitPauseMs) return false;
    this.#limitToldAt = now;
    const text = `shmipc: ${streamsMax} streams are open (streamsMax)`;
    const error = new SidecallError('ERR_SIDECALL_LIMIT_STREAMS', text);
    emitEvent(onEvent, { type: 'limit', error, peer: this.peer });
    return false;
  }

  #onSocketClosed(): void {
    this.#hasSocketEnded = true;
    for (const id of this.#arrivals.endSocket()) this.#streams.get(id)?.fail(peerGone());
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
    this.#sending.end();
    systemClock.clearTimeout(this.#timer);
    for (const stream of this.#streams.all()) {
      if (stream.isClosedByPeer) this.#sending.drop(stream.id, undefined, true);
      else stream.fail(reason);
    }
    this.#incoming.finish();
    socket.destroy();
    shared.close();
    this.#resolveClosed(error);
  }
}

function peerGone(): SidecallError {
  return new SidecallError('ERR_SIDECALL_PEER_GONE', 'shmipc: the peer is gone');
}
