// SPDX-License-Identifier: MIT
// One call of the peer's, and what its handler sees of it.

import type { SidecallErrorCode } from '../../base/error-codes.ts';
import { SidecallError } from '../../base/errors.ts';
import type { Metadata } from '../../base/metadata.ts';
import { nodeError } from '../../base/misuse.ts';
import type { Peer } from '../../base/peer.ts';
import { CallKind } from '../../wire/frame-header.ts';
import type { CallContext } from '../contract/call-context.ts';
import type { Block, Lease } from '../contract/leases.ts';
import { armDeadline, type HandlerScope, type Timed } from '../deadline.ts';
import type { SendingStream, SendLine } from '../sending/send-queue.ts';
import type { ChannelHalves } from '../streams/channel-halves.ts';
import type { MessageAssembly } from '../streams/message-assembly.ts';
import type { ReadStream, StreamReader } from '../streams/stream-reader.ts';
import type { StreamWriter } from '../streams/stream-writer.ts';
import type { MethodLoad } from './method-load.ts';

/** The serving half, as a call needs it when its handler or its deadline acts. */
export interface CallHost {
  readonly peer: Peer;
  /** The session of the call, for comparison. */
  readonly session: object;
  sendHeaders(call: IncomingCall, metadata: Metadata): void;
  onCallDeadline(call: IncomingCall): void;
  /** The handler reads no more of its requests. */
  onReaderStopped(call: IncomingCall, error: SidecallError | undefined): void;
  /** As `ctx.allocate()`. */
  allocate(bytes: number): Block;
  /** As `ctx.cancelledNow()`. */
  isCancelledNow(call: IncomingCall): boolean | undefined;
}

/** The first frame of a call, taken apart. */
export interface CallOpening {
  readonly slot: number;
  readonly generation: number;
  /** One of `CallKind`. */
  readonly kind: number;
  readonly method: string;
  readonly metadata: Metadata;
  readonly deadline: number | undefined;
  /** The bytes that its message took of the window. */
  readonly charge: number;
  /** The bytes of a stream that we may send before the caller grants more. */
  readonly windowBytes: number;
}

const noMetadata: Metadata = Object.freeze({});

export class IncomingCall implements SendingStream, ReadStream, Timed, HandlerScope {
  readonly opening: CallOpening;
  readonly host: CallHost;
  readonly slot: number;
  readonly generation: number;
  isBorrowed = false;
  isBulk = false;
  readonly isAnswer = true;
  line: SendLine | undefined;
  queued = 0;
  isWritten = false;
  readonly beginsAtOnce = true;
  sentPosition = 0;
  timer: NodeJS.Timeout | undefined;

  /** The request, while it comes in pieces. */
  assembly: MessageAssembly | undefined;
  /** The request, where it is one: given back with the call, unless it is kept. */
  lease: Lease | undefined;
  // The halves of a stream, or the channel that it is.
  reader: StreamReader | undefined;
  writer: StreamWriter | undefined;
  channel: ChannelHalves | undefined;
  /** Its handler is told when the session is about to close. */
  endsAtDrain = false;
  /** Its handler was started and has not settled. */
  isRunning = false;
  /** The call was answered or cancelled, or its session ended: nothing more is sent. */
  isOver = false;
  /** Its opener was not told yet that it is over: that waits for the handler to settle. */
  owedReset: number | undefined;
  /** Load of its method, where the handler gives one answer. */
  load: MethodLoad<IncomingCall> | undefined;
  /** Takes it from where it waits to be started. */
  unpark: (() => void) | undefined;
  /** The window was given back. */
  isReturned = false;
  hasHeaders = false;
  trailers: Metadata = noMetadata;
  #controller: AbortController | undefined;
  #abortCode: SidecallErrorCode | undefined;

  constructor(opening: CallOpening, host: CallHost) {
    this.opening = opening;
    this.host = host;
    this.slot = opening.slot;
    this.generation = opening.generation;
    if (opening.deadline !== undefined) armDeadline(this, opening.deadline);
  }

  get isOpen(): boolean {
    return !this.isOver;
  }

  get deadline(): number | undefined {
    return this.opening.deadline;
  }

  get notifiedBy(): object | undefined {
    return this.opening.kind === CallKind.notification ? this.host.session : undefined;
  }

  onDeadline(): void {
    this.host.onCallDeadline(this);
  }

  onReaderStopped(error: SidecallError | undefined): void {
    this.host.onReaderStopped(this, error);
  }

  /** Made when somebody reads it: most handlers never do. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#abortCode !== undefined) this.#controller.abort(new SidecallError(this.#abortCode));
    }
    return this.#controller.signal;
  }

  abort(code: SidecallErrorCode): void {
    if (this.#abortCode !== undefined) return;
    this.#abortCode = code;
    this.#controller?.abort(new SidecallError(code));
  }
}

/** The public face of a call, which is all that its handler holds. */
export class HandlerContext implements CallContext {
  readonly #call: IncomingCall;

  constructor(call: IncomingCall) {
    this.#call = call;
  }

  get method(): string {
    return this.#call.opening.method;
  }

  get peer(): Peer {
    return this.#call.host.peer;
  }

  get metadata(): Metadata {
    return this.#call.opening.metadata;
  }

  get deadline(): number | undefined {
    return this.#call.opening.deadline;
  }

  get signal(): AbortSignal {
    return this.#call.signal;
  }

  get trailers(): Metadata {
    return this.#call.trailers;
  }

  set trailers(metadata: Metadata) {
    this.#call.trailers = metadata;
  }

  cancelledNow(): boolean | undefined {
    return this.#call.host.isCancelledNow(this.#call);
  }

  allocate(bytes: number): Block {
    return this.#call.host.allocate(bytes);
  }

  sendHeaders(metadata: Metadata): void {
    if (this.#call.hasHeaders) {
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', 'sendHeaders() was called before');
    }
    this.#call.host.sendHeaders(this.#call, metadata);
  }
}
