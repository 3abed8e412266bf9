// SPDX-License-Identifier: MIT
// One call of ours, from the moment it was accepted to the moment it settles, exactly once.
import { SidecallError } from '../../base/errors.ts';
import { emitEvent } from '../../base/events.ts';
import { quiet } from '../../base/ignore-errors.ts';
import { keep, type Settle, takeReject, takeResolve } from '../../base/settlers.ts';
import type { WaitReason } from '../../base/wait-reasons.ts';
import {
  CallKind,
  FrameFlag,
  type Header,
  ResetReason,
  sendsMany,
} from '../../wire/frame-header.ts';
import { type OutgoingState, outgoingMoved } from '../call-states.ts';
import { timeoutOf } from '../contract/call-options.ts';
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
import type { ChannelHalves, ChannelStream } from '../streams/channel-halves.ts';
import type { MessageAssembly } from '../streams/message-assembly.ts';
import type { ReadStream } from '../streams/reader-parts.ts';
import type { StreamReader } from '../streams/stream-reader.ts';
import { ended, type StreamWriter } from '../streams/stream-writer.ts';
import type { Abortable } from './abort-signals.ts';
import { countFailure, countSuccess } from './call-counts.ts';
import { type CallRequest, dropRequest, late, repliesStuck } from './call-request.ts';
import { rejectAtCallSite } from './call-site.ts';
import { done, type Step, type StreamCall } from './call-target.ts';
import { isLastFrame, releaseAnswer } from './late-frames.ts';
import type { OpenCalls } from './open-calls.ts';

export class OutgoingCall
  implements SendingStream, ReadStream, ChannelStream, StreamCall, Abortable, Timed
{
  readonly request: CallRequest;
  readonly calls: OpenCalls<OutgoingCall>;
  readonly promise: Promise<unknown>;
  readonly #resolve: Settle;
  readonly #reject: Settle;
  readonly deadline: number | undefined;
  readonly counters: MethodCounters;
  /** The instant at which it was sent, or began to wait. */
  begun = neverBegun;
  /** undefined: no subscriber has asked for it. */
  trace: CallTrace | undefined;
  timer: SharedTimer | undefined;

  slot = -1;
  generation = 0;
  state: OutgoingState = 'waiting';
  /** The queue in which it waits to be sent. */
  place: { readonly waitReason: WaitReason; remove(call: OutgoingCall): void } | undefined;
  /** Its promise has settled: that of a notification when it is sent, or waits as a reply. */
  isSettled = false;
  isWritten = false;
  readonly beginsAtOnce: boolean;
  sentPosition = 0;
  line: SendFifo | undefined;
  queued = 0;
  readonly isBorrowed: boolean;
  readonly isAnswer = false;

  // The halves of a stream, or the channel that it is.
  reader: StreamReader | undefined;
  writer: StreamWriter | undefined;
  channel: ChannelHalves | undefined;
  #ending: Promise<void> | undefined;
  /** Called when the peer has our end, or the call has settled. */
  #onEndTaken: ((error: unknown) => void) | undefined;

  // The answer, as far as it came.
  assembly: MessageAssembly | undefined;
  /** Memory handed out for its first piece, which is about to arrive. */
  placed: MessageAssembly | undefined;
  answer: unknown;
  answerCharge = 0;
  hasAnswer = false;
  hasHeaders = false;
  /** Bytes of the answer that are still to come, of a call that was given up. */
  lateBytes: number | undefined;

  constructor(request: CallRequest, calls: OpenCalls<OutgoingCall>) {
    const { kind, options, isTransient } = request;
    this.request = request;
    this.calls = calls;
    this.counters = calls.shared.counters.called.of(request.method, kind);
    this.counters.started += 1;
    this.line = kind === CallKind.notification ? calls.notifications : undefined;
    this.beginsAtOnce = sendsMany(kind);
    // Memory of these may be reused once the message was admitted, before the call has settled.
    this.isBorrowed = isTransient || kind === CallKind.notification || sendsMany(kind);
    this.promise = new Promise(keep);
    this.#resolve = takeResolve();
    this.#reject = takeReject();
    const timeoutMs = timeoutOf(options);
    if (timeoutMs !== undefined) {
      const { clock } = calls.shared;
      this.deadline = deadlineAfter(clock, timeoutMs);
      armDeadline(clock, this, this.deadline);
    }
    if (options.signal !== undefined) calls.aborts.add(options.signal, this);
  }

  get isBulk(): boolean {
    return this.request.isBulk;
  }

  /** It has its slot, and its frames count. */
  get isOpen(): boolean {
    return this.state === 'open';
  }

  /** The window that its request counts in. */
  get credit(): SendCredit {
    const isNotification = this.request.kind === CallKind.notification;
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
    this.#moveTo('open');
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
    this.#ending ??= this.#endHalf();
    return this.#ending;
  }

  cancel(reason: unknown): void {
    this.cancelAs(reason, ResetReason.cancelled);
  }

  resolve(value: unknown): void {
    this.#settle();
    countSuccess(this.calls.shared, this);
    this.answer = undefined;
    this.reader?.end();
    this.writer?.fail(ended(this.request.method, 'once the call was answered'));
    this.#onEndTaken?.(undefined);
    this.#resolve(value);
  }

  /** Rejects while the caller makes the call: the stack of the reason shows where. */
  refuse(reason: unknown): void {
    quiet(this.promise);
    this.#settleFailed(reason, true);
    this.#reject(reason);
  }

  /** `now`: answers of a stream that were not taken are dropped; else the failure comes behind. */
  reject(reason: unknown, now = true): void {
    this.#settleFailed(reason, now);
    const settlers = { resolve: this.#resolve, reject: this.#reject };
    rejectAtCallSite(this.promise, settlers, reason);
  }

  /** Rejects; of a notification whose promise has resolved, tells `onEvent`. */
  fail(error: SidecallError): void {
    if (!this.isSettled) return this.reject(error, false);
    const { peer, onEvent } = this.calls.shared;
    emitEvent(onEvent, { type: 'notification-failed', error, peer, method: this.request.method });
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
    this.#onEndTaken?.(undefined);
    this.#onEndTaken = undefined;
  }

  onAborted(reason: unknown): void {
    this.cancelAs(reason, ResetReason.cancelled);
  }

  onDetached({ code, message }: SidecallError): void {
    const delivered = this.beginsAtOnce ? 'unknown' : 'no';
    const text = `${this.request.method}: ${message}`;
    this.cancelAs(new SidecallError(code, text, { delivered }), ResetReason.cancelled);
  }

  onDeadline(): void {
    const { deadline, request, isWritten } = this;
    const error = deadline === undefined ? repliesStuck(request) : late(request, isWritten);
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
      this.#onEndTaken = (error) => (error === undefined ? resolve() : reject(error));
    });
    quiet(taken);
    this.writer?.end(() => sendHalfEnd(this.calls.shared, this, FrameFlag.fromOpener));
    return taken;
  }

  #settleFailed(reason: unknown, now: boolean): void {
    this.#settle();
    countFailure(this.calls.shared, this, reason);
    this.#removeFromQueue();
    dropRequest(this.request, reason);
    releaseLeaseIn(this.answer); // it waited for trailers
    this.answer = undefined;
    this.channel?.fail(reason, { now });
    this.reader?.fail(reason, { now });
    this.writer?.fail(reason);
    this.#onEndTaken?.(reason);
  }

  #settle(): void {
    this.isSettled = true;
    cancelDeadline(this);
    const { signal } = this.request.options;
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
    this.credit.spend(-chargeOf(this.request.messageBytes));
  }

  #sendReset(reason: number): void {
    const { sendQueue } = this.calls.shared;
    const flags = FrameFlag.fromOpener;
    const header = sendQueue.header.reset(flags, this.slot, this.generation, reason);
    sendQueue.sendControl(header, undefined, true);
  }
}
