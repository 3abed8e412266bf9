// SPDX-License-Identifier: MIT
// The order of frames: control first, then whole messages and pieces of long ones in turn. The
// only send queue.

import { SidecallError } from '../../base/errors.ts';
import { Fifo } from '../../base/fifo.ts';
import { noBytes } from '../../base/ignore-errors.ts';
import { tuning } from '../../base/limits/internal-limits.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { FrameFlag, HeaderWriter } from '../../wire/frame-header.ts';
import type { Bulk, Transport } from '../../wire/transport.ts';
import type { Message } from '../contract/encode-message.ts';
import { Block } from '../contract/leases.ts';
import type { WaitQueue } from '../stalls.ts';
import { chargeOf } from './credit.ts';

/** The state of a stream that the send queue needs. */
export interface SendingStream {
  readonly slot: number;
  readonly generation: number;
  /** The sender may reuse its bytes as soon as they were admitted: what has to wait is copied. */
  readonly isBorrowed: boolean;
  /** Everything of it goes behind what is not bulk, however short. */
  readonly isBulk: boolean;
  /** The peer opened it. */
  readonly isAnswer: boolean;
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
}

/** Messages that leave in order. */
export type SendFifo = Fifo<OutgoingMessage>;

/** One message in the queue. */
export interface OutgoingMessage {
  readonly stream: SendingStream;
  readonly header: Uint8Array;
  /** The bytes that go through the lane: all of the message, or the prefix of its block. */
  bytes: Uint8Array;
  /** The length of `bytes` when they were queued: they may have been detached since. */
  readonly totalBytes: number;
  readonly block: Block | undefined;
  readonly flags: number;
  readonly isBulk: boolean;
  /** It answers a call of the peer's: not a message of a stream, nor anything of our own calls. */
  readonly isAnswer: boolean;
  /** Called when its last piece was handed over. */
  onTaken: (() => void) | undefined;
  sentBytes: number;
  isBegun: boolean;
}

interface ControlFrame {
  readonly header: Uint8Array;
  readonly payload: Uint8Array | string | undefined;
  /** True: sent by our own decision. False: an answer that the peer has caused. */
  readonly isOwn: boolean;
}

/** Sends what fits at once and keeps the rest, in bounds that its owner watches. */
export class SendQueue implements WaitQueue {
  readonly waitReason = 'peer';
  /** Frames that were handed to the transport after they had waited, ever. */
  departed = 0;
  readonly header = new HeaderWriter();
  readonly #transport: Transport;
  readonly #onDrained: () => void;
  readonly #onBroken: (error: SidecallError) => void;
  readonly #onWaiting: () => void;
  readonly #fragmentBytes: number;
  readonly #control = new Fifo<ControlFrame>();
  #ownControl = 0;
  // Streams whose next message is whole in one frame, and those in the middle of a long one. They
  // take turns, and only the long ones wait for the transport's bulk limit: a small call finds a
  // short queue.
  readonly #ready = new Fifo<SendFifo>();
  readonly #bulk = new Fifo<SendFifo>();
  #smallBytes = 0;
  #bulkBytes = 0;
  #answerBytes = 0;
  #isBulkNext = false;
  /** Bytes of long messages that were sent since a short one went beside them. */
  #bulkAloneBytes = Number.POSITIVE_INFINITY;
  #isFull = false;
  #isEnded = false;
  #isBulkFull = false;
  #isHeld = false;

  /**
   * `onDrained`: called after room came back and something was sent; `onBroken`: the memory of a
   * message was detached before it was sent; `onWaiting`: something waits.
   */
  constructor(
    transport: Transport,
    onDrained: () => void,
    onBroken: (error: SidecallError) => void,
    onWaiting: () => void,
  ) {
    this.#transport = transport;
    this.#onDrained = onDrained;
    this.#onBroken = onBroken;
    this.#onWaiting = onWaiting;
    this.#fragmentBytes = Math.min(
      wireLimits.fragmentBytes,
      transport.frameMaxBytes - wireLimits.frameHeaderMaxBytes,
    );
  }

  /** Bytes of messages that wait here, with 64 for each. */
  get queuedBytes(): number {
    return this.#smallBytes + this.#bulkBytes;
  }

  /** Those of them that answer calls, streams apart. */
  get answerBytes(): number {
    return this.#answerBytes;
  }

  /** Is a message of this length queued behind pieces of others, in a queue of their own? */
  isBulk(bytes: number): boolean {
    return bytes > this.#fragmentBytes;
  }

  /** May one more message be queued? Long ones do not stand in the way of small ones. */
  hasRoom(isBulk: boolean, maxBytes: number): boolean {
    return !this.#isHeld && (isBulk ? this.#bulkBytes : this.#smallBytes) < maxBytes;
  }

  /** Largest payload that goes in one frame, in bytes. */
  get fragmentBytes(): number {
    return this.#fragmentBytes;
  }

  /**
   * Waiting frames and streams, without the control frames of our own decision: the number that a
   * peer can raise without reading.
   */
  get queuedCount(): number {
    const control = this.#control.length - this.#ownControl;
    return control + this.#ready.length + this.#bulk.length;
  }

  /** Frames and streams that wait for room in the lane. */
  get waiting(): number {
    return this.#control.length + this.#ready.length + this.#bulk.length;
  }

  get isEmpty(): boolean {
    return this.waiting === 0;
  }

  /** A whole message may go at once: nothing of its kind waits. */
  #isClear(isBulk: boolean): boolean {
    if (this.#isFull || this.#control.length > 0) return false;
    return isBulk ? this.#bulk.length === 0 && !this.#isBulkFull : this.#ready.length === 0;
  }

  /**
   * A small frame that overtakes all data. The header may be the writer's own: it is copied.
   * `isOwn`: it is our own doing.
   */
  sendControl(header: Uint8Array, payload?: Uint8Array | string, isOwn = false): void {
    if (this.#isEnded) return;
    if (this.#control.length === 0 && !this.#isFull) {
      if (this.#transport.trySend(header, payload, false)) return;
      this.#isFull = true;
    }
    this.#control.push({ header: header.slice(), payload, isOwn });
    this.#onWaiting();
    if (isOwn) this.#ownControl += 1;
  }

  /**
   * A frame that begins a message, then as many fragments as it takes. `prefix` (metadata) goes
   * before the body. The body is referenced until it was sent, not copied, unless the stream's is
   * borrowed. True: it was sent or copied. False: it waits, uncopied where `onTaken` is given,
   * which is then called when its last piece was handed over.
   */
  send(
    stream: SendingStream,
    header: Uint8Array,
    prefix: Uint8Array,
    message: Message,
    messageBytes: number,
    onTaken?: () => void,
  ): boolean {
    const block = message instanceof Block ? message : undefined;
    if (this.#isEnded) {
      block?.release();
      return true;
    }
    const isLong = block === undefined && prefix.byteLength + messageBytes > this.#fragmentBytes;
    const isBulk = isLong || stream.isBulk;
    if (!isLong && this.#isClear(isBulk) && !hasQueued(stream)) {
      if (this.#trySendWhole(header, prefix, message, messageBytes, isBulk)) {
        this.#noteSent(stream);
        this.#noteTurn(isBulk, messageBytes);
        return true;
      }
      this.#noteFull(isBulk);
    }
    const bytes = this.#bytesToKeep(stream, prefix, message, onTaken === undefined);
    const queued: OutgoingMessage = {
      stream,
      header: header.slice(),
      bytes,
      totalBytes: bytes.byteLength,
      block,
      flags: (header[1] as number) & FrameFlag.fromOpener,
      isBulk,
      isAnswer: stream.isAnswer && ((header[1] as number) & FrameFlag.streamed) === 0,
      onTaken,
      sentBytes: 0,
      isBegun: false,
    };
    this.#count(queued, 1);
    stream.line ??= new Fifo();
    stream.line.push(queued);
    stream.queued += 1;
    if (stream.line.length === 1) this.#queueOf(queued).push(stream.line);
    this.#pump();
    if (this.waiting > 0) this.#onWaiting();
    return onTaken === undefined;
  }

  /**
   * Forgets what is queued for a stream that ends early. Returns what messages of its flow, which
   * the peer will never see, had taken of the session's window.
   */
  remove(stream: SendingStream): number {
    const { line } = stream;
    const head = stream.queued === 0 ? undefined : line?.peek();
    stream.queued = 0;
    if (line === undefined || head === undefined) return 0; // or everything was cleared before
    let unseen = 0;
    this.#queueOf(head).remove(line);
    for (let left = line.length; left > 0; left -= 1) {
      const queued = line.shift() as OutgoingMessage;
      if (queued.stream !== stream) {
        line.push(queued);
        continue;
      }
      this.#count(queued, -1);
      const flags = queued.header[1] as number;
      const isCharged = (flags & (FrameFlag.streamed | FrameFlag.beyond)) === FrameFlag.streamed;
      const { block, totalBytes } = queued;
      if (isCharged && !queued.isBegun) unseen += chargeOf(block?.byteLength ?? totalBytes);
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
  removeWaiting(stream: SendingStream, onTaken: () => void): 'unseen' | 'begun' | 'gone' {
    const { line } = stream;
    const queued = line?.items().find((each) => each.onTaken === onTaken);
    if (line === undefined || queued === undefined) return 'gone';
    queued.onTaken = undefined;
    if (queued.isBegun) {
      queued.bytes = new Uint8Array(queued.bytes); // a Buffer's slice() copies nothing
      return 'begun';
    }
    const isHead = line.peek() === queued;
    if (isHead) this.#queueOf(queued).remove(line);
    line.remove(queued);
    stream.queued -= 1;
    this.#count(queued, -1);
    const following = line.peek();
    if (isHead && following !== undefined) this.#queueOf(following).push(line);
    return 'unseen';
  }

  /** For the transport's `onRoom`. */
  onRoom(): void {
    this.#isFull = false;
    this.#isBulkFull = false;
    this.#pump();
    this.#onDrained();
  }

  /** {@link SendQueue.hold} was called. */
  get isHeld(): boolean {
    return this.#isHeld;
  }

  /** From now on everything waits: the connection has ended, and the end of the session follows. */
  hold(): void {
    this.#isHeld = true;
    this.#isFull = true;
  }

  /** The session ended: nothing here will ever be sent. */
  clear(): void {
    this.#isEnded = true;
    this.#control.clear();
    this.#ownControl = 0;
    for (const queue of [this.#ready, this.#bulk]) {
      for (let line = queue.shift(); line; line = queue.shift()) line.clear();
    }
    this.#smallBytes = 0;
    this.#bulkBytes = 0;
    this.#answerBytes = 0;
  }

  #trySendWhole(
    header: Uint8Array,
    prefix: Uint8Array,
    message: Message,
    messageBytes: number,
    isBulk: boolean,
  ): boolean {
    if (message instanceof Block) return this.#trySendBlock(header, prefix, message);
    const payload = prefix.byteLength === 0 ? message : join(prefix, message);
    const bulk = this.#bulkOf(isBulk);
    return this.#transport.trySend(header, messageBytes === 0 ? prefix : payload, bulk);
  }

  /** NOTE: blocks in place come from a transport that sends them. */
  #trySendBlock(header: Uint8Array, prefix: Uint8Array, block: Block): boolean {
    return this.#transport.trySendBlock?.(header, prefix, block.own) ?? false;
  }

  /** The bytes of a message that waits, copied if its owner may change them meanwhile. */
  #bytesToKeep(
    stream: SendingStream,
    prefix: Uint8Array,
    message: Message,
    isUnwatched: boolean,
  ): Uint8Array {
    if (message instanceof Block) return new Uint8Array(prefix);
    const copies = stream.isBorrowed && isUnwatched && typeof message !== 'string';
    return join(prefix, copies ? new Uint8Array(message) : message); // a Buffer's slice() copies nothing
  }

  #pump(): void {
    while (!this.#isFull) {
      const control = this.#control.peek();
      if (control !== undefined) {
        if (this.#transport.trySend(control.header, control.payload, false)) {
          this.#control.shift();
          this.departed += 1;
          if (control.isOwn) this.#ownControl -= 1;
        } else this.#isFull = true;
        continue;
      }
      const queue = this.#nextQueue();
      if (queue === undefined) return;
      this.#sendNext(queue);
    }
  }

  /** The queue whose turn it is: the two take turns while both may send. */
  #nextQueue(): Fifo<SendFifo> | undefined {
    const mayBulk = this.#bulk.length > 0 && !this.#isBulkFull;
    if (this.#ready.length === 0) return mayBulk ? this.#bulk : undefined;
    this.#isBulkNext = mayBulk && !this.#isBulkNext;
    return this.#isBulkNext ? this.#bulk : this.#ready;
  }

  /** One frame of the line at the head of a queue; then the next line has its turn. */
  #sendNext(queue: Fifo<SendFifo>): void {
    const line = queue.peek() as SendFifo;
    const queued = line.peek() as OutgoingMessage;
    const { stream, bytes, sentBytes, isBulk, block } = queued;
    if (bytes.byteLength !== queued.totalBytes) return this.#onDetached(queued);
    const end = Math.min(sentBytes + this.#pieceBytes(isBulk), bytes.byteLength);
    const header = queued.isBegun
      ? this.header.fragment(queued.flags, stream.slot, stream.generation)
      : queued.header;
    const isSent =
      block === undefined
        ? this.#transport.trySend(header, bytes.subarray(sentBytes, end), this.#bulkOf(isBulk))
        : this.#trySendBlock(header, bytes, block);
    if (!isSent) return this.#noteFull(isBulk);
    this.#noteSent(stream);
    this.departed += 1;
    this.#count(queued, -1);
    this.#noteTurn(isBulk, end - sentBytes);
    queued.isBegun = true;
    queued.sentBytes = end;
    const isWhole = end === bytes.byteLength;
    if (!isWhole) this.#count(queued, 1);
    else {
      line.shift();
      stream.queued -= 1;
    }
    queue.shift();
    const following = line.peek();
    if (following !== undefined) this.#queueOf(following).push(line);
    if (isWhole) queued.onTaken?.();
  }

  /** Longest piece of the next frame. Long messages that short ones go beside are cut shorter. */
  #pieceBytes(isBulk: boolean): number {
    const isShared = this.#bulkOf(isBulk) === 'shared';
    return isShared ? Math.min(tuning.sharedPieceBytes, this.#fragmentBytes) : this.#fragmentBytes;
  }

  #bulkOf(isBulk: boolean): Bulk {
    return isBulk && this.#bulkAloneBytes < tuning.sharedPiecesBytes ? 'shared' : isBulk;
  }

  #noteTurn(isBulk: boolean, bytes: number): void {
    if (isBulk) this.#bulkAloneBytes += bytes;
    else if (this.#bulk.length > 0) this.#bulkAloneBytes = 0;
  }

  /** There is no way to take back a message that has begun: the peer waits for the rest of it. */
  #onDetached({ totalBytes }: OutgoingMessage): void {
    this.#isFull = true;
    const text = `a message of ${totalBytes} bytes was detached before all of it was sent: a lease was released, or its memory transferred, too early`;
    this.#onBroken(new SidecallError('ERR_SIDECALL_LEASE_RELEASED', text));
  }

  /** A message stays in its queue to its last piece. */
  #queueOf(queued: OutgoingMessage): Fifo<SendFifo> {
    return queued.isBulk ? this.#bulk : this.#ready;
  }

  #count(queued: OutgoingMessage, sign: 1 | -1): void {
    const cost = sign * (queued.totalBytes - queued.sentBytes + wireLimits.messageOverheadBytes);
    if (queued.isBulk) this.#bulkBytes += cost;
    else this.#smallBytes += cost;
    if (queued.isAnswer) this.#answerBytes += cost;
  }

  #noteFull(isBulk: boolean): void {
    if (isBulk) this.#isBulkFull = true;
    else this.#isFull = true;
  }

  #noteSent(stream: SendingStream): void {
    const isBegun = stream.isWritten && stream.beginsAtOnce;
    stream.isWritten = true;
    if (!isBegun) stream.sentPosition = this.#transport.sentPosition;
  }
}

/** Something of the stream's line waits, and what follows must not overtake it. */
function hasQueued(stream: SendingStream): boolean {
  return stream.line !== undefined && stream.line.length > 0;
}

function join(prefix: Uint8Array, message: Uint8Array | string): Uint8Array {
  const bytes =
    typeof message === 'string' ? (message === '' ? noBytes : Buffer.from(message)) : message;
  return prefix.byteLength === 0 ? bytes : Buffer.concat([prefix, bytes]);
}
