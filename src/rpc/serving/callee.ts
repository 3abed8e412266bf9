// SPDX-License-Identifier: MIT
// The half of a session that serves: the frames of the peer's calls, each to its step.
import { Buffer } from 'node:buffer';
import { partOf } from '../../base/bytes.ts';
import type { SidecallErrorCode } from '../../base/error-codes.ts';
import type { SidecallError } from '../../base/errors.ts';
import {
  CallKind,
  FrameType,
  type Header,
  noTimeout,
  PlainField,
  ResetReason,
  sendsMany,
} from '../../wire/frame-header.ts';
import type { ArrivedBlock } from '../../wire/transport.ts';
import type { IncomingState } from '../call-states.ts';
import { bytes, type Codec, decodePart, decodeWith } from '../contract/codec.ts';
import { Lease } from '../contract/leases.ts';
import { traceHandler } from '../counting/call-trace.ts';
import type { MethodCounters } from '../counting/method-counters.ts';
import type { PeerClock } from '../peer-clock.ts';
import { Window } from '../sending/credit.ts';
import { type SessionShared, takeMessage } from '../sending/session-shared.ts';
import { ChannelHalves } from '../streams/channel-halves.ts';
import { MessageAssembly } from '../streams/message-assembly.ts';
import type { ChannelAcceptors } from './accept-channels.ts';
import { AcceptedCalls } from './accepted-calls.ts';
import { Admission } from './admission.ts';
import { AnswerSender } from './answer-sender.ts';
import { countServed } from './call-counts.ts';
import { CallFrames } from './call-frames.ts';
import { plainEnd } from './failure-reply.ts';
import { emptyOpening, IncomingCall } from './incoming-call.ts';
import { OpenFrames } from './open-frame.ts';
import { changes, type Registry, type Served } from './registry.ts';
import { RequestMemory } from './request-memory.ts';
import { HandlerRunner } from './run-handler.ts';
import { type UnservedRequest, UnservedRequests } from './unserved.ts';

/** The parts of the half that serves. */
export interface CalleeParts {
  readonly registry: Registry;
  readonly acceptors: ChannelAcceptors;
  readonly clock: PeerClock;
  /** A session of a listener that waits to be taken from it. */
  readonly isUntaken: boolean;
}

/** A method of plain calls, as long as what is served does not change. */
interface PlainMethod {
  readonly name: string;
  readonly served: Served;
  readonly counters: MethodCounters;
  readonly changes: number;
}

export class Callee {
  readonly #shared: SessionShared;
  readonly #registry: Registry;
  readonly #acceptors: ChannelAcceptors;
  readonly #calls: AcceptedCalls<IncomingCall>;
  readonly #openFrames: OpenFrames;
  readonly #callFrames: CallFrames;
  readonly #unserved: UnservedRequests;
  readonly #admission: Admission;
  readonly #answers: AnswerSender;
  readonly #handlers: HandlerRunner;
  /** By the numbers of their names. */
  readonly #plainMethods: (PlainMethod | undefined)[] = [];
  #isResuming = false;

  constructor(shared: SessionShared, { registry, acceptors, clock, isUntaken }: CalleeParts) {
    this.#shared = shared;
    this.#registry = registry;
    this.#acceptors = acceptors;
    this.#calls = new AcceptedCalls(shared);
    this.#unserved = new UnservedRequests(this.#calls, registry, isUntaken);
    this.#openFrames = new OpenFrames(this.#calls, registry, this.#unserved, clock);
    this.#callFrames = new CallFrames(this.#calls);
    this.#admission = new Admission(this.#calls);
    this.#answers = new AnswerSender(this.#calls);
    this.#handlers = new HandlerRunner(this.#admission, this.#answers);
  }

  /**
   * The session was taken: methods that it does not serve are refused from now on, once something
   * is served.
   */
  onTaken(): void {
    this.#unserved.onTaken();
  }

  /** Calls of the peer that are not over: arriving, waiting, running, or waiting for an answer. */
  get pending(): number {
    return Math.max(this.#calls.open, this.running);
  }

  /** Those of them that have arrived: their handlers run, or will. */
  get working(): number {
    return this.pending - this.#calls.unfinished;
  }

  /** Calls that are not over. */
  get openCalls(): readonly IncomingCall[] {
    return this.#calls.streams.all();
  }

  /** The state of the call of this stream, for simulations; undefined: there is none. */
  stateOf(slot: number, generation: number): IncomingState | undefined {
    return this.#calls.streams.peek(slot, generation)?.state;
  }

  /** Grows whenever a call is opened, or more of its request arrives. */
  get moved(): number {
    return this.#calls.begun + this.#openFrames.pieces;
  }

  /** Handlers at work, those of cancelled calls included. */
  get running(): number {
    return this.#admission.running;
  }

  /** Handlers that were started, ever. */
  get started(): number {
    return this.#admission.started;
  }

  /**
   * From now on new calls are refused. Those that were opened before go on, and notifications are
   * still taken.
   */
  drain(): void {
    this.#calls.isDraining = true;
    this.#unserved.release();
    this.resume();
    this.#calls.endWatches();
  }

  /** Calls that would last for ever are told that one side is about to close. */
  endWatches(): void {
    this.#calls.endWatches();
  }

  learn(header: Header, payload: Uint8Array): void {
    this.#openFrames.learn(header, payload);
  }

  placeFor(header: Header, bytes: number): Uint8Array | undefined {
    return this.#openFrames.placeFor(header, bytes);
  }

  /** A frame of a stream that the peer opened. */
  onFrame(
    header: Header,
    memory: Uint8Array,
    from: number,
    to: number,
    block: ArrivedBlock | undefined,
  ): void {
    const placed = this.#openFrames.takePlaced();
    if (header.type === FrameType.open) {
      const opened = this.#openFrames.read(header, memory, from, to, placed, block);
      if (opened !== undefined) this.#onOpened(opened);
      return;
    }
    const payload = partOf(memory, from, to);
    const call = this.#calls.streams.find(header.slot, header.generation);
    const isPiece = header.type === FrameType.fragment && call?.reader === undefined;
    if (!isPiece) return this.#callFrames.onFrame(call, header, payload, block);
    if (call === undefined || call.isOver) return; // its opener did not know that yet
    if (this.#openFrames.addFragment(call, payload)) this.#onRequest(call);
  }

  /**
   * The short way of the frame at `at`, of a call that has nothing but its request, for a method
   * that is served: as {@link OpenFrames.read} and {@link Callee.#onRequest}. False: nothing was
   * done.
   */
  onPlain(fields: DataView, at: number, memory: Uint8Array, from: number, to: number): boolean {
    const { shared, streams, spares, isDraining } = this.#calls;
    const messageBytes = to - from;
    const hasMore =
      fields.getUint32(at + PlainField.requestBytes, true) !== messageBytes ||
      fields.getUint32(at + PlainField.timeoutMs, true) !== noTimeout ||
      fields.getUint32(at + PlainField.metadataBytes, true) !== 0;
    const isPlacing = this.#openFrames.placed !== undefined;
    if (hasMore || isDraining || isPlacing || this.#unserved.isScheduled) return false;
    const number = fields.getUint32(at + PlainField.method, true);
    let method = this.#plainMethods[number];
    if (method === undefined || method.changes !== changes.count) {
      method = this.#plainMethod(number);
      if (method === undefined) return false;
    }
    const slot = fields.getUint32(at + PlainField.slot, true);
    const generation = fields.getUint32(at + PlainField.generation, true);
    if (generation === 0 || slot >= streams.slotsMax) return false;
    streams.open(slot, generation);
    const charge = takeMessage(shared, Window.requests, messageBytes);
    const call = spares.pop() ?? new IncomingCall(emptyOpening(), this.#calls);
    call.begin(slot, generation, method.name, method.counters, charge, messageBytes);
    const { served } = method;
    let value: unknown;
    try {
      value = decodePart(served.request, memory, from, to, shared.own.jsonMaxBytes);
    } catch (error) {
      call.refuseRequest(error);
      return true;
    }
    if (call.state !== 'waiting') return true; // its codec has ended the session
    if (this.#admission.admit(call, served, value)) this.#handlers.run(call, served, value);
    return true;
  }

  /** The method of plain calls that has this number; undefined: there is none. */
  #plainMethod(number: number): PlainMethod | undefined {
    const name = this.#openFrames.nameOf(number);
    const served = name === undefined ? undefined : this.#registry.find(name);
    if (name === undefined || served?.isPlain !== true) return undefined;
    const counters = this.#shared.counters.served.of(name, CallKind.unary);
    const method = { name, served, counters, changes: changes.count };
    this.#plainMethods[number] = method;
    return method;
  }

  /** A cancel that is seen ahead of what came before it. True: it was taken. */
  takeAhead(header: Header): boolean {
    const call = this.#calls.streams.peek(header.slot, header.generation);
    const isCancel = header.reason === ResetReason.cancelled;
    if (call === undefined || call.isOver || !isCancel) return false;
    this.#callFrames.onReset(call, header.reason);
    return true;
  }

  /** Goes on with all that may go on: answers that wait, and requests. */
  resume(): void {
    // A handler that answers at once comes back here: the loop is under way already.
    const hasWork =
      this.#calls.waitingAnswers > 0 || this.#unserved.due.length > 0 || this.#admission.hasWaiting;
    if (this.#isResuming || !hasWork) return;
    this.#isResuming = true;
    try {
      this.#answers.resume();
      for (let next = this.#unserved.next(); next; next = this.#unserved.next()) {
        this.#onUnserved(next);
      }
      for (let next = this.#admission.next(); next; next = this.#admission.next()) {
        this.#handlers.run(next.call, next.served, next.value);
      }
      for (let next = this.#admission.nextCrowded(); next; next = this.#admission.nextCrowded()) {
        // Refused, so that the caller can try elsewhere.
        if (this.#admission.isFull) next.call.refuse(ResetReason.limitStreams);
        else this.#handlers.run(next.call, next.served, next.value);
      }
    } finally {
      this.#isResuming = false;
    }
  }

  /** The session is over: every handler is told, nothing is sent any more. */
  end(code: SidecallErrorCode, error: SidecallError): void {
    for (const call of this.#calls.streams.all()) call.fail('failed', code, error, false);
    this.#admission.clear();
    this.#unserved.clear();
    this.#answers.clear();
  }

  #onOpened(call: IncomingCall): void {
    const { kind } = call.opening;
    if (kind >= CallKind.channel) this.#onChannel(call);
    else if (sendsMany(kind)) this.#onStream(call);
    else if (this.#openFrames.request.isWhole) this.#onRequest(call);
  }

  /** The request of a call is whole. */
  #onRequest(call: IncomingCall): void {
    const arrived = this.#openFrames.request;
    const { memory, from, to } = arrived;
    let { assembly } = arrived;
    arrived.clear();
    call.requestBytes = to - from;
    call.counters.countReceived(to - from);
    if (this.#unserved.mustWait(call.opening.method)) {
      const payload = partOf(memory, from, to);
      const own = assembly === undefined ? Buffer.from(payload) : payload;
      return this.#unserved.push({ call, bytes: own });
    }
    const served = this.#servedFor(call);
    if (served === undefined) return assembly?.release();
    const { request } = served;
    if (request.borrowsBytes === true) {
      assembly ??= MessageAssembly.ofBorrowed(partOf(memory, from, to), request);
    }
    if (request.borrowsBytes === true && assembly !== undefined) {
      call.memory = new RequestMemory(assembly, undefined);
    }
    const { jsonMaxBytes } = this.#shared.own;
    let value: unknown;
    try {
      value =
        assembly === undefined
          ? decodePart(request, memory, from, to, jsonMaxBytes)
          : assembly.decode(jsonMaxBytes, request);
    } catch (error) {
      call.returnRequest();
      return call.refuseRequest(error);
    }
    this.#admit(call, served, value);
  }

  #admit(call: IncomingCall, served: Served, value: unknown): void {
    if (value instanceof Lease) {
      call.memory = new RequestMemory(undefined, value);
    }
    if (this.#admission.admit(call, served, value)) this.#handlers.run(call, served, value);
  }

  /** The call has no request: messages follow. */
  #onStream(call: IncomingCall): void {
    if (!this.#unserved.mustWait(call.opening.method)) return this.#startStream(call);
    call.openReader(bytes as Codec<unknown>);
    this.#unserved.push({ call, bytes: undefined });
  }

  #startStream(call: IncomingCall): void {
    const served = this.#servedFor(call);
    if (served === undefined) return;
    const reader = call.reader ?? call.openReader(served.request);
    reader.codec = served.request;
    this.#admit(call, served, reader);
  }

  /** A request that waited for its method to be served is looked at again. */
  #onUnserved(request: UnservedRequest): void {
    const { call, bytes: payload } = request;
    if (!this.#unserved.isKnown(call.opening.method)) {
      if (this.#calls.isDraining) return call.refuse(ResetReason.goingAway);
      return this.#unserved.push(request);
    }
    if (payload === undefined) return this.#startStream(call);
    const served = this.#servedFor(call);
    if (served === undefined) return;
    let value: unknown;
    try {
      value = decodeWith(served.request, payload, true, this.#shared.own.jsonMaxBytes);
    } catch (error) {
      return call.refuseRequest(error);
    }
    this.#admit(call, served, value);
  }

  /** The method of the call; undefined: it is not served, and its caller was told. */
  #servedFor(call: IncomingCall): Served | undefined {
    const served = this.#registry.find(call.opening.method);
    if (served === undefined) {
      // Its request arrived in pieces, and the session closes before anything was served.
      const isTooLate = this.#calls.isDraining && !this.#unserved.isKnown(call.opening.method);
      if (isTooLate) call.refuse(ResetReason.goingAway);
      else call.answer(plainEnd('unimplemented', 'not served here'));
      return undefined;
    }
    if (served.callKind !== call.opening.kind) {
      call.answer(plainEnd('unimplemented', `served here as a ${served.kind} method`));
      return undefined;
    }
    countServed(call);
    call.isBulk = served.isBulk;
    call.endsAtDrain = served.endsAtDrain;
    return served;
  }

  #onChannel(call: IncomingCall): void {
    const { kind, method: name, metadata } = call.opening;
    const acceptor = this.#acceptors.find(kind, name);
    if (acceptor === undefined) {
      // The channel was begun before its opener knew, or said, that the session closes.
      if (this.#acceptors.isEnded) return call.refuse(ResetReason.goingAway);
      return call.answer(plainEnd('unimplemented', 'nobody accepts it here'));
    }
    if (acceptor.isFull) {
      return call.answer(plainEnd('resource_exhausted', 'too many wait to be accepted'));
    }
    countServed(call);
    call.isBulk = acceptor.isBulk;
    const reader = call.openReader(acceptor.codec);
    const writer = call.openWriter(acceptor.codec);
    call.channel = new ChannelHalves(this.#shared, call, { reader, writer, flags: 0, name });
    call.releaseWindow();
    const arrived = { core: call.channel, name, metadata, peer: this.#shared.peer };
    call.trace = traceHandler(this.#shared, name, kind);
    if (call.trace === undefined) acceptor.push(arrived);
    else call.trace.run(() => acceptor.push(arrived));
  }
}
