// SPDX-License-Identifier: MIT
// The half of a session that calls: admits calls, sends them, settles them by what comes back.
import { RpcError, SidecallError, statuses } from '../errors.ts';
import { emitEvent } from '../events.ts';
import { Fifo } from '../fifo.ts';
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
import { AbortWatch } from './abort-watch.ts';
import { type CallOptions, checkCallOptions } from './call.ts';
import { type Codec, decodeWith, encodeWith, json } from './codec.ts';
import { chargeOf, Window } from './credit.ts';
import { timeLeftMs } from './deadline.ts';
import { Assembly } from './fragment.ts';
import type { Link } from './link.ts';
import { AnnouncedNames } from './method-names.ts';
import { type CallOwner, OutgoingCall } from './outgoing-call.ts';
import { checkMethodName } from './service.ts';
import { OpenedStreams } from './stream-table.ts';

/** What is called, and in which codecs. `response` undefined: a notification. */
export interface Callable {
  readonly name: string;
  readonly request: Codec<unknown>;
  readonly response: Codec<unknown> | undefined;
}

export class Caller implements CallOwner {
  readonly #link: Link;
  readonly #streams: OpenedStreams<OutgoingCall>;
  readonly #names = new AnnouncedNames();
  // Calls that wait for a slot, for credit or for the send queue, in the order they were made. Those with
  // a long message wait apart: the queue that they wait for is one of their own.
  readonly #waiting = new Fifo<OutgoingCall>();
  readonly #waitingBulk = new Fifo<OutgoingCall>();
  readonly #aborts = new AbortWatch((call, reason) => {
    this.#giveUp(call, reason, ResetReason.cancelled);
  });
  #refusal: SidecallError | undefined;

  constructor(link: Link) {
    this.#link = link;
    this.#streams = new OpenedStreams(link.remote.streamsMax);
  }

  /** Calls that have not settled yet, notifications at work included. */
  get pending(): number {
    return this.#streams.size + this.waiting;
  }

  /** Calls and notifications that wait to be sent. */
  get waiting(): number {
    return this.#waiting.length + this.#waitingBulk.length;
  }

  /** From now on every new call fails with this; those that wait fail at once, those open go on. */
  refuse(error: SidecallError): void {
    this.#refusal ??= error;
    for (const waiting of [this.#waiting, this.#waitingBulk]) {
      for (let call = waiting.shift(); call; call = waiting.shift()) {
        call.reject(new SidecallError(error.code, error.message, { delivered: 'no' }));
      }
    }
  }

  /** A request of ours is on its way, part of it sent. */
  get isSending(): boolean {
    return this.#streams.open().some((call) => (call.outgoing?.length ?? 0) > 0);
  }

  /** As {@link Caller.refuse}; those that are open but of which nothing was sent fail, too. */
  refuseUnsent(error: SidecallError): void {
    this.refuse(error);
    for (const call of this.#streams.open()) {
      if (call.isWritten) continue;
      this.#link.sendCredit.requests.spend(-chargeOf(call.request.bodyBytes));
      this.#remove(call, { endedByPeer: false });
      const words = `${call.request.method}: ${error.message}`;
      this.#settleFailed(call, () => new SidecallError(error.code, words, { delivered: 'no' }));
    }
  }

  /** Rejects, never throws. */
  call(callable: Callable, value: unknown, options: CallOptions | undefined): Promise<unknown> {
    let call: OutgoingCall;
    try {
      call = this.#prepare(callable, value, options);
    } catch (error) {
      const refused = Promise.reject(error);
      refused.catch(() => undefined);
      return refused;
    }
    const waiting = this.#waitingWith(call);
    if (waiting.length === 0 && this.#canStart(call)) this.#start(call);
    else if (this.waiting < fixed.waitingCallsMax) waiting.push(call);
    else call.reject(new SidecallError('ERR_SIDECALL_LIMIT_STREAMS', waitingWords));
    return call.promise;
  }

  /** Something came free: starts what waits, in order. */
  startWaiting(): void {
    for (const waiting of [this.#waiting, this.#waitingBulk]) {
      for (let call = waiting.peek(); call && this.#canStart(call); call = waiting.peek()) {
        waiting.shift();
        this.#start(call);
      }
    }
  }

  /** Where a call of this length waits, if it has to. */
  #waitingWith({ request }: OutgoingCall): Fifo<OutgoingCall> {
    return this.#link.schedule.isBulk(queuedBytes(request)) ? this.#waitingBulk : this.#waiting;
  }

  /** Place for a piece of an answer; for its first one, where all is as it should be, too. */
  placeFor(header: Header, bytes: number): Uint8Array | undefined {
    const call = this.#streams.find(header.slot, header.generation);
    if (call === undefined) return undefined;
    const isFirst = header.type === FrameType.message && call.assembly === undefined;
    const messageBytes = header.a;
    if (isFirst && messageBytes <= this.#link.own.receiveMaxBytes && bytes <= messageBytes) {
      const { response } = call.request;
      if (response === undefined || call.hasAnswer) return undefined;
      call.placed = new Assembly(messageBytes, response.keepsBytes === true);
      return call.placed.place(bytes);
    }
    return header.type === FrameType.fragment ? call.assembly?.place(bytes) : undefined;
  }

  /** A frame of a stream that we opened. */
  onFrame(header: Header, payload: Uint8Array): void {
    const call = this.#streams.find(header.slot, header.generation);
    switch (header.type) {
      case FrameType.message:
        return this.#onMessage(call, header, payload);
      case FrameType.fragment:
        if (call !== undefined) this.#onFragment(call, payload);
        return;
      case FrameType.headers:
        if (call !== undefined) this.#onHeaders(call, payload);
        return;
      case FrameType.end:
        if (call !== undefined) this.#onEnd(call, header, payload);
        return;
      case FrameType.reset:
        if (call !== undefined) this.#onReset(call, header.aux);
        return;
      default:
        throw protocol('frame that only an opener sends');
    }
  }

  onCallDeadline(call: OutgoingCall): void {
    const error = new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', lateWords(call), {
      delivered: call.isWritten ? 'unknown' : 'no',
    });
    this.#giveUp(call, error, ResetReason.deadlineExceeded);
  }

  onCallSettled(call: OutgoingCall): void {
    const { signal } = call.request.options;
    if (signal !== undefined) this.#aborts.remove(signal, call);
  }

  /** The session is over: everything rejects, each with what is known of its delivery. */
  end(error: SidecallError): void {
    // Why it broke says more than that one of us was leaving.
    if (error.code !== 'ERR_SIDECALL_CLOSED') this.#refusal = error;
    this.refuse(error);
    const { consumedPosition } = this.#link.transport;
    for (const call of this.#streams.open()) {
      const wasTaken = consumedPosition === undefined || call.sentPosition <= consumedPosition;
      const delivered = call.isWritten && wasTaken ? 'unknown' : 'no';
      this.#remove(call, { endedByPeer: false });
      if (call.isSettled) continue;
      const { cause } = error;
      call.reject(new SidecallError(error.code, error.message, { cause, delivered }));
    }
  }

  #prepare(callable: Callable, value: unknown, given: CallOptions | undefined): OutgoingCall {
    const options = checkCallOptions(given);
    options.signal?.throwIfAborted();
    if (this.#refusal !== undefined) {
      const { code, message, cause } = this.#refusal;
      throw new SidecallError(code, message, { delivered: 'no', cause });
    }
    if (options.timeoutMs === 0) {
      throw new SidecallError(
        'ERR_SIDECALL_DEADLINE_EXCEEDED',
        `${callable.name}: timeoutMs was 0, so nothing was sent`,
        { delivered: 'no' },
      );
    }
    if (this.#names.numberOf(callable.name) === undefined) checkMethodName(callable.name);
    const { remote } = this.#link;
    const body = encodeWith(callable.request, value);
    const bodyBytes = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength;
    if (bodyBytes > remote.receiveMaxBytes) {
      const words = `${callable.name}: message of ${bodyBytes} bytes exceeds the peer's receiveMaxBytes ${remote.receiveMaxBytes}; raise limits.receiveMaxBytes there`;
      throw new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', words);
    }
    const request = {
      method: callable.name,
      kind: callable.response === undefined ? CallKind.notification : CallKind.unary,
      body,
      bodyBytes,
      metadata: encodeMetadata(options.metadata, this.#link.metadataMaxBytes),
      response: callable.response,
      options,
    };
    const call = new OutgoingCall(request, this);
    if (options.signal !== undefined) this.#aborts.add(options.signal, call);
    return call;
  }

  #canStart({ request }: OutgoingCall): boolean {
    const { schedule, sendCredit, own } = this.#link;
    return (
      this.#streams.hasRoom &&
      sendCredit.requests.hasCredit &&
      schedule.hasRoomFor(queuedBytes(request), own.sendQueueMaxBytes)
    );
  }

  #start(call: OutgoingCall): void {
    const { schedule, sendCredit } = this.#link;
    const { request } = call;
    let method = this.#names.numberOf(request.method);
    if (method === undefined) {
      try {
        method = this.#names.announce(request.method);
      } catch (error) {
        return call.reject(error);
      }
      schedule.sendControl(schedule.header.method(method), request.method);
    }
    this.#streams.add(call);
    call.isStarted = true;
    call.isOpen = true;
    sendCredit.requests.spend(chargeOf(request.bodyBytes));
    const header = schedule.header.open({
      kind: request.kind,
      slot: call.slot,
      generation: call.generation,
      method,
      timeoutMs: call.deadline === undefined ? noTimeout : timeLeftMs(call.deadline),
      metadataBytes: request.metadata.byteLength,
      messageBytes: request.bodyBytes,
    });
    schedule.send(call, header, request.metadata, request.body, request.bodyBytes);
    if (request.response === undefined) call.resolve(undefined);
  }

  #onMessage(call: OutgoingCall | undefined, header: Header, payload: Uint8Array): void {
    const messageBytes = header.a;
    const { own, receiveCredit } = this.#link;
    if (messageBytes > own.receiveMaxBytes) throw tooLarge(messageBytes, own.receiveMaxBytes);
    if (payload.byteLength > messageBytes) throw protocol('message longer than it announced');
    const charge = chargeOf(messageBytes);
    receiveCredit.answers.take(charge);
    if (call === undefined) return this.#link.giveBack(Window.answers, charge); // given up meanwhile
    if (call.request.response === undefined || call.hasAnswer || call.assembly !== undefined) {
      throw protocol('second answer');
    }
    call.answerCharge = charge;
    const isLast = (header.flags & FrameFlag.end) !== 0;
    call.hasAnswer = isLast;
    const { placed } = call;
    call.placed = undefined;
    if (placed === undefined && payload.byteLength === messageBytes) {
      return this.#onAnswer(call, payload, false);
    }
    const keeps = call.request.response.keepsBytes === true;
    call.assembly = placed ?? new Assembly(messageBytes, keeps);
    if (payload.byteLength > 0) this.#onFragment(call, payload);
  }

  #onFragment(call: OutgoingCall, payload: Uint8Array): void {
    const { assembly } = call;
    if (assembly === undefined) throw protocol('fragment of no message');
    if (!assembly.add(payload)) return;
    call.assembly = undefined;
    this.#onAnswer(call, assembly.bytes, assembly.isOwned);
    assembly.release();
  }

  /** The answer is whole. Where trailers follow, it waits for them. */
  #onAnswer(call: OutgoingCall, payload: Uint8Array, isOwned: boolean): void {
    const endsHere = call.hasAnswer;
    call.hasAnswer = true;
    this.#link.giveBack(Window.answers, call.answerCharge);
    call.answerCharge = 0;
    try {
      const codec = call.request.response as Codec<unknown>;
      call.answer = decodeWith(codec, payload, isOwned);
    } catch (error) {
      if (!endsHere && call.isOpen) this.#sendReset(call, ResetReason.cancelled);
      this.#remove(call, { endedByPeer: endsHere });
      if (!call.isSettled) call.reject(error);
      return this.#link.onCallEnded();
    }
    if (!endsHere) return;
    this.#remove(call, { endedByPeer: true });
    this.#settleOk(call);
    this.#link.onCallEnded();
  }

  #onHeaders(call: OutgoingCall, payload: Uint8Array): void {
    if (call.hasHeaders || call.hasAnswer) throw protocol('headers out of turn');
    call.hasHeaders = true;
    this.#tell(call.request.options.onHeaders, this.#metadata(payload));
  }

  #onEnd(call: OutgoingCall, header: Header, payload: Uint8Array): void {
    const { aux: status, a: metadataBytes, b: textBytes } = header;
    const detailsAt = metadataBytes + textBytes;
    const name = statuses[status];
    if (name === undefined || detailsAt > payload.byteLength || call.assembly !== undefined) {
      throw protocol('end of a stream that is none');
    }
    const metadata = this.#metadata(payload.subarray(0, metadataBytes));
    if (name === 'ok') {
      const isUnary = call.request.response !== undefined;
      if (isUnary !== call.hasAnswer || detailsAt !== payload.byteLength) {
        throw protocol('success without an answer');
      }
      this.#remove(call, { endedByPeer: true });
      if (metadataBytes > 0) this.#tell(call.request.options.onTrailers, metadata);
      this.#settleOk(call);
    } else {
      const text = payload.subarray(metadataBytes, detailsAt);
      const words = Buffer.from(text).toString('utf8');
      const message = `${call.request.method}: ${words === '' ? name : words}`;
      this.#remove(call, { endedByPeer: true });
      if (metadataBytes > 0) this.#tell(call.request.options.onTrailers, metadata);
      this.#settleFailed(call, () => {
        const rest = payload.subarray(detailsAt);
        const details = decodeWith(json<unknown>(), rest, false);
        return new RpcError(name, message, { details, metadata });
      });
    }
    this.#link.onCallEnded();
  }

  #settleOk(call: OutgoingCall): void {
    if (!call.isSettled) call.resolve(call.answer);
  }

  #settleFailed(call: OutgoingCall, makeError: () => SidecallError): void {
    let error: SidecallError;
    try {
      error = makeError();
    } catch (refused) {
      error = SidecallError.from(refused);
    }
    if (!call.isSettled) return call.reject(error);
    // A notification: its promise resolved long ago.
    const { peer, onEvent } = this.#link;
    const { method } = call.request;
    emitEvent(onEvent, { type: 'notification-failed', error, peer, method });
  }

  #onReset(call: OutgoingCall, reason: number): void {
    const code = resetCodes[reason];
    if (code === undefined) throw protocol('reset without a known reason');
    this.#remove(call, { endedByPeer: true });
    this.#settleFailed(
      call,
      () => new SidecallError(code, `${call.request.method}: ${resetWords[code]}`),
    );
    this.#link.onCallEnded();
  }

  /** The caller's own doing: nothing more is awaited, and the peer is told if it ever heard of it. */
  #giveUp(call: OutgoingCall, reason: unknown, wireReason: number): void {
    if (call.isSettled) return;
    call.reject(reason);
    if (!call.isStarted) this.#waitingWith(call).remove(call);
    if (!call.isOpen) return; // never begun, or the peer has ended it this very moment
    if (call.isWritten) this.#sendReset(call, wireReason);
    else this.#link.sendCredit.requests.spend(-chargeOf(call.request.bodyBytes));
    this.#remove(call, { endedByPeer: false });
    this.#link.onCallEnded();
  }

  #sendReset(call: OutgoingCall, reason: number): void {
    const { schedule } = this.#link;
    const flags = FrameFlag.fromOpener;
    schedule.sendControl(schedule.header.reset(flags, call.slot, call.generation, reason));
  }

  #remove(call: OutgoingCall, { endedByPeer }: { endedByPeer: boolean }): void {
    // User code runs between this and the settling of a call, and may abort it: once is enough.
    if (!call.isOpen) return;
    call.isOpen = false;
    this.#link.schedule.drop(call);
    if (call.answerCharge > 0) this.#link.giveBack(Window.answers, call.answerCharge);
    call.answerCharge = 0;
    call.assembly = undefined;
    this.#streams.remove(call, { wasSent: call.isWritten, endedByPeer });
  }

  #metadata(bytes: Uint8Array): Metadata {
    if (bytes.byteLength > this.#link.own.metadataMaxBytes)
      throw protocol('metadata over the limit');
    return decodeMetadata(bytes);
  }

  #tell(listener: ((metadata: Metadata) => void) | undefined, metadata: Metadata): void {
    if (listener === undefined) return;
    try {
      listener(metadata);
    } catch (error) {
      setImmediate(() => {
        throw error;
      });
    }
  }
}

const waitingWords = `${fixed.waitingCallsMax} calls already wait on this session; the peer does not keep up`;

const resetCodes: Record<number, keyof typeof resetWords | undefined> = {
  [ResetReason.deadlineExceeded]: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
  [ResetReason.limitStreams]: 'ERR_SIDECALL_LIMIT_STREAMS',
  [ResetReason.goingAway]: 'ERR_SIDECALL_GOING_AWAY',
};

const resetWords = {
  ERR_SIDECALL_DEADLINE_EXCEEDED: 'the deadline passed at the peer',
  ERR_SIDECALL_LIMIT_STREAMS: 'the peer runs as many handlers as it allows',
  ERR_SIDECALL_GOING_AWAY: 'the peer is closing and did not start this call',
} as const;

function lateWords(call: OutgoingCall): string {
  const { method, options } = call.request;
  const where = call.isWritten ? 'after it was sent' : 'before it was sent';
  return `${method}: timeoutMs ${options.timeoutMs} passed ${where}`;
}

/** The peer announced more than we said that we take. */
export function tooLarge(messageBytes: number, max: number): SidecallError {
  const words = `the peer announced a message of ${messageBytes} bytes; receiveMaxBytes is ${max}`;
  return new SidecallError('ERR_SIDECALL_FRAME_TOO_LARGE', words);
}

/** What the send queue will hold of a call. */
function queuedBytes({ metadata, bodyBytes }: OutgoingCall['request']): number {
  return metadata.byteLength + bodyBytes;
}
