// SPDX-License-Identifier: MIT
// One call of the peer's, and what its handler sees of it.
import { nodeError, SidecallError, type SidecallErrorCode } from '../errors.ts';
import type { Fifo } from '../fifo.ts';
import type { Metadata } from '../metadata.ts';
import type { Peer } from '../peer.ts';
import type { CallContext } from './call.ts';
import { armDeadline, type Timed } from './deadline.ts';
import type { Assembly } from './fragment.ts';
import type { OutgoingMessage, SendingStream } from './schedule.ts';

/** Who acts for a call that a handler, or time, speaks for. */
export interface CallHost {
  readonly peer: Peer;
  sendHeaders(call: IncomingCall, metadata: Metadata): void;
  onCallDeadline(call: IncomingCall): void;
}

/** The first frame of a call, taken apart. */
export interface CallOpening {
  readonly slot: number;
  readonly generation: number;
  readonly isNotification: boolean;
  readonly method: string;
  readonly metadata: Metadata;
  readonly deadline: number | undefined;
  /** What its message took of the window. */
  readonly charge: number;
}

const noMetadata: Metadata = Object.freeze({});

export class IncomingCall implements SendingStream, Timed {
  readonly opening: CallOpening;
  readonly host: CallHost;
  readonly slot: number;
  readonly generation: number;
  readonly isBorrowed = false;
  outgoing: Fifo<OutgoingMessage> | undefined;
  isWritten = false;
  sentPosition = 0;
  timer: NodeJS.Timeout | undefined;

  /** The request, while it comes in pieces. */
  assembly: Assembly | undefined;
  /** Its handler was started and has not settled. */
  isRunning = false;
  /** Nothing more will be sent: answered, cancelled, or the session ended. */
  isOver = false;
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

  onDeadline(): void {
    this.host.onCallDeadline(this);
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

/** What a handler holds: the call's public face, and nothing to break it with. */
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

  sendHeaders(metadata: Metadata): void {
    if (this.#call.hasHeaders) {
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', 'sendHeaders() was called before');
    }
    this.#call.host.sendHeaders(this.#call, metadata);
  }
}
