// SPDX-License-Identifier: MIT
// The half of a session that calls: admits calls, sends them, gives them up.
import { SidecallError } from '../errors.ts';
import { Fifo } from '../fifo.ts';
import {
  CallKind,
  FrameFlag,
  type Header,
  noTimeout,
  ResetReason,
  receivesMany,
  sendsMany,
} from '../frame.ts';
import { fixed } from '../limits.ts';
import { encodeMetadata } from '../metadata.ts';
import type { ArrivedBlock } from '../transport.ts';
import { AbortWatch } from './abort-watch.ts';
import { refuseMessage } from './answers.ts';
import { bindCallbacks, type CallOptions, checkCallOptions } from './call.ts';
import { ChannelCore, sendHalfEnd } from './channel-core.ts';
import { bytes, type Codec, keepWaiting } from './codec.ts';
import { chargeOf, type SendCredit, Window } from './credit.ts';
import { inheritedDeadline, timeLeftMs } from './deadline.ts';
import {
  type Body,
  bodyBytesOf,
  detachedError,
  discard,
  encodeBody,
  freeValue,
  isDetached,
  queuedBytesOf,
} from './lease.ts';
import type { Link } from './link.ts';
import { AnnouncedNames } from './method-names.ts';
import { type CallOwner, OutgoingCall } from './outgoing-call.ts';
import { type OpenCalls, Responses, resetReasonFor } from './responses.ts';
import type { OutgoingMessage } from './schedule.ts';
import { checkMethodName } from './service.ts';
import { StreamReader } from './stream-reader.ts';
import { OpenedStreams } from './stream-table.ts';
import { StreamWriter } from './stream-writer.ts';

/** What is called, and in which codecs. */
export interface Callable {
  readonly name: string;
  /** One of `CallKind`. */
  readonly kind: number;
  readonly request: Codec<unknown>;
  /** undefined: nobody waits for an answer. */
  readonly response: Codec<unknown> | undefined;
  /** Its messages go behind those of others. */
  readonly isBulk: boolean;
  /** It may be run twice. */
  readonly isIdempotent: boolean;
}

const nothing = new Uint8Array(0);

export class Caller implements CallOwner, OpenCalls {
  readonly #link: Link;
  readonly #streams: OpenedStreams<OutgoingCall>;
  readonly #names = new AnnouncedNames();
  readonly #responses: Responses;
  // Calls that wait for a slot, for credit or for the send queue, in the order they were made. Those with
  // a long message wait apart, for the queue that they wait for is one of their own; so do notifications.
  readonly #waiting = new Fifo<OutgoingCall>();
  readonly #waitingBulk = new Fifo<OutgoingCall>();
  readonly #waitingNotifications = new Fifo<OutgoingCall>();
  readonly #queues = [this.#waitingNotifications, this.#waiting, this.#waitingBulk];
  // All notifications leave by one line: short ones do not overtake long ones.
  readonly #notifications = new Fifo<OutgoingMessage>();
  readonly #aborts = new AbortWatch((call, reason) => {
    this.giveUp(call, reason, ResetReason.cancelled);
  });
  #refusal: SidecallError | undefined;
  /** Calls that were sent, ever. */
  begun = 0;

  constructor(link: Link) {
    this.#link = link;
    this.#streams = new OpenedStreams(link.remote.streamsMax);
    this.#responses = new Responses(link, this);
  }

  /** Calls that have not settled yet, notifications at work included. */
  get pending(): number {
    return this.#streams.size + this.waiting;
  }

  /** Calls and notifications that wait to be sent. */
  get waiting(): number {
    return this.#waiting.length + this.#waitingBulk.length + this.#waitingNotifications.length;
  }

  /** From now on every new call fails with this; those that wait fail at once, those open go on. */
  refuse(error: SidecallError): void {
    this.#refusal ??= error;
    for (const waiting of this.#queues) {
      for (let call = waiting.shift(); call; call = waiting.shift()) {
        call.reject(new SidecallError(error.code, error.message, { delivered: 'no' }));
      }
    }
  }

  /** A new call of ours is on its way, part of it sent. */
  get isSending(): boolean {
    return this.#streams
      .open()
      .some(({ queued, request }) => queued > 0 && !sendsMany(request.kind));
  }

  /** As {@link Caller.refuse}; those that are open but of which nothing was sent fail, too. */
  refuseUnsent(error: SidecallError): void {
    this.refuse(error);
    for (const call of this.#streams.open()) {
      if (call.isWritten) continue;
      this.#takeBackCharge(call);
      this.remove(call, { endedByPeer: false });
      const words = `${call.request.method}: ${error.message}`;
      if (!call.isSettled) {
        call.reject(new SidecallError(error.code, words, { delivered: 'no' }));
      } else this.#responses.reportFailed(call, error);
    }
  }

  /** A call with one answer, or a notification. Rejects, never throws. */
  call(callable: Callable, value: unknown, options: CallOptions | undefined): Promise<unknown> {
    return this.open(callable, value, options).promise;
  }

  /** Never throws: what is wrong rejects the call's promise, and fails its halves. */
  open(callable: Callable, value: unknown, options: CallOptions | undefined): OutgoingCall {
    let call: OutgoingCall;
    try {
      call = this.#prepare(callable, value, options);
    } catch (error) {
      freeValue(value);
      call = this.#make(callable, noOptions, nothing, 0, nothing);
      call.reject(error);
      return call;
    }
    const waiting = this.#queueFor(call);
    if (waiting.length === 0 && this.#canStart(call)) this.#start(call);
    else if (this.waiting < fixed.waitingCallsMax) {
      call.request.body = keepWaiting(callable.request, call.request.body);
      waiting.push(call);
    } else call.reject(new SidecallError('ERR_SIDECALL_LIMIT_STREAMS', waitingWords));
    return call;
  }

  /** Something came free: starts what waits, in order. */
  startWaiting(): void {
    for (const waiting of this.#queues) {
      for (let call = waiting.peek(); call && this.#canStart(call); call = waiting.peek()) {
        waiting.shift();
        this.#start(call);
      }
    }
  }

  placeFor(header: Header, bytes: number): Uint8Array | undefined {
    return this.#responses.placeFor(header, bytes);
  }

  /** A frame of a stream that we opened. */
  onFrame(header: Header, payload: Uint8Array, block: ArrivedBlock | undefined): void {
    this.#responses.onFrame(header, payload, block);
  }

  onCallDeadline(call: OutgoingCall): void {
    const error = new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', lateWords(call), {
      delivered: call.isWritten ? 'unknown' : 'no',
    });
    this.giveUp(call, error, ResetReason.deadlineExceeded);
  }

  onReaderStopped(call: OutgoingCall, error: SidecallError | undefined): void {
    if (call.channel !== undefined && error !== undefined && call.isOpen) {
      call.reject(error);
      refuseMessage(this.#link, call, FrameFlag.fromOpener);
      this.remove(call, { endedByPeer: false });
      return this.#link.onCallEnded();
    }
    const reason = error ?? new SidecallError('ERR_SIDECALL_CANCELLED');
    this.giveUp(call, reason, ResetReason.cancelled);
  }

  /** Ends our half of a call's stream. Resolves when the peer has all of it, or the call has ended well. */
  endHalf(call: OutgoingCall): Promise<void> {
    if (call.isSettled) return call.promise.then(() => undefined);
    const taken = new Promise<void>((resolve, reject) => {
      call.onEndTaken = (error) => (error === undefined ? resolve() : reject(error));
    });
    taken.catch(() => undefined);
    call.writer?.end(() => sendHalfEnd(this.#link, call, FrameFlag.fromOpener));
    return taken;
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
      this.remove(call, { endedByPeer: false });
      if (call.isSettled) continue;
      const { cause } = error;
      call.reject(new SidecallError(error.code, error.message, { cause, delivered }), false);
    }
  }

  find(slot: number, generation: number): OutgoingCall | undefined {
    return this.#streams.find(slot, generation);
  }

  /** The caller's own doing: nothing more is awaited, and the peer is told if it ever heard of it. */
  giveUp(call: OutgoingCall, reason: unknown, wireReason: number): void {
    if (call.isSettled) return;
    call.reject(reason);
    if (!call.isStarted) this.#queueFor(call).remove(call);
    if (!call.isOpen) return; // never begun, or the peer has ended it this very moment
    if (call.isWritten) this.#sendReset(call, wireReason);
    else this.#takeBackCharge(call);
    this.remove(call, { endedByPeer: false });
    this.#link.onCallEnded();
  }

  /** Its slot is free. Whoever calls it settles the call. */
  remove(call: OutgoingCall, { endedByPeer }: { endedByPeer: boolean }): void {
    // User code runs between this and the settling of a call, and may abort it: once is enough.
    if (!call.isOpen) return;
    call.isOpen = false;
    this.#link.dropQueued(call);
    if (call.answerCharge > 0) this.#link.giveBack(Window.answers, call.answerCharge);
    call.answerCharge = 0;
    call.assembly = undefined;
    this.#streams.remove(call, { wasSent: call.isWritten, endedByPeer });
  }

  #prepare(callable: Callable, value: unknown, given: CallOptions | undefined): OutgoingCall {
    const options = withInheritedDeadline(checkCallOptions(given));
    options.signal?.throwIfAborted();
    if (this.#refusal !== undefined) {
      const { code, message, cause } = this.#refusal;
      throw new SidecallError(code, message, { delivered: 'no', cause });
    }
    if (options.timeoutMs === 0) {
      throw new SidecallError(
        'ERR_SIDECALL_DEADLINE_EXCEEDED',
        `${callable.name}: no time was left, so nothing was sent`,
        { delivered: 'no' },
      );
    }
    if (this.#names.numberOf(callable.name) === undefined) checkMethodName(callable.name);
    const { remote } = this.#link;
    const metadata = encodeMetadata(options.metadata, this.#link.metadataMaxBytes);
    const mayLend = metadata.byteLength <= fixed.blockPrefixMaxBytes;
    const body = sendsMany(callable.kind)
      ? nothing
      : encodeBody(this.#link, callable.request, value, mayLend);
    const bodyBytes = bodyBytesOf(body);
    if (bodyBytes > remote.receiveMaxBytes) {
      const words = `${callable.name}: message of ${bodyBytes} bytes exceeds the peer's receiveMaxBytes ${remote.receiveMaxBytes}; raise limits.receiveMaxBytes there`;
      discard(body);
      throw new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', words);
    }
    const call = this.#make(callable, options, body, bodyBytes, metadata);
    if (options.signal !== undefined) this.#aborts.add(options.signal, call);
    return call;
  }

  #make(
    callable: Callable,
    options: CallOptions,
    body: Body,
    bodyBytes: number,
    metadata: Uint8Array,
  ): OutgoingCall {
    const { name: method, kind, isBulk, response } = callable;
    const request = {
      method,
      kind,
      body,
      bodyBytes,
      metadata,
      response,
      isBulk,
      isTransient: callable.request.reusesBytes === true,
      options: bindCallbacks(options),
    };
    const line = kind === CallKind.notification ? this.#notifications : undefined;
    const call = new OutgoingCall(request, this, line);
    if (kind > CallKind.notification) this.#addHalves(call, callable);
    return call;
  }

  /** What makes a call a stream. */
  #addHalves(call: OutgoingCall, callable: Callable): void {
    const link = this.#link;
    const { kind, name } = callable;
    const flags = FrameFlag.fromOpener;
    if (receivesMany(kind)) {
      const codec = callable.response ?? bytes;
      const windowBytes = call.request.options.windowBytes ?? link.own.streamWindowBytes;
      call.reader = new StreamReader({ link, stream: call, codec, flags, windowBytes });
    }
    if (sendsMany(kind)) {
      const windowBytes = link.remote.streamWindowBytes;
      const codec = callable.request;
      call.writer = new StreamWriter({ link, stream: call, codec, name, flags, windowBytes });
    }
    const { reader, writer } = call;
    if (kind < CallKind.channel || reader === undefined || writer === undefined) return;
    const onOver = (): void => {
      // The peer may not know yet that its end was answered, and give the channel up.
      this.remove(call, { endedByPeer: false });
      call.resolve(undefined);
      link.onCallEnded();
    };
    const onAbort = (error: unknown): void => this.giveUp(call, error, resetReasonFor(error));
    call.channel = new ChannelCore(link, call, { reader, writer, flags, name, onOver, onAbort });
  }

  /** Where a call waits, if it has to. */
  #queueFor({ request }: OutgoingCall): Fifo<OutgoingCall> {
    if (request.kind === CallKind.notification) return this.#waitingNotifications;
    return this.#isBulk(request) ? this.#waitingBulk : this.#waiting;
  }

  #isBulk(request: OutgoingCall['request']): boolean {
    const queuedBytes = queuedBytesOf(request.body, request.bodyBytes);
    return request.isBulk || this.#link.schedule.isBulk(request.metadata.byteLength + queuedBytes);
  }

  #creditFor({ request }: OutgoingCall): SendCredit {
    const isNotification = request.kind === CallKind.notification;
    const window = isNotification ? Window.notifications : Window.requests;
    return this.#link.sendCredit[window] as SendCredit;
  }

  #canStart(call: OutgoingCall): boolean {
    const { schedule, own } = this.#link;
    return (
      this.#streams.hasRoom &&
      this.#creditFor(call).hasCredit &&
      schedule.hasRoom(this.#isBulk(call.request), own.sendQueueMaxBytes)
    );
  }

  #start(call: OutgoingCall): void {
    const { schedule } = this.#link;
    const { request } = call;
    if (isDetached(request.body, request.bodyBytes)) {
      return call.reject(detachedError(request.method));
    }
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
    this.begun += 1;
    this.#creditFor(call).spend(chargeOf(request.bodyBytes));
    const header = schedule.header.open({
      kind: request.kind,
      slot: call.slot,
      generation: call.generation,
      method,
      timeoutMs: call.deadline === undefined ? noTimeout : timeLeftMs(call.deadline),
      metadataBytes: request.metadata.byteLength,
      messageBytes: request.bodyBytes,
      windowBytes: request.options.windowBytes ?? 0,
    });
    schedule.send(call, header, request.metadata, request.body, request.bodyBytes);
    if (request.kind === CallKind.notification) call.resolve(undefined);
    else call.writer?.start();
  }

  #takeBackCharge(call: OutgoingCall): void {
    this.#creditFor(call).spend(-chargeOf(call.request.bodyBytes));
  }

  #sendReset(call: OutgoingCall, reason: number): void {
    const { schedule } = this.#link;
    const flags = FrameFlag.fromOpener;
    const header = schedule.header.reset(flags, call.slot, call.generation, reason);
    schedule.sendControl(header, undefined, true);
  }
}

/** A call that a handler makes has no more time than the handler's own call. */
function withInheritedDeadline(options: CallOptions): CallOptions {
  const deadline = inheritedDeadline();
  if (deadline === undefined) return options;
  const leftMs = timeLeftMs(deadline);
  const isEarlier = options.timeoutMs === undefined || leftMs < options.timeoutMs;
  return isEarlier ? { ...options, timeoutMs: leftMs } : options;
}

const noOptions: CallOptions = Object.freeze({});

const waitingWords = `${fixed.waitingCallsMax} calls already wait on this session; the peer does not keep up`;

function lateWords(call: OutgoingCall): string {
  const { method, options } = call.request;
  const where = call.isWritten ? 'after it was sent' : 'before it was sent';
  return `${method}: timeoutMs ${options.timeoutMs} passed ${where}`;
}
