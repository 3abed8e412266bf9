// SPDX-License-Identifier: MIT
// The messages that wait to leave: their lines, the turns that lines take, and their bytes.
import type { SidecallError } from '../../base/errors.ts';
import { Fifo } from '../../base/fifo.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { FrameFlag } from '../../wire/frame-header.ts';
import type { Block } from '../contract/leases.ts';
import type { MethodCounters } from '../counting/method-counters.ts';
import { chargeOf } from './credit.ts';

/** The state of a stream that its messages need. */
export interface SendingStream {
  readonly slot: number;
  readonly generation: number;
  /** The sender may reuse its bytes as soon as they were admitted: what has to wait is copied. */
  readonly isBorrowed: boolean;
  /** All its messages take turns like long ones, however short. */
  readonly isBulk: boolean;
  /** The peer opened it. */
  readonly isAnswer: boolean;
  /** The numbers of its method. */
  readonly counters: MethodCounters;
  /** Its place in the queue; several streams may share one, and then keep their order. */
  line: SendFifo | undefined;
  /** Messages of it in the line. */
  queued: number;
  /** Something of the stream was handed to the transport. */
  isWritten: boolean;
  /** True: the peer starts the handler on the first frame (streams); false: on the last. */
  readonly beginsAtOnce: boolean;
  /**
   * The transport's `sentPosition` behind the frame that the other side begins with, as far as that
   * was sent.
   */
  sentPosition: number;
  /** The memory of one of its messages was detached before all of it was sent: it cannot go on. */
  onDetached(error: SidecallError): void;
}

/** Messages that leave in order. */
export type SendFifo = Fifo<OutgoingMessage>;

/** A message that waits to leave, and the part of it that was sent. */
export interface OutgoingMessage {
  readonly stream: SendingStream;
  readonly header: Uint8Array;
  /** The bytes that go through the lane: all of the message, or the prefix of its block. */
  bytes: Uint8Array;
  /** The length of `bytes` when they were queued: they may have been detached since. */
  readonly totalBytes: number;
  readonly block: Block | undefined;
  readonly flags: number;
  /** The first of the bytes, which go into one frame: metadata, or all of a frame that ends. */
  readonly headBytes: number;
  readonly isBulk: boolean;
  /** The length of the message, for the numbers of its method; undefined: it is no message. */
  readonly messageBytes: number | undefined;
  /** It answers a call of the peer's: not a message of a stream, nor anything of our own calls. */
  readonly isAnswer: boolean;
  /** Called when its last piece was handed over. */
  onTaken: (() => void) | undefined;
  sentBytes: number;
  isBegun: boolean;
}

export class OutgoingMessages {
  // Lines by their first message: `ready`, sent in one frame; `bulk`, sent in pieces, or of bulk
  // priority. One frame of each in turn; only `bulk` obeys the transport's bulk limit, so that a
  // small call finds a short queue.
  readonly ready = new Fifo<SendFifo>();
  readonly bulk = new Fifo<SendFifo>();
  /** Bytes of the messages that take one frame, with 64 for each. */
  smallBytes = 0;
  /** Bytes of the others, with 64 for each. */
  bulkBytes = 0;
  /** Bytes of those that answer calls, streams apart. */
  answerBytes = 0;
  #isBulkNext = false;
  /** Messages by what is called when they have left. */
  readonly #waitedFor = new WeakMap<() => void, OutgoingMessage>();

  /** True: messages of this kind wait. */
  has(isBulk: boolean): boolean {
    return (isBulk ? this.bulk : this.ready).length > 0;
  }

  /** Adds a message to the line of its stream. */
  add(message: OutgoingMessage): void {
    const { stream } = message;
    this.#count(message, 1);
    if (message.onTaken !== undefined) this.#waitedFor.set(message.onTaken, message);
    stream.line ??= new Fifo();
    stream.line.push(message);
    stream.queued += 1;
    if (stream.line.length === 1) this.#queueOf(message).push(stream.line);
  }

  /**
   * The message whose turn it is: the two kinds take turns while both may go. undefined: there is
   * none, or only long ones that may not.
   */
  next(mayBulk: boolean): OutgoingMessage | undefined {
    const isBulkFree = mayBulk && this.bulk.length > 0;
    if (this.ready.length === 0) return isBulkFree ? this.bulk.peek()?.peek() : undefined;
    this.#isBulkNext = isBulkFree && !this.#isBulkNext;
    return (this.#isBulkNext ? this.bulk : this.ready).peek()?.peek();
  }

  /**
   * The message of {@link OutgoingMessages.next} was sent up to `end`; the next line has its turn.
   * True: it was sent whole, and waits no longer.
   */
  advance(message: OutgoingMessage, end: number): boolean {
    const { stream } = message;
    const line = stream.line as SendFifo;
    this.#count(message, -1);
    message.isBegun = true;
    message.sentBytes = end;
    const isWhole = end === message.bytes.length;
    if (!isWhole) this.#count(message, 1);
    else {
      line.shift();
      stream.queued -= 1;
      if (message.messageBytes !== undefined) stream.counters.countSent(message.messageBytes);
    }
    this.#queueOf(message).shift();
    const following = line.peek();
    if (following !== undefined) this.#queueOf(following).push(line);
    return isWhole;
  }

  /**
   * Forgets what waits for a stream that ends early. Returns what messages of its flow, which the
   * peer will never see, had taken of the session's window.
   */
  remove(stream: SendingStream): number {
    const { line } = stream;
    const head = stream.queued === 0 ? undefined : line?.peek();
    stream.queued = 0;
    if (line === undefined || head === undefined) return 0; // or everything was cleared before
    let unseen = 0;
    this.#queueOf(head).remove(line);
    for (let left = line.length; left > 0; left -= 1) {
      const message = line.shift() as OutgoingMessage;
      if (message.stream !== stream) {
        line.push(message);
        continue;
      }
      this.#count(message, -1);
      const flags = message.header[1] as number;
      const isCharged = (flags & (FrameFlag.streamed | FrameFlag.beyond)) === FrameFlag.streamed;
      const { block, totalBytes } = message;
      if (isCharged && !message.isBegun) unseen += chargeOf(block?.byteLength ?? totalBytes);
      block?.release();
    }
    const first = line.peek();
    if (first !== undefined) this.#queueOf(first).push(line);
    return unseen;
  }

  /**
   * Takes a message back that waits with `onTaken`, which is not called any more. `unseen`: nothing
   * of it was sent, and nothing will be. `begun`: the rest of it follows, from memory of our own.
   * `gone`: it has left.
   */
  takeBack(stream: SendingStream, onTaken: () => void): 'unseen' | 'begun' | 'gone' {
    const { line } = stream;
    const message = this.#waitedFor.get(onTaken);
    const isGone = message === undefined || message.sentBytes === message.bytes.length;
    if (line === undefined || isGone) return 'gone';
    message.onTaken = undefined;
    if (message.isBegun) {
      message.bytes = new Uint8Array(message.bytes); // a Buffer's slice() copies nothing
      return 'begun';
    }
    const isHead = line.peek() === message;
    if (isHead) this.#queueOf(message).remove(line);
    line.remove(message);
    stream.queued -= 1;
    this.#count(message, -1);
    const following = line.peek();
    if (isHead && following !== undefined) this.#queueOf(following).push(line);
    return 'unseen';
  }

  /** The session ended: nothing here will ever be sent. */
  clear(): void {
    for (const queue of [this.ready, this.bulk]) {
      for (let line = queue.shift(); line; line = queue.shift()) line.clear();
    }
    this.smallBytes = 0;
    this.bulkBytes = 0;
    this.answerBytes = 0;
  }

  /** A message stays in its queue to its last piece. */
  #queueOf(message: OutgoingMessage): Fifo<SendFifo> {
    return message.isBulk ? this.bulk : this.ready;
  }

  #count(message: OutgoingMessage, sign: 1 | -1): void {
    const { totalBytes, sentBytes, isBulk, isAnswer } = message;
    const cost = sign * (totalBytes - sentBytes + wireLimits.messageOverheadBytes);
    if (isBulk) this.bulkBytes += cost;
    else this.smallBytes += cost;
    if (isAnswer) this.answerBytes += cost;
  }
}
