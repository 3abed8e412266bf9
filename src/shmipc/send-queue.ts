// SPDX-License-Identifier: MIT
// Messages on their way to the peer. shmipc-go has no event for "there is room again": where the
// queue or the slices are used up, the sender tries again.
import type { Socket } from 'node:net';
import { systemClock, type Timer, throwLater } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { Fifo } from '../base/fifo.ts';
import { ignore } from '../base/ignore-errors.ts';
import { descriptorOf } from '../uds/net-socket.ts';
import { Sent, type SharedSession, type ShmipcAddon } from './shared-session.ts';
import { encodeClose, encodeData, encodeWake } from './socket-events.ts';

const firstPauseMs = 1;
const lastPauseMs = 20;
// The time without progress after which the peer is woken again, and after which messages that find
// no slices go by the socket, as shmipc-go sends them at once.
const patienceMs = 1_000;
// A longer message goes in parts, so that a few slices are enough.
const partMaxBytes = 1024 * 1024;
const socketPartMaxBytes = 256 * 1024;
// More bytes wait in this process instead of in the socket.
const socketWaitingMaxBytes = 1024 * 1024;
// The time in one turn of the event loop for what is sent.
const turnMaxMs = 2;
const partsBetweenLooks = 16;

type Done = (error?: Error | null) => void;

interface Item {
  readonly stream: number;
  /** The rest of a message; undefined: a close. */
  bytes: Uint8Array | undefined;
  readonly done: Done;
  isDropped: boolean;
}

export class SendQueue {
  readonly #native: ShmipcAddon;
  readonly #shared: SharedSession;
  readonly #socket: Socket;
  readonly #stallTimeoutMs: number;
  readonly #onFailed: (error: SidecallError) => void;
  readonly #items = new Fifo<Item>();
  /** The message of each stream that is under way: a stream has one at a time. */
  readonly #messages = new Map<number, Item>();
  readonly #partMaxBytes: number;
  readonly #wakeEvent: Buffer;
  /** Streams that have sent by the socket; all that follows must, so that it stays in order. */
  readonly #bySocket = new Set<number>();
  /** Slices were waited for in vain: until one is found, messages go by the socket. */
  #isStarved = false;
  #timer: Timer | undefined;
  #pauseMs = firstPauseMs;
  #waitedMs = 0;
  #wokenMs = 0;
  #progress = '';
  #isScheduled = false;
  #isOver = false;
  /** A wake found that the peer's end has closed. */
  isPeerGone = false;
  /** Messages that went by the socket, in part or whole. */
  sentBySocket = 0;

  constructor(
    native: ShmipcAddon,
    shared: SharedSession,
    socket: Socket,
    stallTimeoutMs: number,
    onFailed: (error: SidecallError) => void,
  ) {
    this.#native = native;
    this.#shared = shared;
    this.#socket = socket;
    this.#stallTimeoutMs = stallTimeoutMs;
    this.#onFailed = onFailed;
    this.#wakeEvent = encodeWake(shared.version);
    const quarter = Math.floor(shared.capacityBytes / 4);
    this.#partMaxBytes = Math.max(1, Math.min(partMaxBytes, quarter));
  }

  /** All was handed over. */
  get isEmpty(): boolean {
    return this.#items.length === 0 && this.#socket.writableLength === 0;
  }

  /** Messages and closes that wait. */
  get length(): number {
    return this.#items.length;
  }

  send(stream: number, bytes: Uint8Array, done: Done): void {
    const item = { stream, bytes, done, isDropped: false };
    this.#messages.set(stream, item);
    this.#add(item);
  }

  /** Closes a stream, behind what it has sent; nothing more is sent on it. */
  sendClose(stream: number): void {
    this.#add({ stream, bytes: undefined, done: ignore, isDropped: false });
  }

  /**
   * Drops what a stream has not sent. `error`: told to its sender; undefined: the peer had closed
   * the stream and takes no more. `isClosed`: no close follows.
   */
  drop(stream: number, error: Error | undefined, isClosed: boolean): void {
    if (isClosed) this.#bySocket.delete(stream);
    const item = this.#messages.get(stream);
    if (item === undefined) return;
    this.#messages.delete(stream);
    item.isDropped = true;
    tell(item.done, error);
  }

  /** Tries again. */
  retry(): void {
    if (this.#items.length > 0) this.#flush();
  }

  /** Sends no more; what waits is failed with its stream. */
  end(): void {
    this.#isOver = true;
    systemClock.clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#items.clear();
  }

  #add(item: Item): void {
    if (this.#isOver) return;
    this.#items.push(item);
    if (this.#items.length === 1) this.#flush();
  }

  #flush(): void {
    if (this.#isScheduled || this.#isOver) return;
    const endAt = systemClock.nowMs() + turnMaxMs;
    try {
      for (let sent = 1; this.#items.length > 0 && !this.#isOver; sent += 1) {
        const item = this.#items.peek() as Item;
        if (!item.isDropped && !this.#sendPart(item)) return this.#wait();
        this.#waitedMs = 0;
        this.#wokenMs = 0;
        this.#pauseMs = firstPauseMs;
        if (item.isDropped || item.bytes === undefined) this.#finish(item);
        if (sent % partsBetweenLooks === 0 && systemClock.nowMs() > endAt) return this.#goOn();
      }
    } catch (error) {
      this.#onFailed(SidecallError.from(error));
    }
  }

  /** Goes on in the next turn of the event loop. */
  #goOn(): void {
    this.#isScheduled = true;
    systemClock.setImmediate(() => {
      this.#isScheduled = false;
      this.retry();
    });
  }

  #finish(item: Item): void {
    this.#items.shift();
    if (item.isDropped || this.#messages.get(item.stream) !== item) return;
    this.#messages.delete(item.stream);
    tell(item.done);
  }

  /** False: there is no room. */
  #sendPart(item: Item): boolean {
    const { stream, bytes } = item;
    if (this.#bySocket.has(stream)) return this.#sendBySocket(item);
    if (bytes === undefined) return this.#isSent(this.#shared.sendClose(stream));
    const part = bytes.subarray(0, this.#partMaxBytes);
    const sent = this.#shared.send(stream, part);
    if (sent === Sent.noMemory && this.#isStarved) {
      this.#bySocket.add(stream);
      this.sentBySocket += 1;
      return this.#sendBySocket(item);
    }
    if (!this.#isSent(sent)) return false;
    this.#isStarved = false;
    item.bytes = restOf(bytes, part.length);
    return true;
  }

  #isSent(sent: number): boolean {
    if (sent === Sent.doneAndWake) this.#wake();
    return sent === Sent.done || sent === Sent.doneAndWake;
  }

  #sendBySocket(item: Item): boolean {
    const { stream, bytes } = item;
    const { version } = this.#shared;
    if (bytes === undefined) {
      this.#bySocket.delete(stream);
      this.#socket.write(encodeClose(version, stream));
      return true;
    }
    if (this.#socket.writableLength > socketWaitingMaxBytes) return false;
    const part = bytes.subarray(0, socketPartMaxBytes);
    this.#socket.write(encodeData(version, stream, part));
    item.bytes = restOf(bytes, part.length);
    return true;
  }

  /**
   * Past the stream of the socket where it can be: a write that finds the peer gone would end the
   * socket, and with it bytes of the peer that were not read yet.
   */
  #wake(): void {
    const fd = descriptorOf(this.#socket);
    if (fd < 0) return;
    let sent = 0;
    try {
      if (this.#socket.writableLength === 0) sent = this.#native.send(fd, this.#wakeEvent, 0, -1);
    } catch {
      this.isPeerGone = true; // the end of the socket tells why
      return;
    }
    const rest = this.#wakeEvent.subarray(Math.max(0, sent));
    if (rest.length > 0) this.#socket.write(rest);
  }

  #wait(): void {
    if (this.#isOver) return;
    this.#timer ??= systemClock.setTimeout(() => this.#onTimer(), this.#pauseMs);
  }

  /** A standstill of this process counts as one pause, whatever it lasts. */
  #onTimer(): void {
    this.#timer = undefined;
    this.#waitedMs += this.#pauseMs;
    this.#wokenMs += this.#pauseMs;
    this.#pauseMs = Math.min(2 * this.#pauseMs, lastPauseMs);
    this.retry();
    if (this.isEmpty || this.#isOver) return;
    try {
      this.#look();
    } catch (error) {
      return this.#onFailed(SidecallError.from(error));
    }
    if (!this.isEmpty) this.#wait();
  }

  #look(): void {
    const { bytesWritten, writableLength } = this.#socket;
    const { consumed, freeBytes } = this.#shared.progress();
    const progress = `${consumed} ${bytesWritten - writableLength}`;
    if (progress !== this.#progress) this.#waitedMs = 0;
    this.#progress = progress;
    if (this.#stallTimeoutMs > 0 && this.#waitedMs >= this.#stallTimeoutMs) {
      const text = `shmipc: the peer took nothing for ${this.#stallTimeoutMs} ms (stallTimeoutMs)`;
      throw new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text);
    }
    if (this.#wokenMs < patienceMs) return;
    this.#wokenMs = 0;
    this.#wake(); // its flag may be wrong
    const wanted = this.#items.peek()?.bytes?.length ?? 0;
    if (freeBytes >= Math.min(wanted, this.#partMaxBytes)) return;
    this.#isStarved = true;
    this.retry();
  }
}

function restOf(bytes: Uint8Array, sent: number): Uint8Array | undefined {
  return sent === bytes.length ? undefined : bytes.subarray(sent);
}

/** An error that the program throws is its own. */
function tell(done: Done, error?: Error): void {
  try {
    done(error);
  } catch (thrown) {
    throwLater(thrown);
  }
}
