// SPDX-License-Identifier: MIT
// The sending half of a stream: a message is admitted when the stream's window, the session's and the send
// queue have room; until then it waits here, in order.

import type { Delivered } from '../../base/error-codes.ts';
import { SidecallError } from '../../base/errors.ts';
import { Fifo } from '../../base/fifo.ts';
import { rejected } from '../../base/quiet.ts';
import { tuning } from '../../base/tuning.ts';
import { wireLimits } from '../../base/wire-limits.ts';
import { FrameFlag } from '../../wire/frame-header.ts';
import { type Codec, keepWaiting } from '../contract/codec.ts';
import {
  type Body,
  bodyBytesOf,
  detachedError,
  discard,
  encodeBody,
  isDetached,
  queuedBytesOf,
} from '../contract/encode-message.ts';
import { Block, freeValue } from '../contract/leases.ts';
import { chargeOf, SendCredit, Window } from '../sending/credit.ts';
import type { SendingStream } from '../sending/send-queue.ts';
import type { Link } from '../sending/session-shared.ts';
import type { WaitingPlace, WaitReason } from '../stalls.ts';

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
  /** Where messages begin and end means nothing: a long one may leave in several. */
  readonly isDivisible?: boolean;
}

/** A message whose promise has not settled. */
class Waiting {
  body: Body;
  bodyBytes: number;
  /** It counts in its stream's window only. */
  isBeyond = false;
  /** A part of it was sent as a message of its own. */
  isBegun = false;
  /** The send queue calls it when the last piece has left. */
  onTaken: (() => void) | undefined;
  readonly promise: Promise<void>;
  resolve!: () => void;
  reject!: (reason: unknown) => void;

  constructor(body: Body, bodyBytes: number) {
    this.body = body;
    this.bodyBytes = bodyBytes;
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }
}

const nothing = new Uint8Array(0);
const admitted = Promise.resolve();
const ignore = (): void => undefined;

/** Where a message counts: in no window yet, in both, or only in its stream's. */
type Admittance = WaitReason | 'both' | 'stream-only';

export class StreamWriter implements WaitingPlace {
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
  // What was sent on this stream, and what of it was granted again, ever: a message beyond the window of all streams
  // may be sent once the one before was taken.
  #spent = 0;
  #granted = 0;
  #beyondUntil = 0;
  readonly #isDivisible: boolean;
  departed = 0;
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
    this.#isDivisible = parts.isDivisible === true;
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
    const admittance = this.#admittanceOf(first.body, first.bodyBytes);
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
    this.#credit.grant(bytes);
    this.#granted += bytes;
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
      if (this.#waiting.length > 0) return this.#wait(body, bodyBytes);
      const admittance = this.#admittanceOf(body, bodyBytes);
      if (admittance === 'both') return this.#admit(body, bodyBytes, false);
      if (admittance === 'stream-only') return this.#admit(body, bodyBytes, true);
      return this.#wait(body, bodyBytes);
    } catch (error) {
      freeValue(value);
      discard(body);
      return rejected(error);
    }
  }

  /**
   * Gives up a message whose promise has not settled: it rejects with `reasonOf(delivered)`. With 'no' nothing of it is sent;
   * with 'unknown' a part of it was, and the rest follows. False: it has left.
   */
  giveUp(promise: Promise<void>, reasonOf: (delivered: Delivered) => unknown): boolean {
    const waiting = this.#waiting.items().find((each) => each.promise === promise);
    if (waiting !== undefined) {
      this.#waiting.remove(waiting);
      this.departed += 1;
      this.#waitingBytes -= waiting.bodyBytes;
      refuse(waiting, reasonOf(waiting.isBegun ? 'unknown' : 'no'));
      this.resume();
      return true;
    }
    for (const leaving of this.#leaving) {
      if (leaving.promise === promise) return this.#giveUpLeaving(leaving, reasonOf);
    }
    return false;
  }

  #giveUpLeaving(leaving: Waiting, reasonOf: (delivered: Delivered) => unknown): boolean {
    const { schedule, sendCredit } = this.#link;
    const state = schedule.takeBack(this.#stream, leaving.onTaken as () => void);
    if (state === 'gone') return false;
    this.#leaving.delete(leaving);
    if (state === 'unseen') {
      const charge = chargeOf(leaving.bodyBytes);
      this.#credit.spend(-charge);
      this.#spent -= charge;
      if (leaving.isBeyond) this.#beyondUntil = 0;
      else (sendCredit[Window.streams] as SendCredit).spend(-charge);
    }
    refuse(leaving, reasonOf(state === 'unseen' ? 'no' : 'unknown'));
    this.resume();
    this.#link.resumeBlocked();
    return true;
  }

  /** What was not admitted yet is not sent. */
  dropWaiting(reason: unknown): void {
    for (let waiting = this.#waiting.shift(); waiting; waiting = this.#waiting.shift()) {
      this.departed += 1;
      refuse(waiting, reason);
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
    this.#link.blocked.remove(this);
    this.#link.waits.remove(this);
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
      const admittance = this.#admittanceOf(first.body, first.bodyBytes);
      if (admittance === 'session-window' && this.#sendPart(first)) continue;
      if (admittance !== 'both' && admittance !== 'stream-only') return this.#noteBlocked();
      this.#waiting.shift();
      this.departed += 1;
      this.#waitingBytes -= first.bodyBytes;
      this.#admitWaiting(first, admittance === 'stream-only');
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

  /** Where the message may count, or why it has to wait. */
  #admittanceOf(body: Body, bodyBytes: number): Admittance {
    const { schedule, sendCredit, own } = this.#link;
    const isBulk = this.#stream.isBulk || schedule.isBulk(queuedBytesOf(body, bodyBytes));
    if (!this.#isStarted || !this.#stream.isOpen) return 'slot';
    if (!this.#credit.hasCredit) return 'stream-window';
    if (!schedule.hasRoom(isBulk, own.sendQueueMaxBytes)) return 'send-queue';
    if ((sendCredit[Window.streams] as SendCredit).hasCredit) return 'both';
    return this.#mayGoBeyond(bodyBytes) ? 'stream-only' : 'session-window';
  }

  /** Whatever other streams do, each may have one short message under way. */
  #mayGoBeyond(bodyBytes: number): boolean {
    return bodyBytes <= wireLimits.beyondMaxBytes && this.#granted >= this.#beyondUntil;
  }

  /** Sends the beginning of what may leave in several messages. */
  #sendPart(waiting: Waiting): boolean {
    const { body } = waiting;
    if (!this.#isDivisible || !(body instanceof Uint8Array)) return false;
    if (!this.#mayGoBeyond(wireLimits.beyondMaxBytes) || isDetached(body, waiting.bodyBytes))
      return false;
    const part = body.slice(0, wireLimits.beyondMaxBytes);
    waiting.body = body.subarray(wireLimits.beyondMaxBytes);
    waiting.bodyBytes -= part.byteLength;
    waiting.isBegun = true;
    this.#waitingBytes -= part.byteLength;
    this.#give(part, part.byteLength, true, undefined);
    return true;
  }

  /** A short one is copied where it has to wait in the queue, a long one leaves before its promise resolves. */
  #admit(body: Body, bodyBytes: number, isBeyond: boolean): Promise<void> {
    if (this.#isCopied(body, bodyBytes)) {
      this.#give(body, bodyBytes, isBeyond, undefined);
      return admitted;
    }
    const waiting = new Waiting(body, bodyBytes);
    this.#admitWaiting(waiting, isBeyond);
    return waiting.promise;
  }

  #isCopied(body: Body, bodyBytes: number): boolean {
    if (typeof body === 'string' || body instanceof Block || this.#codec.reusesBytes === true)
      return true;
    return bodyBytes <= tuning.copiedSendMaxBytes;
  }

  #admitWaiting(waiting: Waiting, isBeyond: boolean): void {
    const { body, bodyBytes } = waiting;
    if (isDetached(body, bodyBytes)) return refuse(waiting, detachedError(this.#name));
    const isCopied = this.#isCopied(body, bodyBytes);
    const onTaken = (): void => {
      if (this.#leaving.delete(waiting)) waiting.resolve();
    };
    waiting.isBeyond = isBeyond;
    waiting.onTaken = onTaken;
    if (!isCopied) this.#leaving.add(waiting);
    const isGone = this.#give(body, bodyBytes, isBeyond, isCopied ? undefined : onTaken);
    if (isCopied) waiting.resolve();
    else if (isGone) onTaken();
  }

  #give(
    body: Body,
    bodyBytes: number,
    isBeyond: boolean,
    onTaken: (() => void) | undefined,
  ): boolean {
    const { schedule, sendCredit } = this.#link;
    const { slot, generation } = this.#stream;
    const charge = chargeOf(bodyBytes);
    this.admitted += 1;
    this.#credit.spend(charge);
    this.#spent += charge;
    if (isBeyond) this.#beyondUntil = this.#spent;
    else (sendCredit[Window.streams] as SendCredit).spend(charge);
    const flags = isBeyond ? this.#flags | FrameFlag.beyond : this.#flags;
    const header = schedule.header.message(flags, slot, generation, bodyBytes);
    return schedule.send(this.#stream, header, nothing, body, bodyBytes, onTaken);
  }

  #wait(body: Body, bodyBytes: number): Promise<void> {
    if (this.#waiting.length >= tuning.waitingSendsMax) {
      const words = `${this.#name}: ${tuning.waitingSendsMax} messages already wait on this stream; await send()`;
      throw new SidecallError('ERR_SIDECALL_LIMIT_BYTES', words);
    }
    const waiting = new Waiting(keepWaiting(this.#codec, body), bodyBytes);
    this.#waiting.push(waiting);
    this.#waitingBytes += bodyBytes;
    this.#link.waits.add(this);
    if (this.#isDivisible) this.resume();
    else this.#noteBlocked();
    return waiting.promise;
  }

  /** Who waits for its own window is woken by its own credit. */
  #noteBlocked(): void {
    if (this.#isStarted && this.#credit.hasCredit) this.#link.blocked.add(this);
  }
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
