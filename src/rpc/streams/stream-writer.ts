// SPDX-License-Identifier: MIT
// The sending half of a stream: a message is admitted when the stream's window, the session's and
// the send queue have room; until then it waits here, in order.

import { isBytes } from '../../base/brands.ts';
import type { Delivered } from '../../base/error-codes.ts';
import { SidecallError } from '../../base/errors.ts';
import { Fifo } from '../../base/fifo.ts';
import { noBytes, rejected } from '../../base/ignore-errors.ts';
import { tuning } from '../../base/limits/internal-limits.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import type { WaitReason } from '../../base/wait-reasons.ts';
import { FrameFlag } from '../../wire/frame-header.ts';
import { type Codec, keepWaiting } from '../contract/codec.ts';
import {
  detachedError,
  encodeMessage,
  isBlock,
  isDetached,
  type Message,
  messageBytesOf,
  queuedBytesOf,
  releaseMessage,
} from '../contract/encode-message.ts';
import { releaseBlockIn } from '../contract/leases.ts';
import type { CallTrace } from '../counting/call-trace.ts';
import type { SendingStream } from '../sending/outgoing-messages.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import { Departures, type WaitQueue } from '../stalls.ts';
import { WaitingMessage } from './waiting-message.ts';
import { WriterWindow } from './writer-window.ts';

/** The parts of a writer. */
export interface WriterParts {
  readonly shared: SessionShared;
  readonly stream: SendingStream & {
    readonly isOpen: boolean;
    /** Why the call was not sent; undefined: it was, or is over. */
    readonly waitReason?: WaitReason | undefined;
    readonly trace: CallTrace | undefined;
  };
  readonly codec: Codec<unknown>;
  /** Wire name of the method or channel, for errors. */
  readonly name: string;
  /** Flag `fromOpener` where we opened the stream. */
  readonly flags: number;
  /** The bytes that the peer lets us send before it grants more. */
  readonly windowBytes: number;
  /**
   * Message boundaries have no meaning, as in a byte stream: a long message may leave in several.
   */
  readonly isDivisible?: boolean;
}

const admitted = Promise.resolve();

/** The windows in which a message counts: none yet, both, or only that of its stream. */
type Admittance = WaitReason | 'both' | 'stream-only';

export class StreamWriter implements WaitQueue {
  readonly #shared: SessionShared;
  readonly #stream: WriterParts['stream'];
  readonly #codec: Codec<unknown>;
  readonly #name: string;
  readonly #flags: number;
  readonly #window: WriterWindow;
  readonly #waiting = new Fifo<WaitingMessage>();
  // Admitted, and still referenced by the send queue: long messages are not copied.
  readonly #leaving = new Set<WaitingMessage>();
  /** The last one that had to wait. */
  latest: WaitingMessage | undefined;
  #waitingBytes = 0;
  readonly #isDivisible: boolean;
  readonly departed = new Departures();
  /** Messages that were admitted, ever. */
  admitted = 0;
  #isStarted = false;
  #isEnding = false;
  #onEnded: (() => void) | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(parts: WriterParts) {
    this.#shared = parts.shared;
    this.#stream = parts.stream;
    this.#codec = parts.codec;
    this.#name = parts.name;
    this.#flags = parts.flags | FrameFlag.streamed;
    this.#window = new WriterWindow(parts.shared, parts.windowBytes);
    this.#isDivisible = parts.isDivisible === true;
  }

  /** Bytes that may be sent before the peer grants more. */
  get creditBytes(): number {
    return this.#window.left;
  }

  /** Bytes that wait to be admitted. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Messages that wait to be admitted, or to leave. */
  get waiting(): number {
    return this.#waiting.length + this.#leaving.size;
  }

  /** Why the first one waits. */
  get waitReason(): WaitReason {
    const first = this.#waiting.peek();
    if (first === undefined) return 'peer'; // it leaves, piece by piece
    const admittance = this.#admittanceOf(first.message, first.messageBytes);
    return admittance === 'both' || admittance === 'stream-only' ? 'send-queue' : admittance;
  }

  get isEnding(): boolean {
    return this.#isEnding;
  }

  /** The stream exists at the peer's side, or will before what is sent from now on. */
  start(): void {
    this.#isStarted = true;
    this.resume();
  }

  /** The peer's application took messages. */
  grant(bytes: number): void {
    this.#window.grant(bytes);
    this.resume();
  }

  /**
   * Resolves when the message was admitted. Up to then its bytes must not change. Rejects, never
   * throws; a rejection that is not awaited is dropped.
   */
  send(value: unknown): Promise<void> {
    let message: Message | undefined;
    try {
      if (this.#failure !== undefined) throw this.#failure.error;
      if (this.#isEnding) throw ended(this.#name, 'after end()');
      message = encodeMessage(this.#shared, this.#codec, value);
      const messageBytes = messageBytesOf(message);
      this.#checkLength(messageBytes);
      this.#stream.trace?.countSent(messageBytes);
      if (this.#waiting.length > 0) return this.#wait(message, messageBytes);
      const admittance = this.#admittanceOf(message, messageBytes);
      if (admittance === 'both') return this.#admit(message, messageBytes, false);
      if (admittance === 'stream-only') return this.#admit(message, messageBytes, true);
      return this.#wait(message, messageBytes);
    } catch (error) {
      releaseBlockIn(value);
      releaseMessage(message);
      return rejected(error);
    }
  }

  /**
   * Gives up a message that waits: its promise rejects with `reasonOf(delivered)`. With 'no'
   * nothing of it is sent; with 'unknown' a part of it was, and the rest follows. False: it has
   * left.
   */
  giveUp(waiting: WaitingMessage, reasonOf: (delivered: Delivered) => unknown): boolean {
    if (this.#leaving.has(waiting)) return this.#cancelLeaving(waiting, reasonOf);
    if (!this.#waiting.remove(waiting)) return false;
    this.departed.add();
    this.#waitingBytes -= waiting.messageBytes;
    waiting.refuse(reasonOf(waiting.isBegun ? 'unknown' : 'no'));
    this.resume();
    return true;
  }

  #cancelLeaving(leaving: WaitingMessage, reasonOf: (delivered: Delivered) => unknown): boolean {
    const { sendQueue } = this.#shared;
    const state = sendQueue.removeWaiting(this.#stream, leaving.onTaken as () => void);
    if (state === 'gone') return false;
    this.#leaving.delete(leaving);
    this.departed.add();
    if (state === 'unseen') this.#window.release(leaving.messageBytes, leaving.isBeyond);
    leaving.refuse(reasonOf(state === 'unseen' ? 'no' : 'unknown'));
    this.resume();
    this.#shared.resumeBlocked();
    return true;
  }

  /** Drops the messages that were not admitted yet. */
  failWaiting(reason: unknown): void {
    for (let waiting = this.#waiting.shift(); waiting; waiting = this.#waiting.shift()) {
      this.departed.add();
      waiting.refuse(reason);
    }
    this.#waitingBytes = 0;
  }

  /** Calls `then` once everything was handed to the send queue; nothing may be sent any more. */
  end(then: () => void): void {
    this.#isEnding = true;
    this.#onEnded = then;
    this.resume();
  }

  /** The stream is over: what waits is not sent. */
  fail(error: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = { error };
    this.#onEnded = undefined;
    this.#shared.blocked.remove(this);
    this.#shared.waits.remove(this);
    for (let waiting = this.#waiting.shift(); waiting; waiting = this.#waiting.shift()) {
      waiting.refuse(error);
    }
    for (const waiting of this.#leaving) waiting.refuse(error);
    this.#leaving.clear();
    this.#waitingBytes = 0;
  }

  /** Sends what may go. */
  resume(): void {
    if (this.#failure !== undefined) return;
    for (;;) {
      const first = this.#waiting.peek();
      if (first === undefined) break;
      const admittance = this.#admittanceOf(first.message, first.messageBytes);
      if (admittance === 'session-window' && this.#sendPart(first)) continue;
      if (admittance !== 'both' && admittance !== 'stream-only') return this.#noteBlocked();
      this.#waiting.shift();
      this.departed.add();
      this.#waitingBytes -= first.messageBytes;
      this.#admitWaiting(first, admittance === 'stream-only');
    }
    if (this.#onEnded === undefined || !this.#isStarted) return;
    const onEnded = this.#onEnded;
    this.#onEnded = undefined;
    onEnded();
  }

  #checkLength(messageBytes: number): void {
    const { receiveMaxBytes } = this.#shared.remote;
    if (messageBytes <= receiveMaxBytes) return;
    const text = `${this.#name}: message of ${messageBytes} bytes exceeds the peer's receiveMaxBytes ${receiveMaxBytes}; raise limits.receiveMaxBytes there`;
    throw new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', text);
  }

  /** The windows in which a message may count, or why it has to wait. */
  #admittanceOf(message: Message, messageBytes: number): Admittance {
    const { sendQueue, own } = this.#shared;
    const isBulk = this.#stream.isBulk || sendQueue.isBulk(queuedBytesOf(message, messageBytes));
    if (!this.#isStarted || !this.#stream.isOpen) return this.#stream.waitReason ?? 'slot';
    if (!this.#window.hasCredit) return 'stream-window';
    if (!sendQueue.hasRoom(isBulk, own.sendQueueMaxBytes)) return 'send-queue';
    if (this.#window.hasSharedCredit) return 'both';
    return this.#window.mayGoBeyond(messageBytes) ? 'stream-only' : 'session-window';
  }

  /** Sends the beginning of what may leave in several messages. */
  #sendPart(waiting: WaitingMessage): boolean {
    const { message } = waiting;
    if (!this.#isDivisible || !isBytes(message)) return false;
    if (
      !this.#window.mayGoBeyond(wireLimits.beyondMaxBytes) ||
      isDetached(message, waiting.messageBytes)
    )
      return false;
    const part = message.slice(0, wireLimits.beyondMaxBytes);
    waiting.message = message.subarray(wireLimits.beyondMaxBytes);
    waiting.messageBytes -= part.length;
    waiting.isBegun = true;
    this.#waitingBytes -= part.length;
    this.#give(part, part.length, true, undefined);
    return true;
  }

  /**
   * A short one is copied where it has to wait in the queue, a long one leaves before its promise
   * resolves.
   */
  #admit(message: Message, messageBytes: number, isBeyond: boolean): Promise<void> {
    if (this.#isCopied(message, messageBytes)) {
      this.#give(message, messageBytes, isBeyond, undefined);
      return admitted;
    }
    const waiting = new WaitingMessage(message, messageBytes);
    this.latest = waiting;
    this.#admitWaiting(waiting, isBeyond);
    return waiting.promise;
  }

  #isCopied(message: Message, messageBytes: number): boolean {
    if (typeof message === 'string' || isBlock(message) || this.#codec.reusesBytes === true)
      return true;
    return messageBytes <= tuning.copiedSendMaxBytes;
  }

  #admitWaiting(waiting: WaitingMessage, isBeyond: boolean): void {
    const { message, messageBytes } = waiting;
    if (isDetached(message, messageBytes)) return waiting.refuse(detachedError(this.#name));
    const isCopied = this.#isCopied(message, messageBytes);
    const onTaken = (): void => {
      if (!this.#leaving.delete(waiting)) return;
      this.departed.add();
      waiting.resolve();
    };
    waiting.isBeyond = isBeyond;
    waiting.onTaken = onTaken;
    if (!isCopied) this.#leaving.add(waiting);
    const isGone = this.#give(message, messageBytes, isBeyond, isCopied ? undefined : onTaken);
    if (isCopied) waiting.resolve();
    else if (isGone) onTaken();
  }

  #give(
    message: Message,
    messageBytes: number,
    isBeyond: boolean,
    onTaken: (() => void) | undefined,
  ): boolean {
    const { sendQueue } = this.#shared;
    const { slot, generation } = this.#stream;
    this.admitted += 1;
    this.#window.spend(messageBytes, isBeyond);
    const flags = isBeyond ? this.#flags | FrameFlag.beyond : this.#flags;
    const header = sendQueue.header.message(flags, slot, generation, messageBytes);
    return sendQueue.send(this.#stream, header, noBytes, message, messageBytes, onTaken);
  }

  #wait(message: Message, messageBytes: number): Promise<void> {
    if (this.#waiting.length >= tuning.waitingSendsMax) {
      const text = `${this.#name}: ${tuning.waitingSendsMax} messages already wait on this stream; await send()`;
      throw new SidecallError('ERR_SIDECALL_LIMIT_BYTES', text);
    }
    const waiting = new WaitingMessage(keepWaiting(this.#codec, message), messageBytes);
    this.#waiting.push(waiting);
    this.latest = waiting;
    this.#waitingBytes += messageBytes;
    this.#shared.waits.add(this);
    if (this.#isDivisible) this.resume();
    else this.#noteBlocked();
    return waiting.promise;
  }

  /** A stream that waits for its own window is woken by its own credit, so it is not noted here. */
  #noteBlocked(): void {
    if (this.#isStarted && this.#window.hasCredit) this.#shared.blocked.add(this);
  }
}

/** The error of a send after the end. */
export function ended(name: string, when: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_END_OF_STREAM', `${name}: nothing can be sent ${when}`);
}
