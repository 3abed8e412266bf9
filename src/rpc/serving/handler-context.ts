// SPDX-License-Identifier: MIT
// The context of a call: its public face, which is all that its handler holds.

import { noBytes } from '../../base/ignore-errors.ts';
import type { Metadata } from '../../base/metadata.ts';
import { nodeError } from '../../base/misuse.ts';
import type { Peer } from '../../base/peer.ts';
import { CallKind } from '../../wire/frame-header.ts';
import { encodeMetadata } from '../../wire/metadata-bytes.ts';
import type { CallContext } from '../contract/call-context.ts';
import type { Block } from '../contract/leases.ts';
import type { AcceptedCalls } from './accepted-calls.ts';
import { emptyOpening, IncomingCall } from './incoming-call.ts';
import { holdsRequest, type RequestHolder } from './request-memory.ts';

export class HandlerContext implements CallContext, RequestHolder {
  readonly #calls: AcceptedCalls<IncomingCall>;
  /** The method of a call that was detached. */
  #method = '';
  #held: IncomingCall | undefined;

  constructor(call: IncomingCall) {
    this.#calls = call.calls;
    this.#held = call;
    call.context = this;
  }

  /** The call has ended, and another one is about to use its object. */
  detach(): void {
    this.#method = (this.#held as IncomingCall).opening.method;
    this.#held = undefined;
  }

  get #call(): IncomingCall {
    if (this.#held === undefined) {
      this.#held = new IncomingCall(emptyOpening(this.#method), this.#calls);
      this.#held.state = 'answered';
    }
    return this.#held;
  }

  [holdsRequest](handler: Promise<unknown>): void {
    this.#call.memory?.holdFor(handler);
  }

  get method(): string {
    return this.#call.opening.method;
  }

  get peer(): Peer {
    return this.#call.calls.shared.peer;
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
    return this.#call.isCancelledNow;
  }

  allocate(bytes: number): Block {
    return this.#call.calls.shared.allocate(bytes);
  }

  sendHeaders(metadata: Metadata): void {
    const call = this.#call;
    if (call.hasHeaders) {
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', 'sendHeaders() was called before');
    }
    const { sendQueue, metadataMaxBytes } = call.calls.shared;
    const bytes = encodeMetadata(metadata, metadataMaxBytes);
    call.hasHeaders = true;
    if (call.isOver || call.opening.kind === CallKind.notification) return;
    const header = sendQueue.header.headers(call.slot, call.generation);
    sendQueue.send(call, header, bytes, noBytes, 0);
  }
}
