// SPDX-License-Identifier: MIT
// Which frame goes next: control first, then whole messages and pieces of long ones in turn. The only
// send queue.
import { Fifo } from '../fifo.ts';
import { FrameFlag, HeaderWriter } from '../frame.ts';
import { fixed } from '../limits.ts';
import type { Transport } from '../transport.ts';

/** What the queue keeps of a stream that sends. */
export interface SendingStream {
  readonly slot: number;
  readonly generation: number;
  /** The sender may reuse its bytes as soon as they were admitted: what has to wait is copied. */
  readonly isBorrowed: boolean;
  /** Messages not yet handed to the transport, in order; undefined until there is one. */
  outgoing: Fifo<OutgoingMessage> | undefined;
  /** Something of the stream was handed to the transport. */
  isWritten: boolean;
  /** The transport's `sentPosition` behind the last frame of the stream. */
  sentPosition: number;
}

/** One message in the queue. */
export interface OutgoingMessage {
  readonly header: Uint8Array;
  readonly bytes: Uint8Array;
  readonly flags: number;
  sentBytes: number;
  isBegun: boolean;
}

interface ControlFrame {
  readonly header: Uint8Array;
  readonly payload: Uint8Array | string | undefined;
}

const nothing = new Uint8Array(0);

/** Sends what fits at once and keeps the rest, in bounds that its owner watches. */
export class Schedule {
  readonly header = new HeaderWriter();
  readonly #transport: Transport;
  readonly #onDrained: () => void;
  readonly #fragmentBytes: number;
  readonly #control = new Fifo<ControlFrame>();
  // Streams whose next message is whole in one frame, and those in the middle of a long one. They take
  // turns, and only the long ones wait for the transport's bulk limit: a small call finds a short queue.
  readonly #ready = new Fifo<SendingStream>();
  readonly #bulk = new Fifo<SendingStream>();
  #smallBytes = 0;
  #bulkBytes = 0;
  #isBulkNext = false;
  #isFull = false;
  #isBulkFull = false;

  /** `onDrained`: called after room came back and something was sent. */
  constructor(transport: Transport, onDrained: () => void) {
    this.#transport = transport;
    this.#onDrained = onDrained;
    this.#fragmentBytes = Math.min(
      fixed.fragmentBytes,
      transport.frameMaxBytes - fixed.frameHeaderMaxBytes,
    );
  }

  /** Bytes of messages that wait here, with 64 for each. */
  get queuedBytes(): number {
    return this.#smallBytes + this.#bulkBytes;
  }

  /** Is a message of this length queued behind pieces of others, in a queue of their own? */
  isBulk(bytes: number): boolean {
    return bytes > this.#fragmentBytes;
  }

  /** May one more message be queued? Long ones do not stand in the way of small ones. */
  hasRoomFor(bytes: number, maxBytes: number): boolean {
    return (this.isBulk(bytes) ? this.#bulkBytes : this.#smallBytes) < maxBytes;
  }

  /** Largest payload that goes in one frame, in bytes. */
  get fragmentBytes(): number {
    return this.#fragmentBytes;
  }

  /** Frames and streams that wait: a peer that never reads makes it grow. */
  get queuedCount(): number {
    return this.#control.length + this.#ready.length + this.#bulk.length;
  }

  get isEmpty(): boolean {
    return this.queuedCount === 0;
  }

  /** A whole message may go at once: nothing of its kind waits. */
  get #isClear(): boolean {
    return !this.#isFull && this.#control.length === 0 && this.#ready.length === 0;
  }

  /** A small frame that overtakes all data. The header may be the writer's own: it is copied. */
  sendControl(header: Uint8Array, payload?: Uint8Array | string): void {
    if (this.#control.length === 0 && !this.#isFull) {
      if (this.#transport.trySend(header, payload, false)) return;
      this.#isFull = true;
    }
    this.#control.push({ header: header.slice(), payload });
  }

  /**
   * A frame that begins a message, then as many fragments as it takes. `prefix` (metadata) goes before
   * the body. The body is referenced until it was sent, not copied.
   */
  send(
    stream: SendingStream,
    header: Uint8Array,
    prefix: Uint8Array,
    body: Uint8Array | string,
    bodyBytes: number,
  ): void {
    const isWhole = prefix.byteLength + bodyBytes <= this.#fragmentBytes;
    if (isWhole && this.#isClear && !hasQueued(stream)) {
      const payload = prefix.byteLength === 0 ? body : join(prefix, body);
      if (this.#transport.trySend(header, bodyBytes === 0 ? prefix : payload, false)) {
        this.#noteSent(stream);
        return;
      }
      this.#isFull = true;
    }
    const message: OutgoingMessage = {
      header: header.slice(),
      bytes: join(prefix, stream.isBorrowed && typeof body !== 'string' ? body.slice() : body),
      flags: (header[1] as number) & FrameFlag.fromOpener,
      sentBytes: 0,
      isBegun: false,
    };
    this.#count(message, 1);
    stream.outgoing ??= new Fifo();
    stream.outgoing.push(message);
    if (stream.outgoing.length === 1) this.#queueOf(message).push(stream);
    this.#pump();
  }

  /** Forgets what is queued for a stream that ends early. */
  drop(stream: SendingStream): void {
    if (!hasQueued(stream)) return;
    const outgoing = stream.outgoing as Fifo<OutgoingMessage>;
    this.#queueOf(outgoing.peek() as OutgoingMessage).remove(stream);
    for (let message = outgoing.shift(); message; message = outgoing.shift()) {
      this.#count(message, -1);
    }
  }

  /** For the transport's `onRoom`. */
  onRoom(): void {
    this.#isFull = false;
    this.#isBulkFull = false;
    this.#pump();
    this.#onDrained();
  }

  /** The session ended: nothing here will ever be sent. */
  clear(): void {
    this.#control.clear();
    for (const queue of [this.#ready, this.#bulk]) {
      for (let stream = queue.shift(); stream; stream = queue.shift()) stream.outgoing?.clear();
    }
    this.#smallBytes = 0;
    this.#bulkBytes = 0;
  }

  #pump(): void {
    while (!this.#isFull) {
      const control = this.#control.peek();
      if (control !== undefined) {
        if (this.#transport.trySend(control.header, control.payload, false)) this.#control.shift();
        else this.#isFull = true;
        continue;
      }
      const queue = this.#nextQueue();
      if (queue === undefined) return;
      this.#sendNext(queue);
    }
  }

  /** Whose turn it is: the two take turns while both may send. */
  #nextQueue(): Fifo<SendingStream> | undefined {
    const mayBulk = this.#bulk.length > 0 && !this.#isBulkFull;
    if (this.#ready.length === 0) return mayBulk ? this.#bulk : undefined;
    this.#isBulkNext = mayBulk && !this.#isBulkNext;
    return this.#isBulkNext ? this.#bulk : this.#ready;
  }

  /** One frame of the stream at the head of a queue; then the next stream has its turn. */
  #sendNext(queue: Fifo<SendingStream>): void {
    const stream = queue.peek() as SendingStream;
    const outgoing = stream.outgoing as Fifo<OutgoingMessage>;
    const message = outgoing.peek() as OutgoingMessage;
    const { bytes, sentBytes } = message;
    const end = Math.min(sentBytes + this.#fragmentBytes, bytes.byteLength);
    const header = message.isBegun
      ? this.header.fragment(message.flags, stream.slot, stream.generation)
      : message.header;
    const isBulk = queue === this.#bulk;
    if (!this.#transport.trySend(header, bytes.subarray(sentBytes, end), isBulk)) {
      if (isBulk) this.#isBulkFull = true;
      else this.#isFull = true;
      return;
    }
    this.#noteSent(stream);
    this.#count(message, -1);
    message.isBegun = true;
    message.sentBytes = end;
    if (end === bytes.byteLength) outgoing.shift();
    else this.#count(message, 1);
    queue.shift();
    const following = outgoing.peek();
    if (following !== undefined) this.#queueOf(following).push(stream);
  }

  /** A message stays in its queue to its last piece. */
  #queueOf(message: OutgoingMessage): Fifo<SendingStream> {
    return this.isBulk(message.bytes.byteLength) ? this.#bulk : this.#ready;
  }

  #count(message: OutgoingMessage, sign: 1 | -1): void {
    const cost = sign * (message.bytes.byteLength - message.sentBytes + fixed.messageOverheadBytes);
    if (this.isBulk(message.bytes.byteLength)) this.#bulkBytes += cost;
    else this.#smallBytes += cost;
  }

  #noteSent(stream: SendingStream): void {
    stream.isWritten = true;
    stream.sentPosition = this.#transport.sentPosition;
  }
}

function hasQueued(stream: SendingStream): boolean {
  return stream.outgoing !== undefined && stream.outgoing.length > 0;
}

function join(prefix: Uint8Array, body: Uint8Array | string): Uint8Array {
  const bytes = typeof body === 'string' ? (body === '' ? nothing : Buffer.from(body)) : body;
  return prefix.byteLength === 0 ? bytes : Buffer.concat([prefix, bytes]);
}
