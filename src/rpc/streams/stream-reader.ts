// SPDX-License-Identifier: MIT
// The receiving half of a stream: messages wait here as bytes, bounded by the stream's window,
// until the application takes them. The credit of a taken message returns to the sender.
import { SidecallError } from '../../base/errors.ts';
import { Fifo } from '../../base/fifo.ts';
import { ignore, rejected } from '../../base/ignore-errors.ts';
import { protocol } from '../../wire/frame-header.ts';
import type { ArrivedBlock } from '../../wire/transport.ts';
import { type Codec, decodeWith } from '../contract/codec.ts';
import { chargeOf, ReceiveCredit, Window } from '../sending/credit.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import { type Arrived, ArrivedQueue } from './arrived-queue.ts';
import { MessageAssembly } from './message-assembly.ts';
import type { ReaderParts, ReadStream } from './reader-parts.ts';

interface Waiter {
  promise: Promise<IteratorResult<unknown, undefined>>;
  resolve: (result: IteratorResult<unknown, undefined>) => void;
  reject: (reason: unknown) => void;
}

const done: IteratorResult<unknown, undefined> = Object.freeze({ done: true, value: undefined });

/**
 * One application reads it. `next()` before the last one settled is allowed, and answered in order.
 */
export class StreamReader implements AsyncIterableIterator<unknown, undefined> {
  readonly #shared: SessionShared;
  readonly #stream: ReadStream;
  readonly #name: string;
  /** The codec of messages that are taken from now on. */
  codec: Codec<unknown>;
  readonly #flags: number;
  readonly #credit: ReceiveCredit;
  readonly #arrived = new ArrivedQueue();
  readonly #waiters = new Fifo<Waiter>();
  latest: Waiter | undefined; // the last next() that had to wait
  #arrivedBytes = 0;
  /** Messages that the application took, ever. */
  taken = 0;
  // The message that arrives in pieces, and memory handed out for its first one.
  #assembly: MessageAssembly | undefined;
  #placed: MessageAssembly | undefined;
  // Charge of the message that arrives, until it is whole.
  #charge = 0;
  #isChargedBeyond = false;
  /** The message that was handed out last, in memory that its codec borrows. */
  #borrowed: MessageAssembly | undefined;
  // Bytes that the session is charged for what has arrived and was not taken.
  #held = 0;
  #isReleased = false;
  // A message beyond the window of all streams has begun and was not taken: there may be one.
  #hasBeyond = false;
  #isEnded = false;
  /** The application has stopped reading, and is not told what happens to the stream later. */
  #isStopped = false;
  /** Bytes still to come of a message that is dropped. */
  #skipping = 0;
  #failure: { readonly error: unknown } | undefined;

  constructor(parts: ReaderParts) {
    this.#shared = parts.shared;
    this.#stream = parts.stream;
    this.#name = parts.name;
    this.codec = parts.codec;
    this.#flags = parts.flags;
    this.#credit = new ReceiveCredit(parts.windowBytes, parts.windowBytes);
  }

  /** Bytes that have arrived and were not taken. */
  get queuedBytes(): number {
    return this.#arrivedBytes;
  }

  /** The peer's half has ended, well or not. Messages may still wait. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** A message is on its way in pieces. */
  get isMidMessage(): boolean {
    return this.#assembly !== undefined || this.#skipping > 0;
  }

  /** Place for a piece, the first one of a message included; undefined where something is wrong. */
  place(isFirst: boolean, messageBytes: number, bytes: number): Uint8Array | undefined {
    if (this.#isEnded || this.#isStopped) return undefined;
    if (!isFirst) return this.#assembly?.place(bytes);
    const mayHold = messageBytes <= this.#shared.own.receiveMaxBytes && bytes <= messageBytes;
    if (!mayHold || this.#assembly !== undefined) return undefined;
    const { transport } = this.#shared;
    this.#placed = MessageAssembly.arriving(transport, messageBytes, bytes, this.codec);
    return this.#placed.place(bytes);
  }

  /**
   * The first frame of a message; `session`: what the session was charged for it, 0 for one beyond
   * the window of all streams.
   * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL`.
   */
  begin(messageBytes: number, payload: Uint8Array, session: number, block?: ArrivedBlock): void {
    if (this.#isEnded) throw protocol('message behind the end of its stream');
    if (this.isMidMessage) throw protocol('message frame in the middle of another message');
    if (payload.length > messageBytes) throw protocol('message longer than announced');
    const charge = chargeOf(messageBytes);
    const isBeyond = session === 0;
    this.#credit.take(charge);
    if (isBeyond && this.#hasBeyond) throw protocol('second message beyond the window');
    if (this.#isStopped) {
      this.#skipping = block === undefined ? messageBytes - payload.length : 0;
      return this.#shared.releaseCredit(Window.streams, session);
    }
    if (isBeyond) this.#hasBeyond = true;
    this.#held += session;
    this.#charge = charge;
    this.#isChargedBeyond = isBeyond;
    const placed = this.#placed;
    this.#placed = undefined;
    if (block !== undefined) {
      const assembly = MessageAssembly.ofBlock(block, this.codec, this.#name);
      return this.#onWhole(assembly.bytes, assembly);
    }
    if (placed === undefined && payload.length === messageBytes) {
      return this.#onWhole(payload, undefined);
    }
    this.#assembly = placed ?? new MessageAssembly(messageBytes, this.codec);
    if (payload.length > 0) this.add(payload);
  }

  /** Adds a fragment of the message. @throws {SidecallError} `ERR_SIDECALL_PROTOCOL`. */
  add(payload: Uint8Array): void {
    const assembly = this.#assembly;
    if (this.#skipping > 0) {
      if (payload.length > this.#skipping) throw protocol('fragment that does not fit');
      this.#skipping -= payload.length;
      return;
    }
    if (assembly === undefined) throw protocol('fragment without a message');
    if (!assembly.add(payload)) return;
    this.#assembly = undefined;
    this.#onWhole(assembly.bytes, assembly);
  }

  /** Ends the iteration. Messages that have arrived are still handed out. */
  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    for (let waiter = this.#waiters.shift(); waiter; waiter = this.#waiters.shift()) {
      waiter.resolve(done);
    }
  }

  /**
   * As {@link StreamReader.end}, and behind what has arrived comes `error`; `now`: instead of it.
   */
  fail(error: unknown, how: { readonly now: boolean }): void {
    const isFirst = !this.#isStopped && this.#failure === undefined;
    if (!isFirst || (this.#isEnded && !how.now)) return;
    this.#isEnded = true;
    this.#releasePieces();
    this.#failure = { error };
    if (how.now) this.#releaseArrived();
    for (let waiter = this.#waiters.shift(); waiter; waiter = this.#waiters.shift()) {
      waiter.promise.catch(ignore); // a failure that is not awaited is not the end of the process
      waiter.reject(error);
    }
  }

  /**
   * The stream is over: what has arrived may still be taken, and the session is charged nothing for
   * it.
   */
  release(): void {
    this.#isReleased = true;
    const held = this.#held;
    this.#held = 0;
    if (held > 0) this.#shared.releaseCredit(Window.streams, held);
  }

  next(): Promise<IteratorResult<unknown, undefined>> {
    this.#returnBorrowed();
    const arrived = this.#arrived.shift();
    if (arrived !== undefined) return this.#take(arrived);
    if (this.#failure !== undefined) return rejected(this.#failure.error);
    if (this.#isEnded || this.#isStopped) return Promise.resolve(done);
    const waiter = {} as Waiter;
    waiter.promise = new Promise((resolve, reject) => {
      waiter.resolve = resolve;
      waiter.reject = reject;
    });
    this.#waiters.push(waiter);
    this.latest = waiter;
    return waiter.promise;
  }

  /** Forgets a `next()` that is not waited for any more. True: it had not been answered. */
  giveUp(waiter: Waiter): boolean {
    return this.#waiters.remove(waiter);
  }

  /** The application stops reading: `break` in a loop ends here. */
  return(): Promise<IteratorResult<unknown, undefined>> {
    this.cancel(undefined);
    return Promise.resolve(done);
  }

  /**
   * Stops reading without a frame: messages that have arrived are dropped, and so are later ones.
   */
  close(): void {
    if (this.#isStopped) return;
    this.#isStopped = true;
    this.#skipping = this.#assembly?.missingBytes ?? 0;
    this.#releasePieces();
    this.#releaseArrived();
    this.#borrowed = undefined; // not used again: a handler may leave its loop with it
    for (let waiter = this.#waiters.shift(); waiter; waiter = this.#waiters.shift()) {
      waiter.resolve(done);
    }
  }

  /** Ends reading, and tells the stream. Messages that were not taken are dropped. */
  cancel(error: SidecallError | undefined): void {
    const wasOver = this.#isEnded || this.#isStopped;
    if (this.#isStopped && error === undefined) return;
    this.close();
    if (!wasOver || error !== undefined) this.#stream.onReaderStopped(error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #onWhole(bytes: Uint8Array, whole: MessageAssembly | undefined): void {
    const assembly = whole ?? MessageAssembly.ofBorrowed(bytes, this.codec);
    const charge = this.#charge;
    const isBeyond = this.#isChargedBeyond;
    this.#charge = 0;
    this.#stream.counters.countReceived(bytes.length);
    this.#stream.trace?.countReceived(bytes.length);
    const waiter = this.#waiters.shift();
    if (waiter === undefined) {
      this.#arrived.push(assembly?.bytes ?? bytes, assembly, charge, isBeyond);
      this.#arrivedBytes += bytes.length;
      return;
    }
    try {
      const value = this.#decode(bytes, assembly, charge, isBeyond, false);
      waiter.resolve({ done: false, value });
    } catch (error) {
      waiter.promise.catch(ignore);
      waiter.reject(error);
      this.#stopAfter(error);
    }
  }

  #take(arrived: Arrived): Promise<IteratorResult<unknown, undefined>> {
    const { bytes, assembly, charge, isBeyond } = arrived;
    this.#arrivedBytes -= bytes.length;
    try {
      const value = this.#decode(bytes, assembly, charge, isBeyond, true);
      return Promise.resolve({ done: false, value });
    } catch (error) {
      this.#stopAfter(error);
      return rejected(error);
    }
  }

  /** Gives the bytes back; those of a message that is read where it lies, once it is released. */
  #decode(
    bytes: Uint8Array,
    assembly: MessageAssembly | undefined,
    charge: number,
    isBeyond: boolean,
    isOwned: boolean,
  ): unknown {
    this.#releaseSessionCredit(charge, isBeyond);
    const lent = assembly?.lent;
    lent?.whenReleased(() => this.#releaseCredit(charge, isBeyond));
    // A message that came before its method was served lies in memory of its own.
    const { jsonMaxBytes } = this.#shared.own;
    const isPlain = assembly === undefined || assembly.codec !== this.codec;
    const value = isPlain
      ? decodeWith(this.codec, bytes, isOwned || assembly !== undefined, jsonMaxBytes)
      : assembly.decode(jsonMaxBytes);
    // Where several are asked for at once, those before are not used again: they may still be read.
    if (this.codec.borrowsBytes === true) this.#borrowed = assembly;
    this.taken += 1;
    this.#shared.counters.countTaken(bytes.length, value);
    if (lent === undefined) this.#releaseCredit(charge, isBeyond);
    return value;
  }

  /** The message that was handed out last is not valid any more. */
  #returnBorrowed(): void {
    this.#borrowed?.release();
    this.#borrowed = undefined;
  }

  #stopAfter(error: unknown): void {
    this.cancel(SidecallError.from(error));
    this.#failure ??= { error };
  }

  /**
   * The application has done with a message. Where the peer's half is over it needs no stream
   * credit.
   */
  #releaseCredit(charge: number, isBeyond: boolean): void {
    const stream = this.#stream;
    let batch = this.#credit.release(charge);
    // The sender of a message beyond the window of all streams waits for this one to be taken.
    if (isBeyond) {
      this.#hasBeyond = false;
      if (batch === 0) batch = this.#credit.flush();
    }
    if (batch > 0 && stream.isOpen && !this.#isEnded && !this.#isStopped) {
      const { sendQueue } = this.#shared;
      const { slot, generation } = stream;
      sendQueue.sendControl(sendQueue.header.credit(this.#flags, slot, generation, batch));
    }
  }

  #releasePieces(): void {
    this.#placed = undefined;
    this.#releaseSessionCredit(this.#charge, this.#isChargedBeyond);
    this.#charge = 0;
    this.#assembly = undefined;
  }

  #releaseArrived(): void {
    for (let arrived = this.#arrived.shift(); arrived; arrived = this.#arrived.shift()) {
      arrived.assembly?.release();
      this.#releaseSessionCredit(arrived.charge, arrived.isBeyond);
    }
    this.#arrivedBytes = 0;
  }

  /**
   * The window of all streams has its part of a message back, unless the end of the stream gave it
   * back before.
   */
  #releaseSessionCredit(charge: number, isBeyond: boolean): void {
    if (isBeyond || charge === 0 || this.#isReleased) return;
    this.#held -= charge;
    this.#shared.releaseCredit(Window.streams, charge);
  }
}
