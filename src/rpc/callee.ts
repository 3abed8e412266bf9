// SPDX-License-Identifier: MIT
// The half of a session that serves: checks what the peer opens, runs handlers, sends their answers.
import {
  type FailureStatus,
  RpcError,
  SidecallError,
  type SidecallErrorCode,
  statuses,
} from '../errors.ts';
import { emitEvent } from '../events.ts';
import {
  CallKind,
  FrameFlag,
  FrameType,
  type Header,
  noTimeout,
  protocol,
  ResetReason,
} from '../frame.ts';
import { fixed } from '../limits.ts';
import { decodeMetadata, encodeMetadata, type Metadata } from '../metadata.ts';
import type { Peer } from '../peer.ts';
import { wordsOf } from '../words.ts';
import { type Answer, AnswerQueue, encodeAnswer, sendEnd } from './answers.ts';
import { tooLarge } from './caller.ts';
import { decodeWith, encodeWith, json } from './codec.ts';
import { chargeOf, Window } from './credit.ts';
import { cancelDeadline, deadlineAfter } from './deadline.ts';
import { Assembly } from './fragment.ts';
import { type CallHost, HandlerContext, IncomingCall } from './incoming-call.ts';
import type { Link } from './link.ts';
import { LearntNames } from './method-names.ts';
import { CancelAllowance } from './rate.ts';
import { memoryBytesFor } from './receive-pool.ts';
import type { Registry, Served } from './registry.ts';
import { AcceptedStreams } from './stream-table.ts';

interface Request {
  readonly served: Served;
  readonly value: unknown;
}

const nothing = new Uint8Array(0);

export class Callee implements CallHost {
  readonly #link: Link;
  readonly #registry: Registry;
  readonly #streams: AcceptedStreams<IncomingCall>;
  readonly #names = new LearntNames();
  readonly #cancels: CancelAllowance;
  // Requests that wait because our answers do: a peer that does not read gets no more work done.
  readonly #parked = new Map<IncomingCall, Request>();
  // Requests that found as many handlers running as we allow: a cancelled one may be about to settle.
  readonly #crowded = new Map<IncomingCall, Request>();
  readonly #answers: AnswerQueue;
  #open = 0;
  #running = 0;
  #unfinishedBytes = 0;
  // Memory handed out for the first piece of a request, which is about to arrive.
  #placed: Assembly | undefined;
  #isDraining = false;

  constructor(link: Link, registry: Registry) {
    this.#link = link;
    this.#registry = registry;
    this.#streams = new AcceptedStreams(link.own.streamsMax);
    this.#cancels = new CancelAllowance(link.own.streamsMax);
    this.#answers = new AnswerQueue(link, (call) => this.#close(call));
  }

  get peer(): Peer {
    return this.#link.peer;
  }

  /** Calls of the peer's that are not over: arriving, waiting, running, or waiting to be answered. */
  get pending(): number {
    return Math.max(this.#open, this.#running);
  }

  /** Handlers at work, those of cancelled calls included. */
  get running(): number {
    return this.#running;
  }

  /** From now on new calls are refused; those that were opened before go on. */
  drain(): void {
    this.#isDraining = true;
  }

  learn(header: Header, payload: Uint8Array): void {
    this.#names.learn(header.slot, payload);
  }

  /** Place for a piece of a request; for its first one, where all is as it should be, too. */
  placeFor(header: Header, bytes: number): Uint8Array | undefined {
    if (header.type === FrameType.fragment) {
      return this.#streams.find(header.slot, header.generation)?.assembly?.place(bytes);
    }
    const { a: method, b: timeoutMs, c: metadataBytes, d: messageBytes } = header;
    const isWelcome = this.#refusal(timeoutMs) === undefined;
    const isPlain = header.type === FrameType.open && metadataBytes === 0 && isWelcome;
    const mayHold = messageBytes <= this.#link.own.receiveMaxBytes && bytes <= messageBytes;
    if (!isPlain || !mayHold || !this.#hasMemoryFor(memoryBytesFor(messageBytes))) return undefined;
    const served = this.#registry.find(this.#names.nameOf(method));
    if (served === undefined) return undefined;
    this.#placed = new Assembly(messageBytes, served.request.keepsBytes === true);
    return this.#placed.place(bytes);
  }

  /** A frame of a stream that the peer opened. */
  onFrame(header: Header, payload: Uint8Array): void {
    const placed = this.#placed;
    this.#placed = undefined;
    if (header.type === FrameType.open) return this.#onOpen(header, payload, placed);
    const call = this.#streams.find(header.slot, header.generation);
    switch (header.type) {
      case FrameType.fragment:
        if (call !== undefined) this.#onFragment(call, payload);
        return;
      case FrameType.reset:
        if (call !== undefined) this.#onReset(call, header.aux);
        return;
      default:
        throw protocol('frame that no opener of such a call sends');
    }
  }

  /** Window, or room in the send queue, came back. */
  onProgress(): void {
    this.#answers.send();
    this.#startParked();
  }

  /** The session is over: every handler is told, nothing is sent any more. */
  end(code: SidecallErrorCode): void {
    for (const call of this.#streams.all()) this.#finish(call, code);
    this.#parked.clear();
    this.#crowded.clear();
    this.#answers.clear();
  }

  onCallDeadline(call: IncomingCall): void {
    if (call.isOver) return;
    this.#sendReset(call, ResetReason.deadlineExceeded);
    this.#finish(call, 'ERR_SIDECALL_DEADLINE_EXCEEDED');
    this.#link.onCallEnded();
  }

  sendHeaders(call: IncomingCall, metadata: Metadata): void {
    const bytes = encodeMetadata(metadata, this.#link.metadataMaxBytes);
    call.hasHeaders = true;
    if (call.isOver || call.opening.isNotification) return;
    const { schedule } = this.#link;
    const header = schedule.header.headers(call.slot, call.generation);
    schedule.send(call, header, bytes, nothing, 0);
  }

  #onOpen(header: Header, payload: Uint8Array, placed: Assembly | undefined): void {
    const { own, receiveCredit } = this.#link;
    const { a: method, b: timeoutMs, c: metadataBytes, d: messageBytes } = header;
    this.#streams.open(header.slot, header.generation);
    const isKind = header.aux === CallKind.unary || header.aux === CallKind.notification;
    if (!isKind || header.flags !== (FrameFlag.fromOpener | FrameFlag.end)) {
      throw protocol('call of an unknown kind');
    }
    if (messageBytes > own.receiveMaxBytes) throw tooLarge(messageBytes, own.receiveMaxBytes);
    const isMetadata = metadataBytes <= own.metadataMaxBytes && metadataBytes <= payload.byteLength;
    if (!isMetadata || payload.byteLength - metadataBytes > messageBytes) {
      throw protocol('call whose lengths do not agree');
    }
    const opening = {
      slot: header.slot,
      generation: header.generation,
      isNotification: header.aux === CallKind.notification,
      method: this.#names.nameOf(method),
      metadata: decodeMetadata(payload.subarray(0, metadataBytes)),
      deadline: timeoutMs === noTimeout ? undefined : deadlineAfter(timeoutMs),
      charge: chargeOf(messageBytes),
    };
    receiveCredit.requests.take(opening.charge);
    const refusal = this.#refusal(timeoutMs);
    if (refusal !== undefined) return this.#refuse(opening, refusal);
    const body = metadataBytes === 0 ? payload : payload.subarray(metadataBytes);
    this.#accept(new IncomingCall(opening, this), body, messageBytes, placed);
  }

  #refusal(timeoutMs: number): number | undefined {
    if (this.#isDraining) return ResetReason.goingAway;
    return timeoutMs === 0 ? ResetReason.deadlineExceeded : undefined;
  }

  /** The slot stays closed in this generation; fragments that follow are late. */
  #refuse(opening: { slot: number; generation: number; charge: number }, reason: number): void {
    const { schedule } = this.#link;
    schedule.sendControl(schedule.header.reset(0, opening.slot, opening.generation, reason));
    this.#link.giveBack(Window.requests, opening.charge);
  }

  #accept(
    call: IncomingCall,
    body: Uint8Array,
    messageBytes: number,
    placed: Assembly | undefined,
  ): void {
    this.#streams.add(call);
    this.#open += 1;
    if (placed === undefined && body.byteLength === messageBytes) {
      return this.#onRequest(call, body, undefined);
    }
    if (!this.#hasMemoryFor(memoryBytesFor(messageBytes))) {
      return this.#sendFailure(call, 'resource_exhausted', 'too many unfinished messages');
    }
    const keeps = this.#registry.find(call.opening.method)?.request.keepsBytes === true;
    call.assembly = placed ?? new Assembly(messageBytes, keeps);
    this.#unfinishedBytes += call.assembly.memoryBytes;
    if (body.byteLength > 0) this.#onFragment(call, body);
  }

  /** Before memory is taken: all unfinished messages of the session count. */
  #hasMemoryFor(bytes: number): boolean {
    const one = memoryBytesFor(this.#link.own.receiveMaxBytes);
    return this.#unfinishedBytes + bytes <= Math.max(fixed.unfinishedMaxBytes, one);
  }

  #onFragment(call: IncomingCall, payload: Uint8Array): void {
    const { assembly } = call;
    if (assembly === undefined) throw protocol('fragment of no message');
    if (!assembly.add(payload)) return;
    this.#dropAssembly(call);
    this.#onRequest(call, assembly.bytes, assembly);
  }

  /** The request is whole; `assembly` is its memory, unless it lies in the transport's. */
  #onRequest(call: IncomingCall, payload: Uint8Array, assembly: Assembly | undefined): void {
    const served = this.#registry.find(call.opening.method);
    if (served === undefined) return this.#sendFailure(call, 'unimplemented', 'not served here');
    if ((served.kind === 'notification') !== call.opening.isNotification) {
      return this.#sendFailure(call, 'unimplemented', `served here as a ${served.kind} method`);
    }
    let value: unknown;
    try {
      value = decodeWith(served.request, payload, assembly?.isOwned ?? false);
    } catch {
      return this.#sendFailure(call, 'invalid_argument', 'the request could not be decoded');
    } finally {
      assembly?.release();
    }
    if (this.#isBacklogged()) this.#parked.set(call, { served, value });
    else this.#start(call, { served, value });
  }

  #startParked(): void {
    for (const [call, request] of this.#parked) {
      if (this.#isBacklogged()) return;
      this.#parked.delete(call);
      this.#start(call, request);
    }
  }

  #start(call: IncomingCall, request: Request): void {
    if (this.#running < this.#link.own.streamsMax) return this.#run(call, request);
    this.#crowded.set(call, request);
    if (this.#crowded.size === 1) setImmediate(() => this.#thinOut());
  }

  /** A turn later: what still finds no place is refused, so that its caller can try elsewhere. */
  #thinOut(): void {
    for (const [call, request] of this.#crowded) {
      this.#crowded.delete(call);
      if (this.#running < this.#link.own.streamsMax) {
        this.#run(call, request);
        continue;
      }
      this.#sendReset(call, ResetReason.limitStreams);
      this.#over(call);
      this.#link.onCallEnded();
    }
  }

  #isBacklogged(): boolean {
    return this.#answers.isBacklogged(this.#running);
  }

  /** Never throws: what a handler does is its call's affair. */
  #run(call: IncomingCall, { served, value }: Request): void {
    this.#running += 1;
    call.isRunning = true;
    // The application has it now. A notification keeps its place until its handler settled, so that
    // whoever sends too many of them waits.
    if (!call.opening.isNotification) this.#giveBack(call);
    let result: unknown;
    let later: Promise<unknown> | undefined;
    try {
      result = served.handler(value, new HandlerContext(call));
      // Through Promise.resolve: a thenable of the handler's own making may call back twice, or throw.
      if (isThenable(result)) later = Promise.resolve(result);
    } catch (error) {
      return this.#onThrown(call, error);
    }
    if (later === undefined) return this.#onReturned(call, served, result);
    later.then(
      (answer) => this.#onReturned(call, served, answer),
      (error) => this.#onThrown(call, error),
    );
  }

  #onReturned(call: IncomingCall, served: Served, value: unknown): void {
    this.#noteSettled(call);
    if (call.isOver) return this.#onSettledLate();
    if (served.response === undefined) return this.#sendEnd(call, 0, nothing, nothing);
    let answer: Answer;
    try {
      answer = encodeAnswer(served.response, value, call.trailers, this.#link.metadataMaxBytes);
    } catch (error) {
      this.#report(call, error);
      return this.#sendFailure(call, 'internal', '');
    }
    const refusal = this.#answers.add(call, answer);
    if (refusal !== undefined) this.#sendFailure(call, 'resource_exhausted', refusal);
  }

  /** A handler settled whose call was given up before. */
  #onSettledLate(): void {
    this.#startParked();
    this.#link.onCallEnded();
  }

  #onThrown(call: IncomingCall, error: unknown): void {
    this.#noteSettled(call);
    const isWords = RpcError.is(error);
    // Over: the call was given up, and a handler that ends by throwing does as it was told.
    if (call.isOver) return this.#onSettledLate();
    if (!isWords) {
      this.#report(call, error);
      return this.#sendFailure(call, 'internal', '');
    }
    try {
      this.#sendRpcError(call, error);
    } catch (refused) {
      this.#report(call, refused);
      this.#sendFailure(call, error.status, '');
    }
  }

  #sendRpcError(call: IncomingCall, error: RpcError): void {
    const { metadataMaxBytes, schedule } = this.#link;
    const metadata = encodeMetadata({ ...call.trailers, ...error.metadata }, metadataMaxBytes);
    const words = Buffer.from(error.message);
    const details = encodeWith(json<unknown>(), error.details);
    const bytes = typeof details === 'string' ? Buffer.from(details) : details;
    if (metadata.byteLength + words.byteLength + bytes.byteLength > schedule.fragmentBytes) {
      const most = `an RpcError has ${schedule.fragmentBytes} bytes at most`;
      throw new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', most);
    }
    this.#sendEnd(call, statuses.indexOf(error.status), metadata, words, bytes);
  }

  /** What a handler threw and the caller must not see: for whoever runs this end. */
  #report(call: IncomingCall, cause: unknown): void {
    const { method } = call.opening;
    const words = `${method}: the handler failed: ${wordsOf(cause)}`;
    const error = new SidecallError('ERR_SIDECALL_RPC', words, { cause });
    const { onEvent, peer } = this.#link;
    emitEvent(onEvent, { type: 'handler-failed', error, peer, method });
  }

  #sendFailure(call: IncomingCall, status: FailureStatus, words: string): void {
    this.#sendEnd(call, statuses.indexOf(status), nothing, Buffer.from(words));
  }

  #sendEnd(call: IncomingCall, ...end: [number, Uint8Array, Uint8Array, Uint8Array?]): void {
    sendEnd(this.#link.schedule, call, ...end);
    this.#close(call);
  }

  /** Answered: nothing follows, and the slot may be used again. */
  #close(call: IncomingCall): void {
    this.#cancels.refill();
    this.#over(call);
    this.#link.onCallEnded();
  }

  #onReset(call: IncomingCall, reason: number): void {
    const code = resetCodes[reason];
    if (code === undefined) throw protocol('reset without a known reason');
    this.#cancels.take();
    this.#finish(call, code);
    this.#link.onCallEnded();
  }

  #sendReset(call: IncomingCall, reason: number): void {
    const { schedule } = this.#link;
    schedule.drop(call);
    schedule.sendControl(schedule.header.reset(0, call.slot, call.generation, reason));
  }

  /** Ends a call without an answer. Its handler is told and counts until it settles. */
  #finish(call: IncomingCall, code: SidecallErrorCode): void {
    this.#link.schedule.drop(call);
    this.#over(call);
    call.abort(code);
  }

  #over(call: IncomingCall): void {
    if (call.isOver) return;
    call.isOver = true;
    this.#open -= 1;
    cancelDeadline(call);
    this.#dropAssembly(call);
    this.#streams.remove(call);
    this.#parked.delete(call);
    this.#crowded.delete(call);
    this.#answers.drop(call);
    if (!call.isRunning) this.#giveBack(call);
  }

  #dropAssembly(call: IncomingCall): void {
    if (call.assembly === undefined) return;
    this.#unfinishedBytes -= call.assembly.memoryBytes;
    call.assembly = undefined;
  }

  /** The handler settled. */
  #noteSettled(call: IncomingCall): void {
    this.#running -= 1;
    call.isRunning = false;
    this.#giveBack(call);
  }

  #giveBack(call: IncomingCall): void {
    if (call.isReturned) return;
    call.isReturned = true;
    this.#link.giveBack(Window.requests, call.opening.charge);
  }
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
