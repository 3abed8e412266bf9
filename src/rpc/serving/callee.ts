// SPDX-License-Identifier: MIT
// The half of a session that serves: runs handlers for what the peer opens, and sends their
// answers.

import { nowMs } from '../../base/clock.ts';
import { type FailureStatus, type SidecallErrorCode, statuses } from '../../base/error-codes.ts';
import { RpcError, SidecallError } from '../../base/errors.ts';
import { isIterable } from '../../base/iterable.ts';
import type { Metadata } from '../../base/metadata.ts';
import type { Peer } from '../../base/peer.ts';
import { noBytes } from '../../base/quiet.ts';
import { endText } from '../../wire/end-text.ts';
import {
  CallKind,
  FrameFlag,
  FrameType,
  type Header,
  protocol,
  ResetReason,
} from '../../wire/frame-header.ts';
import { encodeMetadata } from '../../wire/metadata-bytes.ts';
import type { ArrivedBlock } from '../../wire/transport.ts';
import { bytes, type Codec, decodeWith } from '../contract/codec.ts';
import { detachedError } from '../contract/encode-message.ts';
import { type Block, freeValue, Lease } from '../contract/leases.ts';
import { builtInPrefix } from '../contract/service.ts';
import { cancelDeadline, inScope } from '../deadline.ts';
import type { PeerClock } from '../peer-clock.ts';
import { Window } from '../sending/credit.ts';
import { answerEnd, refuseMessage, resetReasonFor, sendEnd } from '../sending/send-frame.ts';
import { type SessionShared, takeStreamed } from '../sending/session-shared.ts';
import { ChannelHalves } from '../streams/channel-halves.ts';
import { checkBlock, type MessageAssembly } from '../streams/message-assembly.ts';
import { StreamReader } from '../streams/stream-reader.ts';
import { AcceptedStreams } from '../streams/stream-table.ts';
import { StreamWriter } from '../streams/stream-writer.ts';
import type { ChannelAcceptors } from './accept-channels.ts';
import { Admission, type AdmissionHost } from './admission.ts';
import { type Answer, AnswerSender, encodeAnswer } from './answer-sender.ts';
import { type End, endOf, plainEnd, refusalOf, reportFailure } from './failure-reply.ts';
import { HandlerContext, type IncomingCall } from './incoming-call.ts';
import type { Request } from './method-load.ts';
import { type OpenFrameHost, OpenFrames } from './open-frame.ts';
import type { Registry, Served } from './registry.ts';
import { Unserved, type UnservedRequest } from './unserved.ts';

/** The parts of the half that serves. */
export interface CalleeParts {
  readonly registry: Registry;
  readonly acceptors: ChannelAcceptors;
  readonly clock: PeerClock;
  /** A session of a listener that waits to be taken from it. */
  readonly isUntaken: boolean;
}

export class Callee implements OpenFrameHost, AdmissionHost {
  readonly #shared: SessionShared;
  readonly #registry: Registry;
  readonly #acceptors: ChannelAcceptors;
  readonly #streams: AcceptedStreams<IncomingCall>;
  readonly #arrivals: OpenFrames;
  readonly #admission: Admission;
  readonly #answers: AnswerSender;
  readonly #unserved: Unserved;
  readonly #unwatch: () => void;
  // A session of a listener that nobody has taken yet: its services may still come.
  #isUntaken: boolean;
  #open = 0;
  // A method that is not served now will not be served later.
  #isSettled: boolean;
  isDraining = false;
  /** Calls that were opened, ever. */
  begun = 0;

  constructor(shared: SessionShared, { registry, acceptors, clock, isUntaken }: CalleeParts) {
    this.#shared = shared;
    this.#registry = registry;
    this.#acceptors = acceptors;
    this.#streams = new AcceptedStreams(shared.own.streamsMax);
    this.#arrivals = new OpenFrames(shared, registry, this.#streams, this, clock);
    this.#answers = new AnswerSender(
      shared,
      (call) => this.#close(call),
      (call) => this.#onThrownAway(call, detachedError(call.opening.method)),
    );
    this.#admission = new Admission(shared.own.streamsMax, this, shared.waits);
    this.#isUntaken = isUntaken;
    this.#isSettled = registry.hasServed && !isUntaken;
    this.#unserved = new Unserved(shared.waits, (request) => this.#takeUnserved(request));
    this.#unwatch = registry.watch(() => this.#onServed());
  }

  get session(): object {
    return this.#shared;
  }

  /** More of our answers waits than a peer that keeps up would let stand. */
  get isUnread(): boolean {
    return this.#answers.isUnread;
  }

  /** Bytes of our answers that wait to be sent. */
  get answerBytes(): number {
    return this.#answers.bytes;
  }

  /**
   * The session was taken: methods that it does not serve are refused from now on, once something
   * is served.
   */
  onTaken(): void {
    if (!this.#isUntaken) return;
    this.#isUntaken = false;
    this.#onServed();
  }

  get peer(): Peer {
    return this.#shared.peer;
  }

  /**
   * Calls of the peer's that are not over: arriving, waiting, running, or waiting to be answered.
   */
  get pending(): number {
    return Math.max(this.#open, this.running);
  }

  /** Those of them that have arrived: their handlers run, or will. */
  get working(): number {
    return this.pending - this.#arrivals.unfinished;
  }

  /** Grows whenever a call is opened, or more of its request arrives. */
  get moved(): number {
    return this.begun + this.#arrivals.pieces;
  }

  /** Handlers at work, those of cancelled calls included. */
  get running(): number {
    return this.#admission.running;
  }

  /**
   * From now on new calls are refused; those that were opened before go on, and notifications are
   * still taken.
   */
  drain(): void {
    this.isDraining = true;
    this.#unserved.takeAll();
    this.endWatches();
  }

  /** Calls that would last for ever are told that one side is about to close. */
  endWatches(): void {
    for (const call of this.#streams.all()) {
      if (call.endsAtDrain) call.abort('ERR_SIDECALL_GOING_AWAY');
    }
  }

  learn(header: Header, payload: Uint8Array): void {
    this.#arrivals.learn(header, payload);
  }

  placeFor(header: Header, bytes: number): Uint8Array | undefined {
    return this.#arrivals.placeFor(header, bytes);
  }

  /** A frame of a stream that the peer opened. */
  onFrame(header: Header, payload: Uint8Array, block: ArrivedBlock | undefined): void {
    const placed = this.#arrivals.takePlaced();
    if (header.type === FrameType.open)
      return this.#arrivals.onOpen(header, payload, placed, block);
    const call = this.#streams.find(header.slot, header.generation);
    if (header.type === FrameType.message) return this.#onMessage(call, header, payload, block);
    if (call === undefined || call.isOver) return; // and its opener did not know
    switch (header.type) {
      case FrameType.fragment:
        if (call.reader !== undefined) return call.reader.add(payload);
        return this.#arrivals.onFragment(call, payload);
      case FrameType.credit:
        if (call.writer === undefined)
          throw protocol('credit for a stream on which nothing is sent');
        return call.writer.grant(header.grantBytes);
      case FrameType.end:
        return this.#onEnd(call, header, payload);
      case FrameType.reset:
        return this.#onReset(call, header.reason);
      default:
        throw protocol('frame type that the opener of such a call does not send');
    }
  }

  /** A cancel that is seen ahead of what came before it. True: it was taken. */
  takeAhead(header: Header): boolean {
    const call = this.#streams.peek(header.slot, header.generation);
    if (call === undefined || call.isOver || header.reason !== ResetReason.cancelled) return false;
    this.#onReset(call, header.reason);
    return true;
  }

  /** Window, or room in the send queue, came back. */
  onProgress(): void {
    this.#answers.send();
    this.#admission.startParked();
  }

  /** The session is over: every handler is told, nothing is sent any more. */
  end(code: SidecallErrorCode, error: SidecallError): void {
    for (const call of this.#streams.all()) this.#finish(call, code, error, false);
    this.#unwatch();
    this.#admission.clear();
    this.#unserved.clear();
    this.#answers.clear();
  }

  add(call: IncomingCall): void {
    this.#open += 1;
    this.begun += 1;
    if (call.opening.kind >= CallKind.channel) call.isBorrowed = true;
  }

  onRequest(call: IncomingCall, payload: Uint8Array, assembly: MessageAssembly | undefined): void {
    if (this.mustWait(call.opening.method)) {
      const own = assembly === undefined ? Buffer.from(payload) : payload;
      return this.#unserved.push({ call, bytes: own });
    }
    this.#onRequest(call, payload, assembly, false);
  }

  #onRequest(
    call: IncomingCall,
    payload: Uint8Array,
    assembly: MessageAssembly | undefined,
    isOwned: boolean,
  ): void {
    const served = this.#servedFor(call);
    if (served === undefined) return assembly?.release();
    let value: unknown;
    try {
      value =
        assembly === undefined ? decodeWith(served.request, payload, isOwned) : assembly.decode();
    } catch (error) {
      return this.#refuseRequest(call, error);
    }
    if (value instanceof Lease) call.lease = value;
    this.#admission.admit(call, { served, value });
  }

  onStream(call: IncomingCall): void {
    if (call.opening.kind >= CallKind.channel) return this.#onChannel(call);
    if (this.mustWait(call.opening.method)) {
      call.reader = this.#readerFor(call, bytes as Codec<unknown>);
      return this.#unserved.push({ call, bytes: undefined });
    }
    this.#onStream(call);
  }

  #onStream(call: IncomingCall): void {
    const served = this.#servedFor(call);
    if (served === undefined) return;
    if (call.reader === undefined) call.reader = this.#readerFor(call, served.request);
    else call.reader.codec = served.request;
    this.#admission.admit(call, { served, value: call.reader });
  }

  /**
   * It may still be served: nothing is yet, or others that waited for that are about to go first.
   */
  mustWait(method: string): boolean {
    if (this.isDraining) return false;
    const { isAboutToGo } = this.#unserved;
    if ((this.#isSettled && !isAboutToGo) || method.startsWith(builtInPrefix)) return false;
    return isAboutToGo || this.#registry.find(method) === undefined;
  }

  #onServed(): void {
    if (this.#isSettled) return;
    this.#unserved.onServed(() => {
      this.#isSettled = this.#registry.hasServed && !this.#isUntaken;
    });
  }

  #takeUnserved(request: UnservedRequest): void {
    const { call } = request;
    const isHopeless = this.#isSettled || this.#registry.find(call.opening.method) !== undefined;
    if (this.isDraining && !isHopeless) return this.#refuseAs(call, ResetReason.goingAway);
    if (!isHopeless) return this.#unserved.push(request);
    if (request.bytes === undefined) this.#onStream(call);
    else this.#onRequest(call, request.bytes, undefined, true);
  }

  onCallDeadline(call: IncomingCall): void {
    if (call.isOver) return;
    this.#giveUp(call, 'ERR_SIDECALL_DEADLINE_EXCEEDED', ResetReason.deadlineExceeded);
  }

  onReaderStopped(call: IncomingCall, error: SidecallError | undefined): void {
    if (call.isOver) return;
    if (call.channel !== undefined) {
      if (error === undefined)
        return call.channel.abort(new SidecallError('ERR_SIDECALL_CANCELLED'));
      call.channel.fail(error, { now: true });
      refuseMessage(this.#shared, call, 0);
      return this.#close(call);
    }
    // A handler may stop reading and still answer; what it cannot do is to go on behind a gap.
    if (error !== undefined) this.#refuseRequest(call, error);
  }

  isCancelledNow(call: IncomingCall): boolean | undefined {
    const { deadline } = call.opening;
    if (call.isOver) return true;
    if (deadline !== undefined && deadline <= nowMs()) return true;
    const isKnown = this.#shared.transport.lookAhead?.() ?? false;
    if (call.isOver) return true;
    return isKnown ? false : undefined;
  }

  allocate(bytes: number): Block {
    return this.#shared.allocate(bytes);
  }

  sendHeaders(call: IncomingCall, metadata: Metadata): void {
    const bytes = encodeMetadata(metadata, this.#shared.metadataMaxBytes);
    call.hasHeaders = true;
    if (call.isOver || call.opening.kind === CallKind.notification) return;
    const { sendQueue } = this.#shared;
    const header = sendQueue.header.headers(call.slot, call.generation);
    sendQueue.send(call, header, bytes, noBytes, 0);
  }

  #servedFor(call: IncomingCall): Served | undefined {
    const served = this.#registry.find(call.opening.method);
    if (served === undefined) {
      this.#sendFailure(call, 'unimplemented', 'not served here');
      return undefined;
    }
    if (served.callKind !== call.opening.kind) {
      this.#sendFailure(call, 'unimplemented', `served here as a ${served.kind} method`);
      return undefined;
    }
    call.isBulk = served.isBulk;
    call.endsAtDrain = served.endsAtDrain;
    return served;
  }

  #readerFor(call: IncomingCall, codec: Codec<unknown>): StreamReader {
    const windowBytes = this.#shared.own.streamWindowBytes;
    return new StreamReader({ shared: this.#shared, stream: call, codec, flags: 0, windowBytes });
  }

  #writerFor(call: IncomingCall, codec: Codec<unknown>): StreamWriter {
    const { method: name, windowBytes } = call.opening;
    call.isBorrowed = true;
    const writer = new StreamWriter({
      shared: this.#shared,
      stream: call,
      codec,
      name,
      flags: 0,
      windowBytes,
    });
    writer.start();
    return writer;
  }

  #onChannel(call: IncomingCall): void {
    const { kind, method: name, metadata } = call.opening;
    const acceptor = this.#acceptors.find(kind, name);
    if (acceptor === undefined) {
      // It was begun before its opener knew, or said, that the session closes.
      if (this.#acceptors.isEnded) return this.#refuseAs(call, ResetReason.goingAway);
      return this.#sendFailure(call, 'unimplemented', 'nobody accepts it here');
    }
    if (acceptor.isFull) {
      return this.#sendFailure(call, 'resource_exhausted', 'too many wait to be accepted');
    }
    call.isBulk = acceptor.isBulk;
    const reader = this.#readerFor(call, acceptor.codec);
    const writer = this.#writerFor(call, acceptor.codec);
    call.reader = reader;
    call.writer = writer;
    const onAbort = (error: unknown): void => {
      call.channel?.fail(error, { now: true });
      this.#sendReset(call, resetReasonFor(error));
      this.#close(call);
    };
    const onOver = (): void => this.#close(call);
    const parts = { reader, writer, flags: 0, name, onOver, onAbort };
    call.channel = new ChannelHalves(this.#shared, call, parts);
    this.#giveBack(call);
    acceptor.push({ core: call.channel, name, metadata, peer: this.peer });
  }

  #onMessage(
    call: IncomingCall | undefined,
    header: Header,
    payload: Uint8Array,
    block: ArrivedBlock | undefined,
  ): void {
    const flags = header.flags & ~FrameFlag.beyond;
    if (flags !== (FrameFlag.fromOpener | FrameFlag.streamed)) {
      throw protocol('message frame that belongs to no stream');
    }
    if (block !== undefined) checkBlock(block, header.messageBytes, payload.byteLength);
    const charge = takeStreamed(this.#shared, header.flags, header.messageBytes);
    if (call === undefined || call.isOver) return this.#shared.giveBack(Window.streams, charge);
    if (call.reader === undefined) throw protocol('message frame for a call with a single request');
    call.reader.begin(header.messageBytes, payload, charge, block);
  }

  #onEnd(call: IncomingCall, header: Header, payload: Uint8Array): void {
    const isAnswer = (header.flags & FrameFlag.end) !== 0;
    const { channel, reader } = call;
    const isPlain =
      header.status === 0 &&
      header.metadataBytes === 0 &&
      header.textBytes === 0 &&
      payload.byteLength === 0;
    if (channel !== undefined && isAnswer && isPlain) return channel.onEndTaken();
    if (channel !== undefined && !isAnswer && header.status !== 0)
      return this.#onChannelFailed(call, header, payload);
    if (reader === undefined || isAnswer || !isPlain)
      throw protocol('end frame for a call that has no stream');
    if (channel !== undefined) return channel.onEnd();
    if (reader.isMidMessage || reader.isEnded)
      throw protocol('end frame in the middle of a message, or a second one');
    reader.end();
    if (call.opening.kind === CallKind.bidi) answerEnd(this.#shared, call, 0);
  }

  /** Its opener could not decode what we had sent. */
  #onChannelFailed(call: IncomingCall, header: Header, payload: Uint8Array): void {
    const status = statuses[header.status];
    const isWrong = header.metadataBytes !== 0 || header.textBytes > payload.byteLength;
    if (status === undefined || status === 'ok' || isWrong)
      throw protocol('end frame without a failure status');
    const text = endText(payload.subarray(0, header.textBytes));
    this.#finish(call, 'ERR_SIDECALL_CANCELLED', new RpcError(status, text));
    this.#streams.remove(call);
    this.#shared.onCallEnded();
  }

  refuse(call: IncomingCall): void {
    endHalves(call, new SidecallError('ERR_SIDECALL_LIMIT_STREAMS'), true);
    this.#refuseAs(call, ResetReason.limitStreams);
  }

  #refuseAs(call: IncomingCall, reason: number): void {
    this.#over(call);
    this.#sendReset(call, reason);
    this.#shared.onCallEnded();
  }

  /** Never throws: what a handler does is its call's affair. */
  run(call: IncomingCall, request: Request): void {
    this.#admission.noteStarted(call);
    call.isRunning = true;
    // The application has it now. A notification keeps its place until its handler settled, so that
    // whoever sends too many of them waits.
    if (call.opening.kind !== CallKind.notification) this.#giveBack(call);
    request.served.inContext(handle, this, call, request);
  }

  /** @internal In the asynchronous context of whoever serves. */
  handle(call: IncomingCall, { served, value }: Request): void {
    let result: unknown;
    let later: Promise<unknown> | undefined;
    try {
      result = served.handler(value, new HandlerContext(call));
      if (served.isStreaming) later = this.#pour(call, served, result);
      // Through Promise.resolve: a thenable of the handler's own making may call back twice, or
      // throw.
      else if (isThenable(result)) later = Promise.resolve(result);
    } catch (error) {
      return this.#onThrown(call, served, error);
    }
    if (later === undefined) return this.#onReturned(call, served, result);
    later.then(
      (answer) => this.#onReturned(call, served, answer),
      (error) => this.#onThrown(call, served, error),
    );
  }

  /** Sends what a handler yields, each when there is room. It ends when the call does. */
  async #pour(call: IncomingCall, served: Served, result: unknown): Promise<void> {
    const writer = this.#writerFor(call, served.response as Codec<unknown>);
    call.writer = writer;
    if (call.isOver) writer.fail(new SidecallError('ERR_SIDECALL_CANCELLED'));
    const messages = isThenable(result) ? await result : result;
    if (!isIterable(messages)) {
      const given = messages === null ? 'null' : typeof messages;
      throw new TypeError(`the handler must give something to iterate, and no text; got ${given}`);
    }
    for await (const message of messages) await writer.send(message);
  }

  #onReturned(call: IncomingCall, served: Served, value: unknown): void {
    this.#noteSettled(call);
    if (call.isOver) {
      freeValue(value);
      return this.#onSettledLate(call);
    }
    if (served.response === undefined) {
      freeValue(value);
      return this.#end(call, plainEnd('ok', ''));
    }
    let answer: Answer;
    try {
      if (served.isStreaming) {
        const trailers = encodeMetadata(call.trailers, this.#shared.metadataMaxBytes);
        return this.#end(call, plainEnd('ok', '', trailers));
      }
      answer = encodeAnswer(this.#shared, served.response, value, call.trailers);
      // The lease goes back when the call is over, and the answer may still wait then.
      if (answer.message instanceof Uint8Array && call.lease?.isUnder(answer.message) === true) {
        answer.message = new Uint8Array(answer.message);
      }
    } catch (error) {
      freeValue(value);
      return this.#onThrownAway(call, error);
    }
    this.#admission.noteAnswer(call, answer.messageBytes);
    const refusal = this.#answers.add(call, answer);
    if (refusal !== undefined) this.#sendFailure(call, 'resource_exhausted', refusal);
  }

  /** There is no answer to be sent: the caller is told that, and we ourselves why. */
  #onThrownAway(call: IncomingCall, error: unknown): void {
    reportFailure(this.#shared, call, error);
    this.#sendFailure(call, 'internal', '');
  }

  /**
   * A handler settled whose call was given up before: only now its opener may use the slot again.
   */
  #onSettledLate(call: IncomingCall): void {
    const { owedReset } = call;
    call.owedReset = undefined;
    if (owedReset !== undefined) this.#sendReset(call, owedReset);
    this.#admission.startParked();
    this.#shared.onCallEnded();
  }

  #onThrown(call: IncomingCall, served: Served, error: unknown): void {
    this.#noteSettled(call);
    // Over: the call was given up, and a handler that ends by throwing does as it was told.
    if (call.isOver) return this.#onSettledLate(call);
    if (RpcError.is(error)) return this.#end(call, endOf(this.#shared, call, error, this.isUnread));
    reportFailure(this.#shared, call, error);
    const isTooLong = SidecallError.is(error) && error.code === 'ERR_SIDECALL_MESSAGE_TOO_LARGE';
    if (isTooLong && served.isStreaming) {
      return this.#sendFailure(call, 'resource_exhausted', error.message);
    }
    this.#sendFailure(call, 'internal', '');
  }

  /** A request that its codec refuses. */
  #refuseRequest(call: IncomingCall, error: unknown): void {
    if (call.reader !== undefined) {
      // Its handler runs: nothing of it is sent any more, what it half sent included.
      endHalves(call, SidecallError.from(error), true);
      this.#shared.dropQueued(call);
    }
    this.#end(call, refusalOf(this.#shared, call, error, this.isUnread));
  }

  #sendFailure(call: IncomingCall, status: FailureStatus, text: string): void {
    this.#end(call, plainEnd(status, text));
  }

  #end(call: IncomingCall, { status, metadata, text, details }: End): void {
    sendEnd(this.#shared.sendQueue, call, status, metadata, text, details);
    this.#close(call);
  }

  /** Answered: nothing follows, and the slot may be used again. */
  #close(call: IncomingCall): void {
    this.#over(call);
    this.#streams.remove(call);
    // Messages that a channel has received can still be read, and the channel knows why it is over.
    const isStream = call.reader !== undefined || call.writer !== undefined;
    if (isStream && call.channel === undefined) {
      endHalves(call, new SidecallError('ERR_SIDECALL_CANCELLED', 'the call was answered'), true);
    }
    if (call.isRunning) call.abort('ERR_SIDECALL_CANCELLED'); // the peer got an error already; tell the handler
    this.#admission.startParked();
    this.#shared.onCallEnded();
  }

  #onReset(call: IncomingCall, reason: number): void {
    const code = resetCodes[reason];
    if (code === undefined) throw protocol('reset without a known reason');
    this.#giveUp(call, code, reason);
  }

  /**
   * The answer is not waited for any more. The opener keeps the slot until the handler has settled,
   * and is told then.
   */
  #giveUp(call: IncomingCall, code: SidecallErrorCode, reason: number): void {
    // Messages that the peer of a channel sent before its end can still be read.
    const isWhole = call.channel?.isPeerEnded === true;
    this.#finish(call, code, new SidecallError(code), !isWhole);
    if (call.isRunning) call.owedReset = reason;
    else this.#sendReset(call, reason);
    this.#admission.startParked(); // its answer may have been what others waited for
    this.#shared.onCallEnded();
  }

  #sendReset(call: IncomingCall, reason: number): void {
    const { sendQueue } = this.#shared;
    this.#shared.dropQueued(call);
    this.#streams.remove(call);
    sendQueue.sendControl(sendQueue.header.reset(0, call.slot, call.generation, reason));
  }

  /** Ends a call without an answer. Its handler is told and counts until it settles. */
  #finish(
    call: IncomingCall,
    code: SidecallErrorCode,
    error = new SidecallError(code),
    now = true,
  ): void {
    this.#over(call);
    endHalves(call, error, now);
    this.#shared.dropQueued(call);
    call.abort(code);
  }

  #over(call: IncomingCall): void {
    if (call.isOver) return;
    call.isOver = true;
    this.#open -= 1;
    cancelDeadline(call);
    this.#arrivals.drop(call);
    call.unpark?.();
    this.#answers.drop(call);
    call.reader?.release();
    if (call.isRunning) return;
    this.#giveBack(call);
    call.lease?.settle();
  }

  /** The handler settled. */
  #noteSettled(call: IncomingCall): void {
    this.#admission.noteSettled(call);
    call.isRunning = false;
    this.#giveBack(call);
    if (call.isOver) call.lease?.settle();
  }

  #giveBack(call: IncomingCall): void {
    if (call.isReturned) return;
    call.isReturned = true;
    const { kind, charge } = call.opening;
    const window = kind === CallKind.notification ? Window.notifications : Window.requests;
    this.#shared.giveBack(window, charge);
  }
}

function handle(callee: Callee, call: IncomingCall, request: Request): void {
  const { deadline, kind } = call.opening;
  const isKnown = deadline !== undefined || kind === CallKind.notification;
  if (!isKnown) return callee.handle(call, request);
  inScope(call, () => callee.handle(call, request));
}

/** `now`: messages that were not taken are dropped. */
function endHalves(
  { channel, reader, writer }: IncomingCall,
  error: SidecallError,
  now: boolean,
): void {
  channel?.fail(error, { now });
  reader?.fail(error, { now });
  writer?.fail(error);
}

const resetCodes: Record<number, SidecallErrorCode | undefined> = {
  [ResetReason.cancelled]: 'ERR_SIDECALL_CANCELLED',
  [ResetReason.deadlineExceeded]: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
};

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    value !== null &&
    (typeof value === 'object' || typeof value === 'function') &&
    typeof (value as { then?: unknown }).then === 'function'
  );
}
