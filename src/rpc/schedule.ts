// SPDX-License-Identifier: MIT
// Which frame goes next: control first, then streams in turn, a fragment each. The only send queue.
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
  readonly #ready = new Fifo<SendingStream>();
  #queuedBytes = 0;
  #isFull = false;

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
    return this.#queuedBytes;
  }

  /** Frames and streams that wait: a peer that never reads makes it grow. */
  get queuedCount(): number {
    return this.#control.length + this.#ready.length;
  }

  get isEmpty(): boolean {
    return this.#control.length === 0 && this.#ready.length === 0;
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
    if (isWhole && this.isEmpty && !this.#isFull) {
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
    this.#queuedBytes += queuedCost(message);
    stream.outgoing ??= new Fifo();
    stream.outgoing.push(message);
    if (stream.outgoing.length === 1) this.#ready.push(stream);
    if (!this.#isFull) this.#pump();
  }

  /** Forgets what is queued for a stream that ends early. */
  drop(stream: SendingStream): void {
    if (stream.outgoing === undefined || stream.outgoing.length === 0) return;
    for (let message = stream.outgoing.shift(); message; message = stream.outgoing.shift()) {
      this.#queuedBytes -= queuedCost(message);
    }
    this.#ready.remove(stream);
  }

  /** For the transport's `onRoom`. */
  onRoom(): void {
    this.#isFull = false;
    this.#pump();
    this.#onDrained();
  }

  /** The session ended: nothing here will ever be sent. */
  clear(): void {
    this.#control.clear();
    for (let stream = this.#ready.shift(); stream; stream = this.#ready.shift()) {
      stream.outgoing?.clear();
    }
    this.#queuedBytes = 0;
  }

  #pump(): void {
    while (!this.#isFull) {
      const control = this.#control.peek();
      if (control !== undefined) {
        if (this.#transport.trySend(control.header, control.payload, false)) this.#control.shift();
        else this.#isFull = true;
        continue;
      }
      const stream = this.#ready.peek();
      if (stream === undefined) return;
      this.#sendNext(stream, (stream.outgoing as Fifo<OutgoingMessage>).peek() as OutgoingMessage);
    }
  }

  /** One frame of the stream whose turn it is; then the next stream has its turn. */
  #sendNext(stream: SendingStream, message: OutgoingMessage): void {
    const { bytes, sentBytes } = message;
    const end = Math.min(sentBytes + this.#fragmentBytes, bytes.byteLength);
    const header = message.isBegun
      ? this.header.fragment(message.flags, stream.slot, stream.generation)
      : message.header;
    const isBulk = bytes.byteLength > this.#fragmentBytes;
    if (!this.#transport.trySend(header, bytes.subarray(sentBytes, end), isBulk)) {
      this.#isFull = true;
      return;
    }
    this.#noteSent(stream);
    this.#queuedBytes -= queuedCost(message);
    message.isBegun = true;
    message.sentBytes = end;
    if (end === bytes.byteLength) (stream.outgoing as Fifo<OutgoingMessage>).shift();
    else this.#queuedBytes += queuedCost(message);
    this.#ready.shift();
    if ((stream.outgoing as Fifo<OutgoingMessage>).length > 0) this.#ready.push(stream);
  }

  #noteSent(stream: SendingStream): void {
    stream.isWritten = true;
    stream.sentPosition = this.#transport.sentPosition;
  }
}

function queuedCost(message: OutgoingMessage): number {
  return message.bytes.byteLength - message.sentBytes + fixed.messageOverheadBytes;
}

function join(prefix: Uint8Array, body: Uint8Array | string): Uint8Array {
  const bytes = typeof body === 'string' ? (body === '' ? nothing : Buffer.from(body)) : body;
  return prefix.byteLength === 0 ? bytes : Buffer.concat([prefix, bytes]);
}
