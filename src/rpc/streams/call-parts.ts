// SPDX-License-Identifier: MIT
// Parts that few calls have: a deadline, the halves of a stream, the pieces of a message. They lie
// in an object that is made with the first of them, since each field of a call is memory that every
// call takes.
import type { SidecallErrorCode } from '../../base/error-codes.ts';
import type { Metadata } from '../../base/metadata.ts';
import type { CallOptions } from '../contract/call-options.ts';
import type { CallTrace } from '../counting/call-trace.ts';
import type { SharedTimer } from '../deadline.ts';
import type { SendFifo } from '../sending/outgoing-messages.ts';
import type { ChannelHalves } from './channel-halves.ts';
import type { MessageAssembly } from './message-assembly.ts';
import type { StreamReader } from './stream-reader.ts';
import type { StreamWriter } from './stream-writer.ts';

export class RareParts<Place> {
  timer: SharedTimer | undefined;
  trace: CallTrace | undefined;
  place: Place | undefined;
  line: SendFifo | undefined;
  queued = 0;
  reader: StreamReader | undefined;
  writer: StreamWriter | undefined;
  channel: ChannelHalves | undefined;
  assembly: MessageAssembly | undefined;
  hasHeaders = false;
  isBulk = false;
  isBorrowed = false;
  // Of outgoing calls.
  options: CallOptions | undefined;
  metadata: Uint8Array | undefined;
  isReply = false;
  deadline: number | undefined;
  ending: Promise<void> | undefined;
  /** Called when the peer has our end, or the call has settled. */
  onEndTaken: ((error: unknown) => void) | undefined;
  /** Memory handed out for the first piece of the answer, which is about to arrive. */
  placed: MessageAssembly | undefined;
  /** The answer, where trailers follow. */
  answer: unknown;
  answerCharge = 0;
  /** Bytes of the answer that are still to come, of a call that was cancelled. */
  lateBytes: number | undefined;
  // Of incoming calls.
  trailers: Metadata | undefined;
  endsAtDrain = false;
  /** The reason that its opener is told once the handler has settled. */
  owedReset: number | undefined;
  controller: AbortController | undefined;
  abortCode: SidecallErrorCode | undefined;
}

/**
 * The accessors of a call to its rare parts. A call has them by {@link withParts}, since V8 makes
 * objects of a class that extends another one at several times the cost.
 */
class CallParts<Place> {
  rare: RareParts<Place> | undefined;

  /** The rare parts, made now. */
  get parts(): RareParts<Place> {
    this.rare ??= new RareParts();
    return this.rare;
  }

  /** The timer of its deadline. */
  get timer(): SharedTimer | undefined {
    return this.rare?.timer;
  }

  set timer(timer: SharedTimer | undefined) {
    if (timer !== this.timer) this.parts.timer = timer;
  }

  /** undefined: no subscriber has asked for it, or no handler was found yet. */
  get trace(): CallTrace | undefined {
    return this.rare?.trace;
  }

  set trace(trace: CallTrace | undefined) {
    if (trace !== this.trace) this.parts.trace = trace;
  }

  /** The place where it waits to be sent or started, or its answer to be sent. */
  get place(): Place | undefined {
    return this.rare?.place;
  }

  set place(place: Place | undefined) {
    if (place !== this.place) this.parts.place = place;
  }

  get queued(): number {
    return this.rare === undefined ? 0 : this.rare.queued;
  }

  set queued(queued: number) {
    if (queued !== this.queued) this.parts.queued = queued;
  }

  // The halves of a stream, or the channel that it is.
  get reader(): StreamReader | undefined {
    return this.rare?.reader;
  }

  set reader(reader: StreamReader | undefined) {
    this.parts.reader = reader;
  }

  get writer(): StreamWriter | undefined {
    return this.rare?.writer;
  }

  set writer(writer: StreamWriter | undefined) {
    this.parts.writer = writer;
  }

  get channel(): ChannelHalves | undefined {
    return this.rare?.channel;
  }

  set channel(channel: ChannelHalves | undefined) {
    this.parts.channel = channel;
  }

  /** The message that arrives in pieces. */
  get assembly(): MessageAssembly | undefined {
    return this.rare?.assembly;
  }

  set assembly(assembly: MessageAssembly | undefined) {
    if (assembly !== this.assembly) this.parts.assembly = assembly;
  }

  get hasHeaders(): boolean {
    return this.rare?.hasHeaders === true;
  }

  set hasHeaders(hasHeaders: boolean) {
    if (hasHeaders !== this.hasHeaders) this.parts.hasHeaders = hasHeaders;
  }
}

/** Gives the objects of a class, which have a field `rare`, the accessors to it. */
export function withParts(prototype: object): void {
  const { constructor: _, ...accessors } = Object.getOwnPropertyDescriptors(CallParts.prototype);
  Object.defineProperties(prototype, accessors);
}
