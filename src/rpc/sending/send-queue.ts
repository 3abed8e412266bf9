// SPDX-License-Identifier: MIT
// The order of frames: control first, then whole messages and pieces of long ones in turn. The
// only send queue.

import { Buffer } from 'node:buffer';
import { SidecallError } from '../../base/errors.ts';
import { Fifo } from '../../base/fifo.ts';
import { noBytes } from '../../base/ignore-errors.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { isSmallPart } from '../../base/message-slabs.ts';
import type { SessionRecorder } from '../../wire/flight-recorder.ts';
import { FrameFlag, FrameType, HeaderWriter } from '../../wire/frame-header.ts';
import type { Transport } from '../../wire/transport.ts';
import { isBlock, type Message } from '../contract/encode-message.ts';
import type { Block } from '../contract/leases.ts';
import { Departures, type WaitQueue } from '../stalls.ts';
import { BulkPieces } from './bulk-pieces.ts';
import { isMessage, join } from './frame-parts.ts';
import { type OutgoingMessage, OutgoingMessages, type SendingStream } from './outgoing-messages.ts';

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
  readonly departed = new Departures();
  /** Frames that the transport took, ever. */
  framesSent = 0;
  readonly header: HeaderWriter;
  recorder: SessionRecorder | undefined;
  readonly #transport: Transport;
  readonly #onDrained: () => void;
  readonly #onBroken: (stream: SendingStream, error: SidecallError) => void;
  readonly #onWaiting: () => void;
  /** Largest payload that goes in one frame, in bytes. */
  readonly fragmentBytes: number;
  readonly #control = new Fifo<ControlFrame>();
  #ownControl = 0;
  /** The messages that wait. */
  readonly messages = new OutgoingMessages();
  readonly #pieces: BulkPieces;
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
    onBroken: (stream: SendingStream, error: SidecallError) => void,
    onWaiting: () => void,
  ) {
    this.#transport = transport;
    this.header = new HeaderWriter(transport.headers);
    this.#onDrained = onDrained;
    this.#onBroken = onBroken;
    this.#onWaiting = onWaiting;
    this.fragmentBytes = Math.min(
      wireLimits.fragmentBytes,
      transport.frameMaxBytes - wireLimits.frameHeaderMaxBytes,
    );
    this.#pieces = new BulkPieces(this.fragmentBytes);
  }

  /** Bytes of messages that wait here, with 64 for each. */
  get queuedBytes(): number {
    return this.messages.smallBytes + this.messages.bulkBytes;
  }

  /** True: a message of this length is cut into pieces, and takes turns with other long ones. */
  isBulk(bytes: number): boolean {
    return bytes > this.fragmentBytes;
  }

  /** True: nothing waits, so that a short message goes at once, by {@link SendQueue.sendNow}. */
  get isFree(): boolean {
    const { ready, bulk } = this.messages;
    const count = this.#control.length + ready.length + bulk.length;
    return count === 0 && !this.#isFull && !this.#isHeld;
  }

  /**
   * Sends a whole message, where the queue is free: the short way of {@link SendQueue.send}. False:
   * the transport has no room.
   */
  sendNow(
    stream: SendingStream,
    header: Uint8Array,
    message: Uint8Array | string,
    messageBytes: number,
  ): boolean {
    if (!this.#transport.trySend(header, messageBytes === 0 ? noBytes : message, false)) {
      this.#isFull = true;
      return false;
    }
    this.#noteSent(stream, header, messageBytes);
    stream.counters.sentMessages += 1;
    stream.counters.sentBytes += messageBytes;
    return true;
  }

  /** May one more message be queued? Long ones do not stand in the way of small ones. */
  hasRoom(isBulk: boolean, maxBytes: number): boolean {
    const { smallBytes, bulkBytes } = this.messages;
    return !this.#isHeld && (isBulk ? bulkBytes : smallBytes) < maxBytes;
  }

  /**
   * Waiting frames and streams, without the control frames of our own decision: the number that a
   * peer can raise without reading.
   */
  get queuedCount(): number {
    return this.waiting - this.#ownControl;
  }

  /** Frames and streams that wait for room in the lane. */
  get waiting(): number {
    return this.#control.length + this.messages.ready.length + this.messages.bulk.length;
  }

  get isEmpty(): boolean {
    return this.waiting === 0;
  }

  /** A whole message may go at once: nothing of its kind waits. */
  #isClear(isBulk: boolean): boolean {
    if (this.#isFull || this.#control.length > 0) return false;
    return !this.messages.has(isBulk) && !(isBulk && this.#isBulkFull);
  }

  /**
   * A small frame that overtakes all data. The header may be the writer's own: it is copied.
   * `isOwn`: it is our own doing.
   */
  sendControl(header: Uint8Array, payload?: Uint8Array | string, isOwn = false): void {
    if (this.#isEnded) return;
    if (this.#control.length === 0 && !this.#isFull) {
      if (this.#transport.trySend(header, payload, false)) {
        return this.#countControl(header, payload);
      }
      this.#isFull = true;
    }
    this.#control.push({ header: header.slice(), payload, isOwn });
    this.#onWaiting();
    if (isOwn) this.#ownControl += 1;
  }

  /**
   * A frame that begins a message, then as many fragments as it takes. `prefix` (metadata) goes
   * before the body. The body is referenced until it was sent, not copied, unless the stream's is
   * borrowed. False: `onTaken` was called or will be, when the last piece is handed over, unless
   * the message is removed before. True: `onTaken` is not called.
   */
  send(
    stream: SendingStream,
    header: Uint8Array,
    prefix: Uint8Array,
    message: Message,
    messageBytes: number,
    onTaken?: () => void,
  ): boolean {
    const block = isBlock(message) ? message : undefined;
    if (this.#isEnded) {
      block?.release();
      return true;
    }
    const prefixBytes = prefix === noBytes ? 0 : prefix.length;
    const wholeBytes = prefixBytes + messageBytes;
    const isLong = stream.isBulk
      ? block === undefined && this.#isCut(header, prefix, wholeBytes)
      : block === undefined && wholeBytes > this.fragmentBytes;
    const isBulk = isLong || stream.isBulk;
    const isOvertaking = (stream.line?.length ?? 0) > 0;
    if (!isLong && this.#isClear(isBulk) && !isOvertaking) {
      if (this.#trySendWhole(header, prefix, message, messageBytes, isBulk)) {
        this.#noteSent(stream, header, wholeBytes);
        if (isMessage(header)) stream.counters.countSent(messageBytes);
        if (isBulk || this.messages.has(true)) this.#pieces.noteSent(isBulk, messageBytes);
        return true;
      }
      this.#noteFull(isBulk);
    }
    const bytes = this.#bytesToKeep(stream, prefix, message, onTaken === undefined);
    this.messages.add({
      stream,
      header: header.slice(),
      bytes,
      totalBytes: bytes.length,
      block,
      flags: (header[1] as number) & FrameFlag.fromOpener,
      headBytes: header[0] === FrameType.end ? bytes.length : prefix.length,
      isBulk,
      messageBytes: isMessage(header) ? messageBytes : undefined,
      isAnswer: stream.isAnswer && ((header[1] as number) & FrameFlag.streamed) === 0,
      onTaken,
      sentBytes: 0,
      isBegun: false,
    });
    this.#pump();
    if (this.waiting > 0) this.#onWaiting();
    return onTaken === undefined;
  }

  /**
   * Forgets what is queued for a stream that ends early. Returns what messages of its flow, which
   * the peer will never see, had taken of the session's window.
   */
  remove(stream: SendingStream): number {
    return this.messages.remove(stream);
  }

  /**
   * Takes a message back that waits with `onTaken`, which is not called any more. `unseen`: nothing
   * of it was sent, and nothing will be. `begun`: the rest of it follows, from memory of our own.
   * `gone`: it has left.
   */
  removeWaiting(stream: SendingStream, onTaken: () => void): 'unseen' | 'begun' | 'gone' {
    return this.messages.takeBack(stream, onTaken);
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
    this.messages.clear();
  }

  /**
   * A message of bulk priority takes more than one frame. Metadata and frames that end are never
   * cut.
   */
  #isCut(header: Uint8Array, prefix: Uint8Array, wholeBytes: number): boolean {
    if (header[0] === FrameType.end) return false;
    return wholeBytes > Math.max(this.#pieces.maxBytes(true), prefix.length);
  }

  #trySendWhole(
    header: Uint8Array,
    prefix: Uint8Array,
    message: Message,
    messageBytes: number,
    isBulk: boolean,
  ): boolean {
    if (isBlock(message)) return this.#trySendBlock(header, prefix, message);
    const payload = prefix === noBytes || prefix.length === 0 ? message : join(prefix, message);
    const bulk = isBulk && this.#pieces.bulkOf(true);
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
    if (isBlock(message)) return new Uint8Array(prefix);
    if (typeof message === 'string') return join(prefix, message);
    const isPart = stream.isAnswer && isSmallPart(message);
    const copies = (stream.isBorrowed && isUnwatched) || isPart;
    return join(prefix, copies ? new Uint8Array(message) : message); // a Buffer's slice() copies nothing
  }

  #pump(): void {
    while (!this.#isFull) {
      const control = this.#control.peek();
      if (control !== undefined) {
        if (this.#transport.trySend(control.header, control.payload, false)) {
          this.#control.shift();
          this.#countControl(control.header, control.payload);
          if (control.isOwn) this.#ownControl -= 1;
          this.departed.add();
        } else this.#isFull = true;
        continue;
      }
      const message = this.messages.next(!this.#isBulkFull);
      if (message === undefined) return;
      this.#sendPiece(message);
    }
  }

  /** Sends the next frame of the message whose turn it is. */
  #sendPiece(message: OutgoingMessage): void {
    const { stream, bytes, sentBytes, isBulk, block } = message;
    if (bytes.length !== message.totalBytes) return this.#onDetached(message);
    const pieceBytes = this.#pieces.maxBytes(isBulk);
    const end = Math.min(Math.max(sentBytes + pieceBytes, message.headBytes), bytes.length);
    const header = message.isBegun
      ? this.header.fragment(message.flags, stream.slot, stream.generation)
      : message.header;
    const bulk = this.#pieces.bulkOf(isBulk);
    const isSent =
      block === undefined
        ? this.#transport.trySend(header, bytes.subarray(sentBytes, end), bulk)
        : this.#trySendBlock(header, bytes, block);
    if (!isSent) return this.#noteFull(isBulk);
    this.#noteSent(stream, header, end - sentBytes + (block?.byteLength ?? 0));
    if (isBulk || this.messages.has(true)) this.#pieces.noteSent(isBulk, end - sentBytes);
    const isWhole = this.messages.advance(message, end);
    this.departed.add();
    if (isWhole) message.onTaken?.();
  }

  /** The queue stands until the stream has ended, and its messages were removed. */
  #onDetached({ stream, totalBytes }: OutgoingMessage): void {
    this.#isFull = true;
    const text = `a message of ${totalBytes} bytes was detached before all of it was sent: a lease was released, or its memory transferred, too early`;
    this.#onBroken(stream, new SidecallError('ERR_SIDECALL_LEASE_RELEASED', text));
  }

  #noteFull(isBulk: boolean): void {
    if (isBulk) this.#isBulkFull = true;
    else this.#isFull = true;
  }

  #countControl(header: Uint8Array, payload: Uint8Array | string | undefined): void {
    this.framesSent += 1;
    this.recorder?.sent(header, payload === undefined ? 0 : Buffer.byteLength(payload));
  }

  #noteSent(stream: SendingStream, header: Uint8Array, payloadBytes: number): void {
    this.framesSent += 1;
    this.recorder?.sentOn(stream, header, payloadBytes, stream.counters);
    const isBegun = stream.isWritten && stream.beginsAtOnce;
    stream.isWritten = true;
    if (!isBegun) stream.sentPosition = this.#transport.sentPosition;
  }
}
