// SPDX-License-Identifier: MIT
// A call of the peer's, from its first frame to its end.
import type { Clock } from '../../base/clock.ts';
import type { SidecallErrorCode } from '../../base/error-codes.ts';
import { SidecallError } from '../../base/errors.ts';
import { noBytes } from '../../base/ignore-errors.ts';
import type { Metadata } from '../../base/metadata.ts';
import { CallKind, ResetReason } from '../../wire/frame-header.ts';
import { decodeMetadata } from '../../wire/metadata-bytes.ts';
import { type IncomingState, incomingMoved } from '../call-states.ts';
import type { Codec } from '../contract/codec.ts';
import type { CallTrace } from '../counting/call-trace.ts';
import { MethodCounters, notServed } from '../counting/method-counters.ts';
import type { ServedEnd } from '../counting/session-counters.ts';
import {
  armDeadline,
  cancelDeadline,
  type HandlerScope,
  type SharedTimer,
  type Timed,
} from '../deadline.ts';
import { Window } from '../sending/credit.ts';
import { refuseMessage, resetReasonFor, sendEnd } from '../sending/end-frames.ts';
import type { SendFifo, SendingStream } from '../sending/outgoing-messages.ts';
import type { WaitPlace } from '../stalls.ts';
import { type RareParts, withParts } from '../streams/call-parts.ts';
import type { ChannelHalves, ChannelStream } from '../streams/channel-halves.ts';
import type { MessageAssembly } from '../streams/message-assembly.ts';
import type { ReadStream } from '../streams/reader-parts.ts';
import { StreamReader } from '../streams/stream-reader.ts';
import { StreamWriter } from '../streams/stream-writer.ts';
import type { AcceptedCalls } from './accepted-calls.ts';
import { type CountedCall, countEnd, countersOf, endOfStatus } from './call-counts.ts';
import type { CallOpening } from './call-opening.ts';
import { errorOf, refusalCodes } from './end-reasons.ts';
import { type End, refusalOf, reportFailure } from './failure-reply.ts';
import type { MethodLoad } from './method-load.ts';
import type { RequestMemory } from './request-memory.ts';

const noMetadata: Metadata = decodeMetadata(noBytes);
/** Calls that wait to be used again, in each session. */
const sparesMax = 16;
const noCounters = new MethodCounters(notServed, CallKind.unary, false);

/** The opening of a call of which no frame has come. */
export function emptyOpening(method = ''): CallOpening {
  return {
    slot: -1,
    generation: 0,
    kind: CallKind.unary,
    method,
    metadata: noMetadata,
    deadline: undefined,
    charge: 0,
    windowBytes: 0,
  };
}

export class IncomingCall
  implements SendingStream, ReadStream, ChannelStream, Timed, HandlerScope, CountedCall
{
  /** Parts that few calls have; undefined: it has none of them. */
  rare: RareParts<WaitPlace> | undefined;
  declare readonly parts: RareParts<WaitPlace>;
  declare timer: SharedTimer | undefined;
  declare trace: CallTrace | undefined;
  declare place: WaitPlace | undefined;
  declare queued: number;
  declare reader: StreamReader | undefined;
  declare writer: StreamWriter | undefined;
  declare channel: ChannelHalves | undefined;
  declare assembly: MessageAssembly | undefined;
  declare hasHeaders: boolean;

  static {
    withParts(IncomingCall.prototype);
  }

  readonly opening: CallOpening;
  slot: number;
  generation: number;
  readonly calls: AcceptedCalls<IncomingCall>;
  isWritten = false;
  /** Only outgoing calls need it. */
  sentPosition = 0;
  state: IncomingState = 'waiting';
  /** Its handler was started and has not settled; true also after the call has ended. */
  isRunning = false;
  /** The memory of the request, where it goes back when the handler has settled. */
  memory: RequestMemory | undefined;
  /** The numbers of its method; its own until it is found to be served. */
  counters: MethodCounters;
  begun: number;
  /** The context of its handler. */
  context: { detach(): void } | undefined;
  /** The length of the request, once it is whole. */
  requestBytes: number | undefined;
  /** Load of its method, where the handler gives one answer. */
  load: MethodLoad<IncomingCall> | undefined;
  #isWindowReleased = false;
  /** Its entry in the flight recorder; -1: it has none. */
  #entry = -1;

  /** NOTE: one of {@link emptyOpening} is followed by {@link IncomingCall.begin}. */
  constructor(opening: CallOpening, calls: AcceptedCalls<IncomingCall>) {
    this.opening = opening;
    this.slot = opening.slot;
    this.generation = opening.generation;
    this.calls = calls;
    this.begun = calls.shared.moments.arrive();
    if (opening.generation === 0) {
      this.counters = noCounters;
      return;
    }
    this.counters = countersOf(calls.shared, opening);
    if (opening.kind >= CallKind.channel) this.isBorrowed = true;
    if (opening.deadline !== undefined) armDeadline(this.clock, this, opening.deadline);
    calls.add(this);
  }

  /** A plain call begins: nothing of the object is held by anybody. */
  begin(
    slot: number,
    generation: number,
    method: string,
    counters: MethodCounters,
    charge: number,
    requestBytes: number,
  ): void {
    const opening = this.opening as { -readonly [Field in keyof CallOpening]: CallOpening[Field] };
    const { shared } = this.calls;
    opening.slot = slot;
    opening.generation = generation;
    this.slot = slot;
    this.generation = generation;
    opening.method = method;
    opening.charge = charge;
    this.state = 'waiting';
    this.isWritten = false;
    this.#isWindowReleased = false;
    this.#entry = -1;
    this.begun = shared.moments.arrive();
    this.requestBytes = requestBytes;
    this.counters = counters;
    counters.started += 1;
    shared.frameRecorder?.nameLast(opening, counters);
    counters.receivedMessages += 1;
    counters.receivedBytes += requestBytes;
    this.calls.open += 1;
    this.calls.begun += 1;
    this.calls.streams.add(this);
  }

  /**
   * The answer of a call that has no rare parts has left: as {@link IncomingCall.close}. Where
   * nobody but the context holds the object, the next call uses it.
   */
  onAnswered(): void {
    const { calls, counters, begun, opening } = this;
    const { shared, spares, streams } = calls;
    this.state = 'answered'; // it was open
    shared.moments.end(counters, begun);
    calls.open -= 1;
    streams.remove(this);
    shared.onPlainEnd();
    if (opening.metadata !== noMetadata || spares.length >= sparesMax) return;
    this.context?.detach();
    this.context = undefined;
    spares.push(this);
  }

  get isAnswer(): true {
    return true;
  }

  get beginsAtOnce(): true {
    return true;
  }

  get line(): SendFifo | undefined {
    return this.rare?.line;
  }

  set line(line: SendFifo | undefined) {
    this.parts.line = line;
  }

  get isBulk(): boolean {
    return this.rare?.isBulk === true;
  }

  set isBulk(isBulk: boolean) {
    if (isBulk !== this.isBulk) this.parts.isBulk = isBulk;
  }

  get isBorrowed(): boolean {
    return this.rare?.isBorrowed === true;
  }

  set isBorrowed(isBorrowed: boolean) {
    if (isBorrowed !== this.isBorrowed) this.parts.isBorrowed = isBorrowed;
  }

  get trailers(): Metadata {
    return this.rare?.trailers ?? noMetadata;
  }

  set trailers(trailers: Metadata) {
    this.parts.trailers = trailers;
  }

  /** Its handler is told when the session is about to close. */
  get endsAtDrain(): boolean {
    return this.rare?.endsAtDrain === true;
  }

  set endsAtDrain(endsAtDrain: boolean) {
    if (endsAtDrain !== this.endsAtDrain) this.parts.endsAtDrain = endsAtDrain;
  }

  /** The call has ended: nothing is sent for it any more. */
  get isOver(): boolean {
    return this.state !== 'open' && this.state !== 'waiting';
  }

  get isOpen(): boolean {
    return !this.isOver;
  }

  get deadline(): number | undefined {
    return this.opening.deadline;
  }

  get clock(): Clock {
    return this.calls.shared.clock;
  }

  get notifiedBy(): object | undefined {
    return this.opening.kind === CallKind.notification ? this.calls.shared : undefined;
  }

  /** Made when the handler reads it: most handlers never do. */
  get signal(): AbortSignal {
    const { parts } = this;
    if (parts.controller === undefined) {
      parts.controller = new AbortController();
      if (parts.abortCode !== undefined) parts.controller.abort(errorOf(parts.abortCode));
    }
    return parts.controller.signal;
  }

  abort(code: SidecallErrorCode): void {
    const { parts } = this;
    if (parts.abortCode !== undefined) return;
    parts.abortCode = code;
    parts.controller?.abort(errorOf(code));
  }

  /** As `ctx.cancelledNow()`. */
  get isCancelledNow(): boolean | undefined {
    const { deadline } = this.opening;
    if (this.isOver) return true;
    if (deadline !== undefined && deadline <= this.clock.nowMs()) return true;
    const isKnown = this.calls.shared.transport.lookAhead?.() ?? false;
    if (this.isOver) return true;
    return isKnown ? false : undefined;
  }

  /** The handler is about to be called. */
  start(): void {
    if (this.state !== 'waiting') incomingMoved(this.state, 'open');
    this.state = 'open';
    this.isRunning = true;
    const { counters, recorder } = this.calls.shared;
    if (recorder !== undefined) {
      this.#entry = recorder.handlerStarted(this, this.opening.kind, this.counters);
    }
    if (this.requestBytes !== undefined) {
      counters.taken.messages += 1;
      counters.taken.bytes += this.requestBytes;
    }
    if (this.memory !== undefined) counters.countLease(this.memory.lease);
    // The application has the request now. A notification keeps its place in the window until its
    // handler has settled, so that a peer that sends too many of them waits.
    if (this.opening.kind !== CallKind.notification) this.releaseWindow();
  }

  /** The handler has settled. Returns false if the call had ended before: there is no answer. */
  settle(): boolean {
    this.isRunning = false;
    this.calls.shared.recorder?.handlerSettled(this.#entry);
    if (!this.#isWindowReleased) this.releaseWindow();
    if (this.state === 'open') return true;
    this.memory?.settleLease();
    // Only now the opener may use the slot again.
    const { parts } = this;
    if (parts.owedReset !== undefined) this.#sendReset(parts.owedReset);
    parts.owedReset = undefined;
    this.calls.shared.onProgress();
    return false;
  }

  /** The memory of a borrowed request is used again: nothing but its handlers reads it any more. */
  returnRequest(): void {
    this.memory?.returnBorrowed();
  }

  /** Ends the call with an `end` frame. */
  answer({ status, metadata, text, details }: End): void {
    sendEnd(this.calls.shared.sendQueue, this, status, metadata, text, details);
    this.close(status);
  }

  /** Ends the call whose answer was given to the send queue: nothing follows, the slot is free. */
  close(status = 0): void {
    this.#end('answered', endOfStatus(status));
    this.calls.streams.remove(this);
    // Messages that a channel has received can still be read, and the channel knows why it is over.
    const isStream = this.reader !== undefined || this.writer !== undefined;
    if (isStream && this.channel === undefined) {
      this.#failHalves(new SidecallError('ERR_SIDECALL_CANCELLED', 'the call was answered'), true);
    }
    if (this.isRunning) this.abort('ERR_SIDECALL_CANCELLED'); // the peer got an error already
    this.calls.shared.onProgress();
  }

  /** Ends a call that is not started here. */
  refuse(reason: number): void {
    this.#failHalves(errorOf('ERR_SIDECALL_LIMIT_STREAMS'), true);
    this.#end('cancelled', refusalCodes[reason] ?? 'ERR_SIDECALL_LIMIT_STREAMS');
    this.#sendReset(reason);
    this.calls.shared.onProgress();
  }

  /** Ends a call that is given up. The opener keeps the slot until the handler has settled. */
  cancel(code: SidecallErrorCode, reason: number): void {
    // Messages that the peer of a channel sent before its end can still be read.
    const isWhole = this.channel?.isPeerEnded === true;
    this.fail('cancelled', code, errorOf(code), !isWhole);
    if (this.isRunning) this.parts.owedReset = reason;
    else this.#sendReset(reason);
    this.calls.shared.onProgress();
  }

  /** Ends the call without a frame. `now`: messages that were not taken are dropped. */
  fail(
    state: 'cancelled' | 'failed',
    code: SidecallErrorCode,
    error: SidecallError,
    now: boolean,
  ): void {
    this.#end(state, code);
    this.#failHalves(error, now);
    this.calls.shared.removeQueued(this);
    this.abort(code);
  }

  /** Ends the call: its request was refused by its codec. */
  refuseRequest(error: unknown): void {
    const { shared, isOverfull } = this.calls;
    if (this.reader !== undefined) {
      // The handler runs. Unsent parts of the call are dropped, a half-sent message included.
      this.#failHalves(SidecallError.from(error), true);
      shared.removeQueued(this);
    }
    this.answer(refusalOf(shared, this, error, isOverfull));
  }

  onDeadline(): void {
    if (this.isOver) return;
    this.cancel('ERR_SIDECALL_DEADLINE_EXCEEDED', ResetReason.deadlineExceeded);
  }

  onDetached(error: SidecallError): void {
    reportFailure(this.calls.shared, this, error);
    if (this.channel !== undefined) return this.onChannelAborted(error);
    if (!this.isOver) return this.cancel(error.code, ResetReason.cancelled);
    this.returnRequest(); // the opener waits for the rest of its answer
    this.#sendReset(ResetReason.cancelled);
  }

  onReaderStopped(error: SidecallError | undefined): void {
    if (this.isOver) return;
    const { channel } = this;
    if (channel === undefined) {
      // A handler may stop reading and still answer. It cannot go on behind a gap.
      if (error !== undefined) this.refuseRequest(error);
      return;
    }
    if (error === undefined) return channel.abort(new SidecallError('ERR_SIDECALL_CANCELLED'));
    channel.fail(error, { now: true });
    refuseMessage(this.calls.shared, this, 0);
    this.close();
  }

  /** Both halves of the channel ended well. */
  onChannelOver(): void {
    this.close();
  }

  /** Our side gives the channel up. */
  onChannelAborted(error: unknown): void {
    this.channel?.fail(error, { now: true });
    this.#sendReset(resetReasonFor(error));
    this.close();
  }

  /** Opens the half that the peer sends on. */
  openReader(codec: Codec<unknown>): StreamReader {
    const { shared } = this.calls;
    const windowBytes = shared.own.streamWindowBytes;
    const { method: name } = this.opening;
    this.reader = new StreamReader({ shared, stream: this, name, codec, flags: 0, windowBytes });
    return this.reader;
  }

  /** Opens the half that we send on. */
  openWriter(codec: Codec<unknown>): StreamWriter {
    const { shared } = this.calls;
    const { method: name, windowBytes } = this.opening;
    this.isBorrowed = true;
    this.writer = new StreamWriter({ shared, stream: this, codec, name, flags: 0, windowBytes });
    this.writer.start();
    return this.writer;
  }

  /** Gives back its part of the window, once. */
  releaseWindow(): void {
    if (this.#isWindowReleased) return;
    this.#isWindowReleased = true;
    const { kind, charge } = this.opening;
    const window = kind === CallKind.notification ? Window.notifications : Window.requests;
    this.calls.shared.releaseCredit(window, charge);
  }

  /** Forgets the request, which is whole, or of no use any more. */
  releaseAssembly(): void {
    if (this.assembly === undefined) return;
    this.calls.unfinished -= 1;
    this.assembly = undefined;
  }

  /** Moves the call to its end, once, and gives back all that it holds. */
  #end(state: 'answered' | 'cancelled' | 'failed', end: 'ok' | ServedEnd): void {
    if (this.isOver) return;
    this.#moveTo(state);
    countEnd(this, end);
    this.calls.open -= 1;
    if (this.rare !== undefined) {
      cancelDeadline(this);
      this.releaseAssembly();
      this.place?.remove();
      this.reader?.release();
    }
    if (this.isRunning) return;
    this.releaseWindow();
    this.memory?.settleLease();
    if (state !== 'answered') this.returnRequest();
  }

  #moveTo(state: IncomingState): void {
    this.state = incomingMoved(this.state, state);
  }

  #sendReset(reason: number): void {
    const { shared, streams } = this.calls;
    shared.removeQueued(this);
    streams.remove(this);
    const { sendQueue } = shared;
    sendQueue.sendControl(sendQueue.header.reset(0, this.slot, this.generation, reason));
  }

  #failHalves(error: SidecallError, now: boolean): void {
    this.channel?.fail(error, { now });
    this.reader?.fail(error, { now });
    this.writer?.fail(error);
  }
}
