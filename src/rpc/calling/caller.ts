// SPDX-License-Identifier: MIT
// The half of a session that calls: admits calls, sends them, gives them up.

import { SidecallError } from '../../base/errors.ts';
import { Fifo } from '../../base/fifo.ts';
import { causedBy } from '../../base/incident.ts';
import { noBytes, quiet } from '../../base/quiet.ts';
import { tuning } from '../../base/tuning.ts';
import { wireLimits } from '../../base/wire-limits.ts';
import {
  CallKind,
  FrameFlag,
  FrameType,
  type Header,
  inlineName,
  noTimeout,
  protocol,
  ResetReason,
  receivesMany,
  sendsMany,
} from '../../wire/frame-header.ts';
import { encodeMetadata } from '../../wire/metadata-bytes.ts';
import type { ArrivedBlock } from '../../wire/transport.ts';
import {
  bindCallbacks,
  type CallOptions,
  checkCallOptions,
  withInheritedDeadline,
} from '../contract/call-options.ts';
import { bytes } from '../contract/codec.ts';
import {
  detachedError,
  discard,
  encodeMessage,
  isDetached,
  type Message,
  messageBytesOf,
  queuedBytesOf,
} from '../contract/encode-message.ts';
import { freeValue } from '../contract/leases.ts';
import { builtInPrefix, checkMethodName } from '../contract/service.ts';
import { armDeadline, deadlineAfter, isNotifiedBy, timeLeftMs } from '../deadline.ts';
import { notSaid, sentNow } from '../peer-clock.ts';
import { chargeOf, type SendCredit, Window } from '../sending/credit.ts';
import { AnnouncedNames } from '../sending/method-names.ts';
import { refuseMessage, resetReasonFor, sendHalfEnd } from '../sending/send-frame.ts';
import type { OutgoingMessage } from '../sending/send-queue.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import type { WaitingPlace, WaitReason } from '../stalls.ts';
import { ChannelHalves } from '../streams/channel-halves.ts';
import { StreamReader } from '../streams/stream-reader.ts';
import { OpenedStreams } from '../streams/stream-table.ts';
import { StreamWriter } from '../streams/stream-writer.ts';
import { AbortWatch } from './abort-signals.ts';
import { AnswerReceiver, type OpenCalls } from './answer-receiver.ts';
import { CallQueue } from './call-queue.ts';
import type { MethodCall } from './call-target.ts';
import { type CallOwner, OutgoingCall } from './outgoing-call.ts';

export class Caller implements CallOwner, OpenCalls {
  readonly #shared: SessionShared;
  readonly #streams: OpenedStreams<OutgoingCall>;
  readonly #names = new AnnouncedNames();
  readonly #answerReceiver: AnswerReceiver;
  // Calls that wait for a slot, for credit or for the send queue, in the order they were made.
  // Those with a long message wait apart, for the queue that they wait for is one of their own; so
  // do notifications.
  readonly #waiting = this.#waitingCalls();
  readonly #waitingBulk = this.#waitingCalls();
  readonly #waitingNotifications = this.#waitingCalls();
  // Notifications by handlers of the peer's notifications. They go first, and their handlers need
  // not wait for it: two sides whose handlers notify back would else wait for each other, each with
  // a window full of unsettled handlers.
  readonly #waitingReplies = this.#waitingCalls();
  // Calls of the built-in services.
  readonly #waitingBuiltIn = this.#waitingCalls();
  readonly #queues = [
    this.#waitingBuiltIn,
    this.#waitingReplies,
    this.#waitingNotifications,
    this.#waiting,
    this.#waitingBulk,
  ];
  // Bytes of those that wait, as the window counts them.
  #replyBytes = 0;
  // Calls that we gave up, and whose handlers may run: they keep their slots until the peer says
  // that they have settled.
  readonly #givenUp = { waiting: 0, waitReason: 'given-up', departed: 0 } satisfies WaitingPlace;
  // All notifications leave by one line: short ones do not overtake long ones.
  readonly #notifications = new Fifo<OutgoingMessage>();
  readonly #aborts = new AbortWatch((call, reason) => {
    this.giveUp(call, reason, ResetReason.cancelled);
  });
  #refusal: SidecallError | undefined;
  /** Calls that were sent, ever. */
  begun = 0;

  constructor(shared: SessionShared) {
    this.#shared = shared;
    this.#streams = new OpenedStreams(shared.remote.streamsMax);
    this.#answerReceiver = new AnswerReceiver(shared, this);
  }

  /** Calls that have not settled yet, notifications at work included. */
  get pending(): number {
    return this.#streams.size - this.#givenUp.waiting + this.waiting;
  }

  /** Calls and notifications that wait to be sent. */
  get waiting(): number {
    return this.#queues.reduce((sum, { waiting }) => sum + waiting, 0);
  }

  /** From now on every new call fails with this; those that wait fail at once, those open go on. */
  refuse(error: SidecallError): void {
    this.#refusal ??= error;
    for (const waiting of this.#queues) {
      for (const call of waiting.removeAll(({ isSettled }) => !isSettled)) {
        this.#noteReplyGone(call);
        const refusal = new SidecallError(error.code, error.message, { delivered: 'no' });
        call.reject(causedBy(error, refusal));
      }
    }
  }

  /**
   * A new call of ours is on its way, part of it sent; or a notification that was said to be sent.
   */
  get isSending(): boolean {
    if (this.#waitingReplies.waiting > 0) return true;
    return this.#streams
      .open()
      .some(({ queued, request }) => queued > 0 && !sendsMany(request.kind));
  }

  /**
   * As {@link Caller.refuse}; those that are open but of which nothing was sent fail, too.
   * Notifications leave.
   */
  refuseUnsent(error: SidecallError): void {
    this.refuse(error);
    for (const call of this.#streams.open()) {
      if (call.isWritten || !call.isOpen || call.request.kind === CallKind.notification) continue;
      this.#takeBackCharge(call);
      this.remove(call, { endedByPeer: false });
      const text = `${call.request.method}: ${error.message}`;
      call.reject(new SidecallError(error.code, text, { delivered: 'no' }));
    }
  }

  /** A call with one answer, or a notification. Rejects, never throws. */
  call(callable: MethodCall, value: unknown, options: CallOptions | undefined): Promise<unknown> {
    return this.open(callable, value, options).promise;
  }

  /** Never throws: what is wrong rejects the call's promise, and fails its halves. */
  open(callable: MethodCall, value: unknown, options: CallOptions | undefined): OutgoingCall {
    let call: OutgoingCall;
    try {
      call = this.#prepare(callable, value, options);
    } catch (error) {
      freeValue(value);
      call = this.#make(callable, noOptions, noBytes, 0, noBytes);
      call.refuse(error);
      return call;
    }
    const waiting = this.#queueFor(call);
    if (waiting.waiting === 0 && this.#whyWaits(call) === undefined) this.#start(call);
    else if (this.waiting < tuning.waitingCallsMax) this.#wait(call, waiting);
    else call.refuse(new SidecallError('ERR_SIDECALL_LIMIT_STREAMS', waitingText));
    return call;
  }

  #wait(call: OutgoingCall, waiting: CallQueue): void {
    const { request } = call;
    if (request.isTransient && request.message instanceof Uint8Array) {
      request.message = new Uint8Array(request.message);
    }
    waiting.push(call);
    this.#shared.waits.add(waiting);
    if (!request.isReply) return;
    const isFirst = this.#replyBytes < this.#shared.own.streamWindowBytes;
    this.#replyBytes += chargeOf(request.messageBytes);
    // As much as one window holds, and always one: it is what lets the handlers of both sides
    // settle.
    if (isFirst) return call.resolve(undefined);
    // Beyond that the other side may be waiting for us as we wait for it.
    if (call.deadline === undefined) armDeadline(call, deadlineAfter(tuning.replyWaitMaxMs));
  }

  /** Something came free: starts what waits, in order. */
  startWaiting(): void {
    for (const waiting of this.#queues) {
      if (waiting.waiting === 0) continue;
      for (let call = waiting.peek(); call; call = waiting.peek()) {
        if (this.#whyWaits(call) !== undefined) break;
        waiting.shift();
        this.#noteReplyGone(call);
        this.#start(call);
      }
    }
  }

  placeFor(header: Header, bytes: number): Uint8Array | undefined {
    return this.#answerReceiver.placeFor(header, bytes);
  }

  /** A frame of a stream that we opened. */
  onFrame(header: Header, payload: Uint8Array, block: ArrivedBlock | undefined): void {
    this.#answerReceiver.onFrame(header, payload, block);
  }

  onCallDeadline(call: OutgoingCall): void {
    if (call.deadline === undefined) {
      return this.giveUp(call, repliesStuck(call), ResetReason.deadlineExceeded);
    }
    const error = new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', lateText(call), {
      delivered: call.isWritten ? 'unknown' : 'no',
    });
    this.giveUp(call, error, ResetReason.deadlineExceeded);
  }

  onReaderStopped(call: OutgoingCall, error: SidecallError | undefined): void {
    if (call.channel !== undefined && error !== undefined && call.isOpen) {
      call.reject(error);
      refuseMessage(this.#shared, call, FrameFlag.fromOpener);
      this.remove(call, { endedByPeer: false });
      return this.#shared.onCallEnded();
    }
    const reason = error ?? new SidecallError('ERR_SIDECALL_CANCELLED');
    this.giveUp(call, reason, ResetReason.cancelled);
  }

  /**
   * Ends our half of a call's stream. Resolves when the peer has all of it, or the call has ended
   * well.
   */
  endHalf(call: OutgoingCall): Promise<void> {
    if (call.isSettled) return quiet(call.promise.then(() => undefined));
    const taken = new Promise<void>((resolve, reject) => {
      call.onEndTaken = (error) => (error === undefined ? resolve() : reject(error));
    });
    quiet(taken);
    call.writer?.end(() => sendHalfEnd(this.#shared, call, FrameFlag.fromOpener));
    return taken;
  }

  onCallSettled(call: OutgoingCall): void {
    const { signal } = call.request.options;
    if (signal !== undefined) this.#aborts.remove(signal, call);
  }

  /** The session is over: everything rejects, each with what is known of its delivery. */
  end(error: SidecallError): void {
    // The failure stays the reason for later calls, not an earlier goaway.
    if (error.code !== 'ERR_SIDECALL_CLOSED') this.#refusal = error;
    this.refuse(error);
    for (const call of this.#waitingReplies.removeAll(() => true)) {
      this.#noteReplyGone(call);
      this.#answerReceiver.reportFailed(call, error);
    }
    const { consumedPosition } = this.#shared.transport;
    for (const call of this.#streams.open()) {
      if (!call.isOpen) continue; // given up before
      const wasTaken = consumedPosition === undefined || call.sentPosition <= consumedPosition;
      const delivered = call.isWritten && wasTaken ? 'unknown' : 'no';
      this.remove(call, { endedByPeer: false });
      if (call.isSettled) continue;
      const { cause } = error;
      const failure = new SidecallError(error.code, error.message, { cause, delivered });
      call.reject(causedBy(error, failure), false);
    }
  }

  find(slot: number, generation: number): OutgoingCall | undefined {
    return this.#streams.find(slot, generation);
  }

  /**
   * The caller's own doing: nothing more is awaited, and the peer is told if it ever heard of it.
   */
  giveUp(call: OutgoingCall, reason: unknown, wireReason: number): void {
    if (call.isSettled) return;
    call.reject(reason);
    if (!call.isStarted && this.#queueFor(call).remove(call)) this.#noteReplyGone(call);
    if (!call.isOpen) return; // never begun, or the peer has ended it this very moment
    if (call.isWritten) {
      this.#sendReset(call, wireReason);
      if (call.hasAnswer) call.lateBytes = call.assembly?.missingBytes;
      this.#forget(call);
      this.#givenUp.waiting += 1;
      this.#shared.waits.add(this.#givenUp);
    } else {
      this.#takeBackCharge(call);
      this.remove(call, { endedByPeer: false });
    }
    this.#shared.onCallEnded();
  }

  /** A frame of a call that we gave up: the peer's last one frees the slot. */
  onLate(call: OutgoingCall, header: Header, payloadBytes: number): void {
    if (!isLastFrame(call, header, payloadBytes)) return;
    this.#givenUp.waiting -= 1;
    this.#givenUp.departed += 1;
    // Both ends of a channel may give it up at once, so one more frame of it is no lie.
    this.#streams.remove(call, { wasSent: true, endedByPeer: call.channel === undefined });
    this.#shared.onCallEnded();
  }

  /** Frees the slot of a call. The function that calls this one settles the call. */
  remove(call: OutgoingCall, { endedByPeer }: { endedByPeer: boolean }): void {
    // User code runs between this and the settling of a call, and may abort it: once is enough.
    if (!call.isOpen) return;
    this.#forget(call);
    this.#streams.remove(call, { wasSent: call.isWritten, endedByPeer });
  }

  /** From here on the call sends and takes nothing. */
  #forget(call: OutgoingCall): void {
    call.isOpen = false;
    this.#shared.dropQueued(call);
    if (call.answerCharge > 0) this.#shared.giveBack(Window.answers, call.answerCharge);
    call.answerCharge = 0;
    call.assembly = undefined;
    call.reader?.release();
  }

  #prepare(callable: MethodCall, value: unknown, given: CallOptions | undefined): OutgoingCall {
    const checked = checkCallOptions(given);
    // A channel outlives the handler that opens it.
    const options = callable.kind >= CallKind.channel ? checked : withInheritedDeadline(checked);
    options.signal?.throwIfAborted();
    if (this.#refusal !== undefined) {
      const { code, message, cause } = this.#refusal;
      const refusal = new SidecallError(code, message, { delivered: 'no', cause });
      throw causedBy(this.#refusal, refusal);
    }
    if (options.timeoutMs === 0) {
      throw new SidecallError(
        'ERR_SIDECALL_DEADLINE_EXCEEDED',
        `${callable.name}: no time was left, so nothing was sent`,
        { delivered: 'no' },
      );
    }
    if (this.#names.numberOf(callable.name) === undefined) checkMethodName(callable.name);
    const { remote } = this.#shared;
    const metadata = encodeMetadata(options.metadata, this.#shared.metadataMaxBytes);
    const prefixBytes = metadata.byteLength + wireLimits.methodNameMaxBytes;
    const mayLend = prefixBytes <= wireLimits.blockPrefixMaxBytes;
    const message = sendsMany(callable.kind)
      ? noBytes
      : encodeMessage(this.#shared, callable.request, value, mayLend);
    const messageBytes = messageBytesOf(message);
    if (messageBytes > remote.receiveMaxBytes) {
      const text = `${callable.name}: message of ${messageBytes} bytes exceeds the peer's receiveMaxBytes ${remote.receiveMaxBytes}; raise limits.receiveMaxBytes there`;
      discard(message);
      throw new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', text);
    }
    const call = this.#make(callable, options, message, messageBytes, metadata);
    if (options.signal !== undefined) this.#aborts.add(options.signal, call);
    return call;
  }

  #make(
    callable: MethodCall,
    options: CallOptions,
    message: Message,
    messageBytes: number,
    metadata: Uint8Array,
  ): OutgoingCall {
    const { name: method, kind, isBulk, response } = callable;
    const request = {
      method,
      kind,
      message,
      messageBytes,
      metadata,
      response,
      isBulk,
      isTransient: callable.request.reusesBytes === true,
      isReply: kind === CallKind.notification && isNotifiedBy(this.#shared),
      isBuiltIn: method.startsWith(builtInPrefix) && kind < CallKind.clientStream,
      options: bindCallbacks(options),
    };
    const line = kind === CallKind.notification ? this.#notifications : undefined;
    const call = new OutgoingCall(request, this, line);
    if (kind > CallKind.notification) this.#addHalves(call, callable);
    return call;
  }

  /** The reader, the writer and the channel of a call that is a stream. */
  #addHalves(call: OutgoingCall, callable: MethodCall): void {
    const shared = this.#shared;
    const { kind, name } = callable;
    const flags = FrameFlag.fromOpener;
    if (receivesMany(kind)) {
      const codec = callable.response ?? bytes;
      const windowBytes = call.request.options.windowBytes ?? shared.own.streamWindowBytes;
      call.reader = new StreamReader({ shared, stream: call, codec, flags, windowBytes });
    }
    if (sendsMany(kind)) {
      const windowBytes = shared.remote.streamWindowBytes;
      const codec = callable.request;
      const isDivisible = kind === CallKind.duplex;
      const parts = { shared, stream: call, codec, name, flags, windowBytes, isDivisible };
      call.writer = new StreamWriter(parts);
    }
    const { reader, writer } = call;
    if (kind < CallKind.channel || reader === undefined || writer === undefined) return;
    const onOver = (): void => {
      // The peer may not know yet that its end was answered, and give the channel up.
      this.remove(call, { endedByPeer: false });
      if (!call.isSettled) call.resolve(undefined);
      shared.onCallEnded();
    };
    const onAbort = (error: unknown): void => this.giveUp(call, error, resetReasonFor(error));
    call.channel = new ChannelHalves(shared, call, {
      reader,
      writer,
      flags,
      name,
      onOver,
      onAbort,
    });
  }

  #noteReplyGone({ request }: OutgoingCall): void {
    if (request.isReply) this.#replyBytes -= chargeOf(request.messageBytes);
  }

  /** The queue in which a call waits. */
  #queueFor({ request }: OutgoingCall): CallQueue {
    if (request.isBuiltIn) return this.#waitingBuiltIn;
    if (request.isReply) return this.#waitingReplies;
    if (request.kind === CallKind.notification) return this.#waitingNotifications;
    return this.#isBulk(request) ? this.#waitingBulk : this.#waiting;
  }

  #isBulk(request: OutgoingCall['request']): boolean {
    const queuedBytes = queuedBytesOf(request.message, request.messageBytes);
    return (
      request.isBulk || this.#shared.sendQueue.isBulk(request.metadata.byteLength + queuedBytes)
    );
  }

  #creditFor({ request }: OutgoingCall): SendCredit {
    const isNotification = request.kind === CallKind.notification;
    const window = isNotification ? Window.notifications : Window.requests;
    return this.#shared.sendCredit[window] as SendCredit;
  }

  #waitingCalls(): CallQueue {
    return new CallQueue((call) => this.#whyWaits(call) ?? 'send-queue');
  }

  /** Why the call cannot be sent now; undefined: it can. */
  #whyWaits(call: OutgoingCall): WaitReason | undefined {
    const { sendQueue, own } = this.#shared;
    if (this.#takesExtra(call) && this.#streams.hasExtra) return undefined;
    if (!this.#streams.hasRoom) return 'slot';
    if (!this.#creditFor(call).hasCredit) {
      return call.request.kind === CallKind.notification ? 'notification-window' : 'request-window';
    }
    const hasRoom = sendQueue.hasRoom(this.#isBulk(call.request), own.sendQueueMaxBytes);
    return hasRoom ? undefined : 'send-queue';
  }

  #start(call: OutgoingCall): void {
    const { sendQueue } = this.#shared;
    const { request } = call;
    if (isDetached(request.message, request.messageBytes)) {
      return this.#refuse(call, detachedError(request.method));
    }
    const number = this.#numberOf(request);
    const { metadata } = request;
    const prefix = number === undefined ? withName(request.method, metadata) : metadata;
    if (prefix.byteLength > sendQueue.fragmentBytes) {
      const text = `${request.method}: name and metadata exceed ${sendQueue.fragmentBytes} bytes`;
      return this.#refuse(call, new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', text));
    }
    if (this.#takesExtra(call) && this.#streams.hasExtra) this.#streams.addExtra(call);
    else {
      this.#streams.add(call);
      this.#creditFor(call).spend(chargeOf(request.messageBytes));
    }
    call.isStarted = true;
    call.isOpen = true;
    this.begun += 1;
    const header = sendQueue.header.open({
      kind: request.kind,
      slot: call.slot,
      generation: call.generation,
      method: number ?? inlineName + prefix.byteLength - metadata.byteLength,
      timeoutMs: call.deadline === undefined ? noTimeout : timeLeftMs(call.deadline),
      metadataBytes: metadata.byteLength,
      messageBytes: request.messageBytes,
      windowBytes: request.options.windowBytes ?? 0,
      sentAt: call.deadline === undefined ? notSaid : sentNow(),
    });
    sendQueue.send(call, header, prefix, request.message, request.messageBytes);
    if (request.kind !== CallKind.notification) call.writer?.start();
    else if (!call.isSettled) call.resolve(undefined);
  }

  /** It cannot be sent. The promise of a reply may have resolved before. */
  #refuse(call: OutgoingCall, error: SidecallError): void {
    if (call.isSettled) this.#answerReceiver.reportFailed(call, error);
    else call.reject(error);
  }

  /**
   * The number of a method, announced where it is new; undefined: the name travels with the call.
   */
  #numberOf({ method, kind }: OutgoingCall['request']): number | undefined {
    if (kind >= CallKind.channel) return undefined; // one for each document or tab, and none comes again
    const known = this.#names.numberOf(method);
    if (known !== undefined) return known;
    const { sendQueue } = this.#shared;
    const number = this.#names.announce(method);
    if (number !== undefined) sendQueue.sendControl(sendQueue.header.method(number), method);
    return number;
  }

  /** A call of a built-in service that finds no slot or no credit. */
  #takesExtra({ request }: OutgoingCall): boolean {
    if (!request.isBuiltIn || request.messageBytes > wireLimits.extraMaxBytes) return false;
    const { sendCredit } = this.#shared;
    const hasCredit = (sendCredit[Window.requests] as SendCredit).hasCredit;
    return !(this.#streams.hasRoom && hasCredit);
  }

  #takeBackCharge(call: OutgoingCall): void {
    if (call.slot >= this.#shared.remote.streamsMax) return; // it had none
    this.#creditFor(call).spend(-chargeOf(call.request.messageBytes));
  }

  #sendReset(call: OutgoingCall, reason: number): void {
    const { sendQueue } = this.#shared;
    const flags = FrameFlag.fromOpener;
    const header = sendQueue.header.reset(flags, call.slot, call.generation, reason);
    sendQueue.sendControl(header, undefined, true);
  }
}

/** A name that has no number stands in front of the metadata. */
function withName(method: string, metadata: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from(method), metadata]);
}

/**
 * Tells whether this frame of the peer's is the last of the call, its answer included, which
 * may come in pieces.
 * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for pieces that are no part of one.
 */
function isLastFrame(call: OutgoingCall, header: Header, payloadBytes: number): boolean {
  const { channel } = call;
  const { type, flags, status } = header;
  const hasEndFlag = (flags & FrameFlag.end) !== 0;
  if (type === FrameType.reset) return true;
  if (type === FrameType.message) {
    if (!hasEndFlag) return false;
    if (call.lateBytes !== undefined) throw protocol('second answer');
    return isWholeNow(call, header.messageBytes, payloadBytes);
  }
  if (type === FrameType.fragment && call.lateBytes !== undefined) {
    if (payloadBytes === 0) throw protocol('empty fragment');
    return isWholeNow(call, call.lateBytes, payloadBytes);
  }
  if (type !== FrameType.end) return false;
  if (channel === undefined) return !hasEndFlag;
  // Where only the answer to our end was missing, the peer may have forgotten the channel before it
  // saw the reset.
  return hasEndFlag ? channel.awaitsOnlyAnswer : status !== 0;
}

function isWholeNow(call: OutgoingCall, wantedBytes: number, payloadBytes: number): boolean {
  if (payloadBytes > wantedBytes) throw protocol('message longer than announced');
  call.lateBytes = wantedBytes - payloadBytes;
  return call.lateBytes === 0;
}

function repliesStuck({ request }: OutgoingCall): SidecallError {
  const text = `${request.method}: sent by the handler of a notification, it waited ${tuning.replyWaitMaxMs} ms behind others of that kind: both sides may be waiting for each other`;
  return new SidecallError('ERR_SIDECALL_LIMIT_BYTES', text, { delivered: 'no' });
}

const noOptions: CallOptions = Object.freeze({});

const waitingText = `${tuning.waitingCallsMax} calls already wait on this session; the peer does not keep up`;

function lateText(call: OutgoingCall): string {
  const { method, options } = call.request;
  const where = call.isWritten ? 'after it was sent' : 'before it was sent';
  return `${method}: timeoutMs ${options.timeoutMs} passed ${where}`;
}
