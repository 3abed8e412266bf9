// SPDX-License-Identifier: MIT
// The sending half of a stream: a message is admitted when the stream's window, the session's and the send
// queue have room; until then it waits here, in order.
import { SidecallError } from '../errors.ts';
import { Fifo } from '../fifo.ts';
import { FrameFlag } from '../frame.ts';
import { fixed } from '../limits.ts';
import { type Codec, keepWaiting } from './codec.ts';
import { chargeOf, SendCredit, Window } from './credit.ts';
import {
  Block,
  type Body,
  bodyBytesOf,
  detachedError,
  discard,
  encodeBody,
  freeValue,
  isDetached,
  queuedBytesOf,
} from './lease.ts';
import type { Link } from './link.ts';
import type { SendingStream } from './schedule.ts';

/** What a writer is made of. */
export interface WriterParts {
  readonly link: Link;
  readonly stream: SendingStream & { readonly isOpen: boolean };
  readonly codec: Codec<unknown>;
  /** Wire name of the method or channel, for errors. */
  readonly name: string;
  /** Flag `fromOpener` where we opened the stream. */
  readonly flags: number;
  /** What the peer lets us send before it grants more. */
  readonly windowBytes: number;
}

interface Waiting {
  readonly body: Body;
  readonly bodyBytes: number;
  readonly promise: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
}

const nothing = new Uint8Array(0);
const admitted = Promise.resolve();
const ignore = (): void => undefined;

export class StreamWriter {
  readonly #link: Link;
  readonly #stream: WriterParts['stream'];
  readonly #codec: Codec<unknown>;
  readonly #name: string;
  readonly #flags: number;
  readonly #credit: SendCredit;
  readonly #waiting = new Fifo<Waiting>();
  // Admitted, and still referenced by the send queue: long messages are not copied.
  readonly #leaving = new Set<Waiting>();
  #waitingBytes = 0;
  /** Messages that were admitted, ever. */
  admitted = 0;
  #isStarted = false;
  #isEnding = false;
  #onEnded: (() => void) | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(parts: WriterParts) {
    this.#link = parts.link;
    this.#stream = parts.stream;
    this.#codec = parts.codec;
    this.#name = parts.name;
    this.#flags = parts.flags | FrameFlag.streamed;
    this.#credit = new SendCredit(parts.windowBytes);
  }

  /** Bytes that wait to be admitted. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Messages that wait to be admitted, or to leave. */
  get waiting(): number {
    return this.#waiting.length + this.#leaving.size;
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
    this.#credit.grant(bytes);
    this.resume();
  }

  /**
   * Resolves when the message was admitted. Up to then its bytes must not change. Rejects, never throws; a
   * rejection that nobody awaits is dropped.
   */
  send(value: unknown): Promise<void> {
    let body: Body | undefined;
    try {
      if (this.#failure !== undefined) throw this.#failure.error;
      if (this.#isEnding) throw ended(this.#name, 'after end()');
      body = encodeBody(this.#link, this.#codec, value);
      const bodyBytes = bodyBytesOf(body);
      this.#checkLength(bodyBytes);
      if (this.#waiting.length === 0 && this.#canSend(body, bodyBytes))
        return this.#admit(body, bodyBytes);
      return this.#wait(body, bodyBytes);
    } catch (error) {
      freeValue(value);
      discard(body);
      const refused = Promise.reject(error);
      refused.catch(ignore);
      return refused;
    }
  }

  /** Takes back a message that was not admitted yet. True: it will not be sent. */
  takeBack(promise: Promise<void>, reason: unknown): boolean {
    let found: Waiting | undefined;
    this.#waiting.removeWhere((waiting) => {
      if (waiting.promise !== promise) return false;
      found = waiting;
      return true;
    });
    if (found === undefined) return false;
    this.#waitingBytes -= found.bodyBytes;
    refuse(found, reason);
    this.resume();
    return true;
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
    this.#link.blocked.remove(this);
    for (let waiting = this.#waiting.shift(); waiting; waiting = this.#waiting.shift()) {
      refuse(waiting, error);
    }
    for (const waiting of this.#leaving) refuse(waiting, error);
    this.#leaving.clear();
    this.#waitingBytes = 0;
  }

  /** Sends what may go. */
  resume(): void {
    if (this.#failure !== undefined) return;
    for (;;) {
      const first = this.#waiting.peek();
      if (first === undefined) break;
      if (!this.#canSend(first.body, first.bodyBytes)) return this.#noteBlocked();
      this.#waiting.shift();
      this.#waitingBytes -= first.bodyBytes;
      this.#admitWaiting(first);
    }
    if (this.#onEnded === undefined || !this.#isStarted) return;
    const onEnded = this.#onEnded;
    this.#onEnded = undefined;
    onEnded();
  }

  #checkLength(bodyBytes: number): void {
    const { receiveMaxBytes } = this.#link.remote;
    if (bodyBytes <= receiveMaxBytes) return;
    const words = `${this.#name}: message of ${bodyBytes} bytes exceeds the peer's receiveMaxBytes ${receiveMaxBytes}; raise limits.receiveMaxBytes there`;
    throw new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', words);
  }

  #canSend(body: Body, bodyBytes: number): boolean {
    const { schedule, sendCredit, own } = this.#link;
    const isBulk = this.#stream.isBulk || schedule.isBulk(queuedBytesOf(body, bodyBytes));
    return (
      this.#isStarted &&
      this.#stream.isOpen &&
      this.#credit.hasCredit &&
      (sendCredit[Window.streams] as SendCredit).hasCredit &&
      schedule.hasRoom(isBulk, own.sendQueueMaxBytes)
    );
  }

  /** A short one is copied where it has to wait in the queue, a long one leaves before its promise resolves. */
  #admit(body: Body, bodyBytes: number): Promise<void> {
    if (this.#isCopied(body, bodyBytes)) {
      this.#give(body, bodyBytes, undefined);
      return admitted;
    }
    const waiting = makeWaiting(body, bodyBytes);
    this.#admitWaiting(waiting);
    return waiting.promise;
  }

  #isCopied(body: Body, bodyBytes: number): boolean {
    if (typeof body === 'string' || body instanceof Block || this.#codec.reusesBytes === true)
      return true;
    return bodyBytes <= fixed.copiedSendMaxBytes;
  }

  #admitWaiting(waiting: Waiting): void {
    const { body, bodyBytes } = waiting;
    if (isDetached(body, bodyBytes)) return refuse(waiting, detachedError(this.#name));
    const isCopied = this.#isCopied(body, bodyBytes);
    const onTaken = (): void => {
      if (this.#leaving.delete(waiting)) waiting.resolve();
    };
    if (!isCopied) this.#leaving.add(waiting);
    const isGone = this.#give(body, bodyBytes, isCopied ? undefined : onTaken);
    if (isCopied) waiting.resolve();
    else if (isGone) onTaken();
  }

  #give(body: Body, bodyBytes: number, onTaken: (() => void) | undefined): boolean {
    const { schedule, sendCredit } = this.#link;
    const { slot, generation } = this.#stream;
    const charge = chargeOf(bodyBytes);
    this.admitted += 1;
    this.#credit.spend(charge);
    (sendCredit[Window.streams] as SendCredit).spend(charge);
    const header = schedule.header.message(this.#flags, slot, generation, bodyBytes);
    return schedule.send(this.#stream, header, nothing, body, bodyBytes, onTaken);
  }

  #wait(body: Body, bodyBytes: number): Promise<void> {
    if (this.#waiting.length >= fixed.waitingSendsMax) {
      const words = `${this.#name}: ${fixed.waitingSendsMax} messages already wait on this stream; await send()`;
      throw new SidecallError('ERR_SIDECALL_LIMIT_BYTES', words);
    }
    const waiting = makeWaiting(keepWaiting(this.#codec, body), bodyBytes);
    this.#waiting.push(waiting);
    this.#waitingBytes += bodyBytes;
    this.#noteBlocked();
    return waiting.promise;
  }

  /** Who waits for its own window is woken by its own credit. */
  #noteBlocked(): void {
    if (this.#isStarted && this.#credit.hasCredit) this.#link.blocked.add(this);
  }
}

function makeWaiting(body: Body, bodyBytes: number): Waiting {
  const waiting = { body, bodyBytes } as { -readonly [Key in keyof Waiting]: Waiting[Key] };
  waiting.promise = new Promise((resolve, reject) => {
    waiting.resolve = resolve;
    waiting.reject = reject;
  });
  return waiting;
}

function refuse({ body, promise, reject }: Waiting, error: unknown): void {
  discard(body);
  promise.catch(ignore);
  reject(error);
}

/** Sending where nothing can be sent any more. */
export function ended(name: string, when: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_END_OF_STREAM', `${name}: nothing can be sent ${when}`);
}
