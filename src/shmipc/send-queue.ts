// SPDX-License-Identifier: MIT
// Messages on their way to the peer. shmipc-go has no event for "there is room again": where the
// queue or the slices are used up, the sender tries again.
import type { Socket } from 'node:net';
import { systemClock, type Timer } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { Fifo } from '../base/fifo.ts';
import { ignore } from '../base/ignore-errors.ts';
import { Sent, type SharedSession } from './shared-session.ts';
import { encodeClose, encodeData, encodeWake } from './socket-events.ts';

const firstPauseMs = 1;
const lastPauseMs = 20;
// The time without progress after which the peer is woken again, and after which a message that
// finds no slices goes by the socket, as shmipc-go sends it at once.
const patienceMs = 1_000;
// A longer message goes in parts, so that a few slices are enough.
const partMaxBytes = 1024 * 1024;

interface Item {
  readonly stream: number;
  /** The rest of a message; undefined: a close. */
  bytes: Uint8Array | undefined;
  done: (error?: Error | null) => void;
}

export class SendQueue {
  readonly #shared: SharedSession;
  readonly #socket: Socket;
  readonly #stallTimeoutMs: number;
  readonly #onFailed: (error: SidecallError) => void;
  readonly #items = new Fifo<Item>();
  readonly #partMaxBytes: number;
  /** Streams that have sent by the socket; all that follows must, so that it stays in order. */
  readonly #bySocket = new Set<number>();
  /** Messages that the socket has not taken. */
  #inSocket = 0;
  #timer: Timer | undefined;
  #pauseMs = firstPauseMs;
  #waitedMs = 0;
  #wokenMs = 0;
  #progress = '';
  #error: SidecallError | undefined;
  /** Messages that went by the socket. */
  sentBySocket = 0;

  constructor(
    shared: SharedSession,
    socket: Socket,
    stallTimeoutMs: number,
    onFailed: (error: SidecallError) => void,
  ) {
    this.#shared = shared;
    this.#socket = socket;
    this.#stallTimeoutMs = stallTimeoutMs;
    this.#onFailed = onFailed;
    const quarter = Math.floor(shared.progress().capacityBytes / 4);
    this.#partMaxBytes = Math.max(1, Math.min(partMaxBytes, quarter));
  }

  /** All was handed over. */
  get isEmpty(): boolean {
    return this.#items.length === 0 && this.#inSocket === 0;
  }

  send(stream: number, bytes: Uint8Array, done: (error?: Error | null) => void): void {
    this.#add({ stream, bytes, done });
  }

  /** Closes a stream, behind what it has sent; nothing more is sent on it. */
  sendClose(stream: number): void {
    this.#add({ stream, bytes: undefined, done: ignore });
  }

  /** Drops what a stream has not sent. */
  drop(stream: number): void {
    while (this.#items.removeWhere((item) => item.stream === stream));
  }

  /** Tries again at once. */
  retry(): void {
    if (this.#items.length > 0) this.#flush();
  }

  /** Fails all that was not sent; nothing is sent any more. */
  end(error: SidecallError): void {
    this.#error ??= error;
    systemClock.clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const { done } of this.#items.items()) done(this.#error);
    this.#items.clear();
  }

  #add(item: Item): void {
    if (this.#error !== undefined) return item.done(this.#error);
    this.#items.push(item);
    if (this.#items.length === 1) this.#flush();
  }

  #flush(): void {
    try {
      for (let item = this.#items.peek(); item !== undefined; item = this.#items.peek()) {
        if (!this.#sendPart(item)) return this.#wait();
        this.#waitedMs = 0;
        this.#wokenMs = 0;
        this.#pauseMs = firstPauseMs;
        if (item.bytes !== undefined) continue;
        this.#items.shift();
        item.done();
      }
    } catch (error) {
      this.#onFailed(SidecallError.from(error));
    }
  }

  /** False: there is no room. */
  #sendPart(item: Item): boolean {
    const { stream, bytes } = item;
    if (this.#bySocket.has(stream)) return this.#sendBySocket(item);
    if (bytes === undefined) return this.#isSent(this.#shared.sendClose(stream));
    const part = bytes.subarray(0, this.#partMaxBytes);
    if (!this.#isSent(this.#shared.send(stream, part))) return false;
    const rest = bytes.subarray(part.byteLength);
    item.bytes = rest.byteLength === 0 ? undefined : rest;
    return true;
  }

  #isSent(sent: number): boolean {
    if (sent === Sent.doneAndWake) this.#wake();
    return sent === Sent.done || sent === Sent.doneAndWake;
  }

  #sendBySocket(item: Item): boolean {
    const { stream, bytes, done } = item;
    if (bytes === undefined) {
      this.#bySocket.delete(stream);
      this.#socket.write(encodeClose(this.#shared.version, stream));
      return true;
    }
    this.sentBySocket += 1;
    this.#inSocket += 1;
    item.bytes = undefined;
    item.done = ignore; // the socket tells when it has taken the message
    this.#socket.write(encodeData(this.#shared.version, stream, bytes), (error) => {
      this.#inSocket -= 1;
      done(error);
    });
    this.#wait();
    return true;
  }

  #wake(): void {
    this.#socket.write(encodeWake(this.#shared.version));
  }

  #wait(): void {
    this.#timer ??= systemClock.setTimeout(() => this.#onTimer(), this.#pauseMs);
  }

  /** A standstill of this process counts as one pause, whatever it lasts. */
  #onTimer(): void {
    this.#timer = undefined;
    this.#waitedMs += this.#pauseMs;
    this.#wokenMs += this.#pauseMs;
    this.#pauseMs = Math.min(2 * this.#pauseMs, lastPauseMs);
    this.retry();
    if (this.isEmpty || this.#error !== undefined) return;
    try {
      this.#look();
    } catch (error) {
      this.#onFailed(SidecallError.from(error));
    }
    if (!this.isEmpty) this.#wait();
  }

  #look(): void {
    const { bytesWritten, writableLength } = this.#socket;
    const progress = `${this.#shared.progress().consumed} ${bytesWritten - writableLength}`;
    if (progress !== this.#progress) this.#waitedMs = 0;
    this.#progress = progress;
    if (this.#stallTimeoutMs > 0 && this.#waitedMs >= this.#stallTimeoutMs) {
      const text = `shmipc: the peer took nothing for ${this.#stallTimeoutMs} ms (stallTimeoutMs)`;
      throw new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text);
    }
    if (this.#wokenMs >= patienceMs) this.#helpOn();
  }

  /** Wakes the peer again, whose flag may be wrong, and sends by the socket what has no slices. */
  #helpOn(): void {
    this.#wokenMs = 0;
    this.#wake();
    const head = this.#items.peek();
    if (head?.bytes === undefined) return;
    const { freeBytes } = this.#shared.progress();
    if (freeBytes >= Math.min(head.bytes.byteLength, this.#partMaxBytes)) return;
    this.#bySocket.add(head.stream);
    this.retry();
  }
}
