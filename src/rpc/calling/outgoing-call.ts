// SPDX-License-Identifier: MIT
// One call of ours, from the moment it was accepted to the moment it settles, exactly once.
import { SidecallError } from '../../base/errors.ts';
import { emitEvent } from '../../base/events.ts';
import { noBytes, quiet } from '../../base/ignore-errors.ts';
import { keep, kept, type Settle } from '../../base/settlers.ts';
import type { WaitReason } from '../../base/wait-reasons.ts';
import {
  CallKind,
  FrameFlag,
  type Header,
  ResetReason,
  sendsMany,
} from '../../wire/frame-header.ts';
import { type OutgoingState, outgoingMoved } from '../call-states.ts';
import { type CallOptions, noOptions, timeoutOf } from '../contract/call-options.ts';
import type { Codec } from '../contract/codec.ts';
import type { Message } from '../contract/encode-message.ts';
import { releaseLeaseIn } from '../contract/leases.ts';
import type { CallTrace } from '../counting/call-trace.ts';
import type { MethodCounters } from '../counting/method-counters.ts';
import { neverBegun } from '../counting/moments.ts';
import {
  armDeadline,
  cancelDeadline,
  deadlineAfter,
  type SharedTimer,
  type Timed,
} from '../deadline.ts';
import { chargeOf, type SendCredit, Window } from '../sending/credit.ts';
import { refuseMessage, resetReasonFor, sendHalfEnd } from '../sending/end-frames.ts';
import type { SendFifo, SendingStream } from '../sending/outgoing-messages.ts';
import { type RareParts, withParts } from '../streams/call-parts.ts';
import type { ChannelHalves, ChannelStream } from '../streams/channel-halves.ts';
import type { MessageAssembly } from '../streams/message-assembly.ts';
import type { ReadStream } from '../streams/reader-parts.ts';
import type { StreamReader } from '../streams/stream-reader.ts';
import { ended, type StreamWriter } from '../streams/stream-writer.ts';
import type { Abortable } from './abort-signals.ts';
import { countFailure, countSuccess } from './call-counts.ts';
import { dropRequest, late, repliesStuck } from './call-request.ts';
import { rejectAtCallSite } from './call-site.ts';
import { done, type MethodCall, type Step, type StreamCall } from './call-target.ts';
import { isLastFrame, releaseAnswer } from './late-frames.ts';
import type { OpenCalls } from './open-calls.ts';

/** The queue in which a call waits to be sent. */
interface QueuePlace {
  readonly waitReason: WaitReason;
  remove(call: OutgoingCall): void;
}

export class OutgoingCall
  implements SendingStream, ReadStream, ChannelStream, StreamCall, Abortable, Timed
{
  /** Parts that few calls have; undefined: it has none of them. */
  declare rare: RareParts<QueuePlace> | undefined;
  declare readonly parts: RareParts<QueuePlace>;
  declare timer: SharedTimer | undefined;
  declare trace: CallTrace | undefined;
  declare place: QueuePlace | undefined;
  declare queued: number;
  declare reader: StreamReader | undefined;
  declare writer: StreamWriter | undefined;
  declare channel: ChannelHalves | undefined;
  declare assembly: MessageAssembly | undefined;
  declare hasHeaders: boolean;

  static {
    withParts(OutgoingCall.prototype);
  }

  // The constructor sets all fields: definitions of fields are a function of their own.
  declare readonly callable: MethodCall;
  /**
   * The encoded message: in memory of the codec while the call is sent at once, in its
   * own memory where it waits.
   */
  declare message: Message;
  declare readonly messageBytes: number;
  declare readonly calls: OpenCalls<OutgoingCall>;
  declare readonly promise: Promise<unknown>;
  declare private readonly resolvePromise: Settle;
  declare private readonly rejectPromise: Settle;
  declare readonly counters: MethodCounters;
  /** The instant at which it was sent, or began to wait. */
  declare begun: number;
  declare slot: number;
  declare generation: number;
  declare state: OutgoingState;
  /** Its promise has settled: that of a notification when it is sent, or waits as a reply. */
  declare isSettled: boolean;
  declare isWritten: boolean;
  declare sentPosition: number;
  /** The answer has arrived, or has begun to. */
  declare hasAnswer: boolean;

  constructor(
    calls: OpenCalls<OutgoingCall>,
    callable: MethodCall,
    message: Message,
    messageBytes: number,
  ) {
    this.rare = undefined;
    this.calls = calls;
    this.callable = callable;
    this.message = message;
    this.messageBytes = messageBytes;
    this.begun = neverBegun;
    this.slot = -1;
    this.generation = 0;
    this.state = 'waiting';
    this.isSettled = false;
    this.isWritten = false;
    this.sentPosition = 0;
    this.hasAnswer = false;
    this.counters = calls.shared.counters.called.of(callable.name, callable.kind);
    this.counters.started += 1;
    this.promise = new Promise(keep);
    this.resolvePromise = kept.resolve as Settle;
    this.rejectPromise = kept.reject as Settle;
    kept.resolve = undefined; // it holds the promise, which holds its result
    kept.reject = undefined;
  }

  /** Gives the call what few calls have. */
  setOptions(options: CallOptions, metadata: Uint8Array): void {
    const { parts, calls } = this;
    parts.options = options;
    parts.metadata = metadata;
    const timeoutMs = timeoutOf(options);
    if (timeoutMs !== undefined) {
      const { clock } = calls.shared;
      parts.deadline = deadlineAfter(clock, timeoutMs);
      armDeadline(clock, this, parts.deadline);
    }
    if (options.signal !== undefined) calls.aborts.add(options.signal, this);
  }

  get options(): CallOptions {
    return this.rare?.options ?? noOptions;
  }

  get metadata(): Uint8Array {
    return this.rare?.metadata ?? noBytes;
  }

  get method(): string {
    return this.callable.name;
  }

  /** The kind, a value of `CallKind`. */
  get kind(): number {
    return this.callable.kind;
  }

  /** The codec of one answer; undefined where there is none. */
  get response(): Codec<unknown> | undefined {
    return this.callable.response;
  }

  get isBulk(): boolean {
    return this.callable.isBulk;
  }

  /** A method of the package's own services. */
  get isBuiltIn(): boolean {
    return this.callable.isBuiltIn === true;
  }

  /** The codec uses the memory of the message again. */
  get isTransient(): boolean {
    return this.callable.request.reusesBytes === true;
  }

  /** Where no handler has seen it, its target makes it again on another session. */
  get isMovable(): boolean {
    return this.callable.isMovable === true && !this.isTransient;
  }

  /** A notification that the handler of one of the peer's notifications sends. */
  get isReply(): boolean {
    return this.rare?.isReply === true;
  }

  get isAnswer(): false {
    return false;
  }

  get beginsAtOnce(): boolean {
    return sendsMany(this.kind);
  }

  /** Memory of these may be reused once the message was admitted, before the call has settled. */
  get isBorrowed(): boolean {
    const { kind, isTransient } = this;
    return isTransient || kind === CallKind.notification || sendsMany(kind);
  }

  get line(): SendFifo | undefined {
    const isNotification = this.kind === CallKind.notification;
    return isNotification ? this.calls.notifications : this.rare?.line;
  }

  set line(line: SendFifo | undefined) {
    this.parts.line = line;
  }

  get deadline(): number | undefined {
    return this.rare?.deadline;
  }

  get placed(): MessageAssembly | undefined {
    return this.rare?.placed;
  }

  set placed(placed: MessageAssembly | undefined) {
    if (placed !== this.placed) this.parts.placed = placed;
  }

  get answer(): unknown {
    return this.rare?.answer;
  }

  set answer(answer: unknown) {
    if (answer !== this.answer) this.parts.answer = answer;
  }

  get answerCharge(): number {
    return this.rare === undefined ? 0 : this.rare.answerCharge;
  }

  set answerCharge(charge: number) {
    if (charge !== this.answerCharge) this.parts.answerCharge = charge;
  }

  get lateBytes(): number | undefined {
    return this.rare?.lateBytes;
  }

  set lateBytes(bytes: number | undefined) {
    this.parts.lateBytes = bytes;
  }

  /** It has its slot, and its frames count. */
  get isOpen(): boolean {
    return this.state === 'open';
  }

  /** The window that its request counts in. */
  get credit(): SendCredit {
    const isNotification = this.kind === CallKind.notification;
    const window = isNotification ? Window.notifications : Window.requests;
    return this.calls.shared.sendCredit[window] as SendCredit;
  }

  /** Why the first call of its queue was not sent; undefined: it does not wait. */
  get waitReason(): WaitReason | undefined {
    return this.place?.waitReason;
  }

  /** Bytes of its streams that wait: those to be taken, and those to be admitted. */
  get queuedBytes(): number {
    return (this.reader?.queuedBytes ?? 0) + (this.writer?.waitingBytes ?? 0);
  }

  /** It was given its slot. */
  onSlot(): void {
    if (this.state !== 'waiting') outgoingMoved(this.state, 'open');
    this.state = 'open';
    this.calls.begun += 1;
  }

  next(): Promise<Step> {
    return this.reader?.next() ?? Promise.resolve(done);
  }

  cancelReading(): void {
    this.reader?.cancel(undefined);
  }

  send(value: unknown): Promise<void> {
    return this.writer?.send(value) ?? Promise.resolve();
  }

  /** Resolves when the peer has all of our half, or the call has ended well. */
  end(): Promise<void> {
    this.parts.ending ??= this.#endHalf();
    return this.parts.ending;
  }

  cancel(reason: unknown): void {
    this.cancelAs(reason, ResetReason.cancelled);
  }

  resolve(value: unknown): void {
    this.#settle();
    countSuccess(this.calls.shared, this);
    this.answer = undefined;
    this.reader?.end();
    this.writer?.fail(ended(this.method, 'once the call was answered'));
    this.rare?.onEndTaken?.(undefined);
    this.resolvePromise(value);
  }

  /** True: it waits for one answer, and has nothing that few calls have. */
  get isPlain(): boolean {
    const hasRequest = this.state === 'open' && !this.hasAnswer && this.isWritten;
    return hasRequest && this.rare === undefined && this.callable.response !== undefined;
  }

  /** The answer of a plain call: as {@link OutgoingCall.close} and {@link OutgoingCall.resolve}. */
  onAnswered(answer: unknown): void {
    const { calls, counters, begun } = this;
    this.hasAnswer = true;
    this.state = 'over'; // it was open
    calls.streams.remove(this, true, 'peer');
    this.isSettled = true;
    calls.shared.moments.end(counters, begun);
    this.resolvePromise(answer);
  }

  /** Rejects while the caller makes the call: the stack of the reason shows where. */
  refuse(reason: unknown): void {
    quiet(this.promise);
    this.#settleFailed(reason, true);
    this.rejectPromise(reason);
  }

  /** `now`: answers of a stream that were not taken are dropped; else the failure comes behind. */
  reject(reason: unknown, now = true): void {
    this.#settleFailed(reason, now);
    const settlers = { resolve: this.resolvePromise, reject: this.rejectPromise };
    rejectAtCallSite(this.promise, settlers, reason);
  }

  /** Rejects; of a notification whose promise has resolved, tells `onEvent`. */
  fail(error: SidecallError): void {
    if (!this.isSettled) return this.reject(error, false);
    const { peer, onEvent } = this.calls.shared;
    emitEvent(onEvent, { type: 'notification-failed', error, peer, method: this.method });
  }

  /** Frees the slot; `by` sent the last frame. The function that calls this one settles it. */
  close(by: 'peer' | 'us'): void {
    // User code runs between this and the settling of a call, and may abort it: the
    // second close does nothing.
    if (!this.isOpen) return;
    this.#release('over');
    if (!this.isWritten) this.#releaseCharge();
    this.calls.streams.remove(this, this.isWritten, by);
  }

  /**
   * Gives up the call for its caller: it rejects, and the peer gets a reset if
   * any of the call was sent.
   */
  cancelAs(reason: unknown, wireReason: number): void {
    if (this.isSettled) return;
    this.reject(reason);
    if (!this.isOpen) return; // never begun, or the peer has ended it this very moment
    const { shared, givenUp } = this.calls;
    if (this.isWritten) {
      this.#sendReset(wireReason);
      if (this.hasAnswer) this.lateBytes = this.assembly?.missingBytes;
      this.#release('given-up');
      givenUp.waiting += 1;
      shared.waits.add(givenUp);
    } else {
      this.close('us');
    }
    shared.onProgress();
  }

  /** A frame of a call that was given up: the peer's last one frees the slot. */
  onLate(header: Header, payloadBytes: number): void {
    if (!isLastFrame(this, header, payloadBytes)) return;
    const { givenUp, streams, shared } = this.calls;
    givenUp.waiting -= 1;
    givenUp.departed.add();
    this.#moveTo('over');
    releaseAnswer(shared, this);
    // Both ends of a channel may give it up at once, so one more frame of it is allowed.
    streams.remove(this, true, this.channel === undefined ? 'peer' : 'us');
    shared.onProgress();
  }

  /** The peer has all of our half. */
  onEndTaken(): void {
    this.rare?.onEndTaken?.(undefined);
    this.parts.onEndTaken = undefined;
  }

  onAborted(reason: unknown): void {
    this.cancelAs(reason, ResetReason.cancelled);
  }

  onDetached({ code, message }: SidecallError): void {
    const delivered = this.beginsAtOnce ? 'unknown' : 'no';
    const text = `${this.method}: ${message}`;
    this.cancelAs(new SidecallError(code, text, { delivered }), ResetReason.cancelled);
  }

  onDeadline(): void {
    const { deadline, isWritten } = this;
    const error = deadline === undefined ? repliesStuck(this) : late(this, isWritten);
    this.cancelAs(error, ResetReason.deadlineExceeded);
  }

  /** Both halves of a channel ended well. */
  onChannelOver(): void {
    // The peer may not know yet that its end was answered, and give the channel up.
    this.close('us');
    if (!this.isSettled) this.resolve(undefined);
    this.calls.shared.onProgress();
  }

  /** Our side gives the channel up. */
  onChannelAborted(error: unknown): void {
    this.cancelAs(error, resetReasonFor(error));
  }

  /** The reader of its answers wants no more. */
  onReaderStopped(error: SidecallError | undefined): void {
    if (this.channel === undefined || error === undefined || !this.isOpen) {
      const reason = error ?? new SidecallError('ERR_SIDECALL_CANCELLED');
      return this.cancelAs(reason, ResetReason.cancelled);
    }
    const { shared } = this.calls;
    this.reject(error);
    refuseMessage(shared, this, FrameFlag.fromOpener);
    this.close('us');
    shared.onProgress();
  }

  #endHalf(): Promise<void> {
    if (this.isSettled) return quiet(this.promise.then(() => undefined));
    const taken = new Promise<void>((resolve, reject) => {
      this.parts.onEndTaken = (error) => (error === undefined ? resolve() : reject(error));
    });
    quiet(taken);
    this.writer?.end(() => sendHalfEnd(this.calls.shared, this, FrameFlag.fromOpener));
    return taken;
  }

  #settleFailed(reason: unknown, now: boolean): void {
    this.#settle();
    countFailure(this.calls.shared, this, reason);
    this.#removeFromQueue();
    dropRequest(this, reason);
    releaseLeaseIn(this.answer); // it waited for trailers
    this.answer = undefined;
    this.channel?.fail(reason, { now });
    this.reader?.fail(reason, { now });
    this.writer?.fail(reason);
    this.rare?.onEndTaken?.(reason);
  }

  #settle(): void {
    this.isSettled = true;
    cancelDeadline(this);
    const { signal } = this.options;
    if (signal !== undefined) this.calls.aborts.remove(signal, this);
  }

  /** A call that fails before it was sent is over. */
  #removeFromQueue(): void {
    if (this.state !== 'waiting') return;
    this.#moveTo('over');
    this.place?.remove(this);
  }

  /** From here on the call sends and takes nothing. */
  #release(state: 'given-up' | 'over'): void {
    const { shared } = this.calls;
    this.#moveTo(state);
    shared.removeQueued(this);
    if (state === 'over') releaseAnswer(shared, this);
    this.assembly = undefined;
    this.reader?.release();
  }

  #moveTo(state: OutgoingState): void {
    this.state = outgoingMoved(this.state, state);
  }

  #releaseCharge(): void {
    if (this.slot >= this.calls.shared.remote.streamsMax) return; // an extra slot: it had none
    this.credit.spend(-chargeOf(this.messageBytes));
  }

  #sendReset(reason: number): void {
    const { sendQueue } = this.calls.shared;
    const flags = FrameFlag.fromOpener;
    const header = sendQueue.header.reset(flags, this.slot, this.generation, reason);
    sendQueue.sendControl(header, undefined, true);
  }
}
