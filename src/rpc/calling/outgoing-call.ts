// SPDX-License-Identifier: MIT
// One call of ours, from the moment it was accepted to the moment it settles, exactly once.
import type { SidecallError } from '../../base/errors.ts';
import { quiet } from '../../base/quiet.ts';
import { CallKind, sendsMany } from '../../wire/frame-header.ts';
import { type CallOptions, timeoutOf } from '../contract/call-options.ts';
import type { Codec } from '../contract/codec.ts';
import { discard, type Message } from '../contract/encode-message.ts';
import { releaseValue } from '../contract/leases.ts';
import { armDeadline, cancelDeadline, deadlineAfter, type Timed } from '../deadline.ts';
import type { SendingStream, SendLine } from '../sending/send-queue.ts';
import type { ChannelHalves } from '../streams/channel-halves.ts';
import type { MessageAssembly } from '../streams/message-assembly.ts';
import type { ReadStream, StreamReader } from '../streams/stream-reader.ts';
import { ended, type StreamWriter } from '../streams/stream-writer.ts';
import { rejectAtCallSite } from './call-site.ts';

/** The owner of a call, told when the call gives up and when it has settled. */
export interface CallOwner {
  onCallDeadline(call: OutgoingCall): void;
  onCallSettled(call: OutgoingCall): void;
  /** The reader of its answers wants no more. */
  onReaderStopped(call: OutgoingCall, error: SidecallError | undefined): void;
}

/** The parts of a call. */
export interface CallRequest {
  readonly method: string;
  /** One of `CallKind`. */
  readonly kind: number;
  /** In memory of the codec's while the call goes out at once; of its own where it waits. */
  message: Message;
  readonly messageBytes: number;
  readonly metadata: Uint8Array;
  /** The codec of one answer; undefined where nobody waits for one. */
  readonly response: Codec<unknown> | undefined;
  readonly isBulk: boolean;
  /** The codec uses the body's memory again. */
  readonly isTransient: boolean;
  /** A notification that the handler of one of the peer's notifications sends. */
  readonly isReply: boolean;
  /** A method of the package's own services. */
  readonly isBuiltIn: boolean;
  readonly options: CallOptions;
}

export class OutgoingCall implements SendingStream, ReadStream, Timed {
  readonly request: CallRequest;
  readonly #owner: CallOwner;
  readonly promise: Promise<unknown>;
  #resolve!: (value: unknown) => void;
  #reject!: (reason: unknown) => void;
  readonly deadline: number | undefined;
  timer: NodeJS.Timeout | undefined;

  slot = -1;
  generation = 0;
  /** It was given a slot; true for good. */
  isStarted = false;
  /** It has its slot. */
  isOpen = false;
  isSettled = false;
  isWritten = false;
  readonly beginsAtOnce: boolean;
  sentPosition = 0;
  line: SendLine | undefined;
  queued = 0;
  readonly isBorrowed: boolean;
  readonly isAnswer = false;

  // The halves of a stream, or the channel that it is.
  reader: StreamReader | undefined;
  writer: StreamWriter | undefined;
  channel: ChannelHalves | undefined;
  /** Called when the peer has our end, or the call has settled. */
  onEndTaken: ((error: unknown) => void) | undefined;

  // The answer, as far as it came.
  assembly: MessageAssembly | undefined;
  /** Memory handed out for its first piece, which is about to arrive. */
  placed: MessageAssembly | undefined;
  answer: unknown;
  answerCharge = 0;
  hasAnswer = false;
  hasHeaders = false;
  /**
   * Bytes of the answer that are still to come, though nobody waits for it; undefined: it has not
   * begun.
   */
  lateBytes: number | undefined;

  constructor(request: CallRequest, owner: CallOwner, line: SendLine | undefined) {
    this.request = request;
    this.#owner = owner;
    this.line = line;
    this.beginsAtOnce = sendsMany(request.kind);
    // Memory of these may be reused once the message was admitted, before the call has settled.
    this.isBorrowed =
      request.isTransient || request.kind === CallKind.notification || sendsMany(request.kind);
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const timeoutMs = timeoutOf(request.options);
    if (timeoutMs !== undefined) {
      this.deadline = deadlineAfter(timeoutMs);
      armDeadline(this, this.deadline);
    }
  }

  get isBulk(): boolean {
    return this.request.isBulk;
  }

  resolve(value: unknown): void {
    this.#settle();
    this.answer = undefined;
    this.reader?.end();
    this.writer?.fail(ended(this.request.method, 'once the call was answered'));
    this.onEndTaken?.(undefined);
    this.#resolve(value);
  }

  /** Rejects while the caller makes the call: the stack of the reason shows where. */
  refuse(reason: unknown): void {
    quiet(this.promise);
    this.#fail(reason, true);
    this.#reject(reason);
  }

  /**
   * `now`: answers of a stream that were not taken yet are dropped; else the failure comes behind
   * them.
   */
  reject(reason: unknown, now = true): void {
    this.#fail(reason, now);
    const settlers = { resolve: this.#resolve, reject: this.#reject };
    rejectAtCallSite(this.promise, settlers, reason);
  }

  #fail(reason: unknown, now: boolean): void {
    this.#settle();
    discard(this.request.message);
    releaseValue(this.answer); // it waited for trailers
    this.answer = undefined;
    this.channel?.fail(reason, { now });
    this.reader?.fail(reason, { now });
    this.writer?.fail(reason);
    this.onEndTaken?.(reason);
  }

  onDeadline(): void {
    this.#owner.onCallDeadline(this);
  }

  onReaderStopped(error: SidecallError | undefined): void {
    this.#owner.onReaderStopped(this, error);
  }

  #settle(): void {
    this.isSettled = true;
    cancelDeadline(this);
    this.#owner.onCallSettled(this);
  }
}
