// SPDX-License-Identifier: MIT
// The arrival of the peer's calls: names, the frame that opens one, the pieces of its request, and
// what all of that may take.

import { noBytes } from '../../base/quiet.ts';
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
  sendsMany,
} from '../../wire/frame-header.ts';
import { decodeMetadata } from '../../wire/metadata-bytes.ts';
import type { ArrivedBlock } from '../../wire/transport.ts';
import { bytes as anyBytes, type Codec } from '../contract/codec.ts';
import { builtInPrefix } from '../contract/service.ts';
import { deadlineAfter } from '../deadline.ts';
import type { PeerClock } from '../peer-clock.ts';
import { Window } from '../sending/credit.ts';
import { LearntNames, methodName } from '../sending/method-names.ts';
import { type SessionShared, takeMessage } from '../sending/session-shared.ts';
import { checkBlock, MessageAssembly } from '../streams/message-assembly.ts';
import type { AcceptedStreams } from '../streams/stream-table.ts';
import { type CallHost, type CallOpening, IncomingCall } from './incoming-call.ts';
import type { Registry } from './registry.ts';

/** Of a request that no handler will see: its memory is used again. */
const discarded: Codec<unknown> = { ...(anyBytes as Codec<unknown>), keepsBytes: false };

/** The receiver of calls that have arrived. */
export interface OpenFrameHost extends CallHost {
  readonly isDraining: boolean;
  /** A call is open from here on. */
  add(call: IncomingCall): void;
  /** Its request is whole; `assembly` is its memory, unless it lies in the transport's. */
  onRequest(call: IncomingCall, payload: Uint8Array, assembly: MessageAssembly | undefined): void;
  /** It has no request: messages follow. */
  onStream(call: IncomingCall): void;
  /** The method may still be served, and its requests wait for that. */
  mustWait(method: string): boolean;
}

export class OpenFrames {
  readonly #shared: SessionShared;
  readonly #registry: Registry;
  readonly #streams: AcceptedStreams<IncomingCall>;
  readonly #host: OpenFrameHost;
  readonly #names = new LearntNames();
  readonly #clock: PeerClock;
  /** Requests of which a part has arrived. */
  unfinished = 0;
  /** Pieces of requests that have arrived, ever. */
  pieces = 0;
  // Memory handed out for the first piece of a request, which is about to arrive.
  #placed: MessageAssembly | undefined;

  constructor(
    shared: SessionShared,
    registry: Registry,
    streams: AcceptedStreams<IncomingCall>,
    host: OpenFrameHost,
    clock: PeerClock,
  ) {
    this.#shared = shared;
    this.#registry = registry;
    this.#streams = streams;
    this.#host = host;
    this.#clock = clock;
  }

  learn(header: Header, payload: Uint8Array): void {
    this.#names.learn(header.slot, payload);
  }

  /** Place for a piece of a request; for its first one, where all is as it should be, too. */
  placeFor(header: Header, bytes: number): Uint8Array | undefined {
    if (header.type !== FrameType.open) {
      const call = this.#streams.find(header.slot, header.generation);
      if (call?.reader !== undefined) {
        return call.reader.place(header.type === FrameType.message, header.messageBytes, bytes);
      }
      return header.type === FrameType.fragment ? call?.assembly?.place(bytes) : undefined;
    }
    const { method, timeoutMs, metadataBytes, messageBytes } = header;
    const isPlain = metadataBytes === 0 && timeoutMs !== 0 && !this.#host.isDraining;
    const mayHold = messageBytes <= this.#shared.own.receiveMaxBytes && bytes <= messageBytes;
    if (!isPlain || method >= inlineName || !mayHold) return undefined;
    const name = this.#names.nameOf(method);
    const served = this.#registry.find(name);
    if (served === undefined || this.#host.mustWait(name)) return undefined;
    this.#placed = new MessageAssembly(messageBytes, served.request);
    return this.#placed.place(bytes);
  }

  /** Takes the memory that was handed out: it was for the frame at hand, or for none. */
  takePlaced(): MessageAssembly | undefined {
    const placed = this.#placed;
    this.#placed = undefined;
    return placed;
  }

  onOpen(
    header: Header,
    payload: Uint8Array,
    placed: MessageAssembly | undefined,
    block: ArrivedBlock | undefined,
  ): void {
    const { own, remote } = this.#shared;
    const { kind, metadataBytes, messageBytes } = header;
    this.#streams.open(header.slot, header.generation);
    checkKind(kind, header.flags, messageBytes);
    const window = kind === CallKind.notification ? Window.notifications : Window.requests;
    const nameBytes = header.method < inlineName ? 0 : header.method - inlineName;
    const method = nameBytes === 0 ? this.#names.nameOf(header.method) : nameIn(payload, nameBytes);
    const isExtra = this.#streams.isExtra(header.slot);
    if (isExtra) checkExtra(method, kind, messageBytes);
    const charge = isExtra ? 0 : takeMessage(this.#shared, window, messageBytes);
    const bodyAt = nameBytes + metadataBytes;
    const isMetadata = metadataBytes <= own.metadataMaxBytes && bodyAt <= payload.byteLength;
    if (!isMetadata || payload.byteLength - bodyAt > messageBytes) {
      throw protocol('open frame whose lengths do not agree');
    }
    if (block !== undefined) checkBlock(block, messageBytes, payload.byteLength - bodyAt);
    const timeoutMs = this.#timeLeftMs(header);
    const opening: CallOpening = {
      slot: header.slot,
      generation: header.generation,
      kind,
      method,
      metadata: decodeMetadata(payload.subarray(nameBytes, bodyAt)),
      deadline: timeoutMs === noTimeout ? undefined : deadlineAfter(timeoutMs),
      charge,
      windowBytes: header.windowBytes === 0 ? remote.streamWindowBytes : header.windowBytes,
    };
    const refusal = this.#refusal(kind, timeoutMs);
    if (refusal !== undefined) return this.#refuse(opening, refusal, window);
    const call = new IncomingCall(opening, this.#host);
    this.#streams.add(call);
    this.#host.add(call);
    if (sendsMany(kind)) return this.#host.onStream(call);
    const message = bodyAt === 0 ? payload : payload.subarray(bodyAt);
    if (block === undefined) this.#onFirst(call, message, messageBytes, placed);
    else this.#onBlock(call, block);
  }

  onFragment(call: IncomingCall, payload: Uint8Array): void {
    const { assembly } = call;
    if (assembly === undefined) throw protocol('fragment without a message');
    this.pieces += 1;
    if (!assembly.add(payload)) return;
    this.drop(call);
    this.#host.onRequest(call, assembly.bytes, assembly);
  }

  /** Forgets the request of a call that is over. */
  drop(call: IncomingCall): void {
    if (call.assembly === undefined) return;
    this.unfinished -= 1;
    call.assembly = undefined;
  }

  #onFirst(
    call: IncomingCall,
    message: Uint8Array,
    messageBytes: number,
    placed: MessageAssembly | undefined,
  ): void {
    if (placed === undefined && message.byteLength === messageBytes) {
      return this.#host.onRequest(call, message, undefined);
    }
    call.assembly = placed ?? new MessageAssembly(messageBytes, this.#codecOf(call));
    this.unfinished += 1;
    if (message.byteLength > 0) this.onFragment(call, message);
  }

  /** Whole at once. What nobody serves is not worth a copy. */
  #onBlock(call: IncomingCall, block: ArrivedBlock): void {
    const { method } = call.opening;
    const isWanted = this.#registry.find(method) !== undefined || this.#host.mustWait(method);
    const assembly = isWanted ? MessageAssembly.ofBlock(block, this.#codecOf(call)) : undefined;
    this.#host.onRequest(call, assembly?.bytes ?? noBytes, assembly);
  }

  #codecOf(call: IncomingCall): Codec<unknown> {
    const { method } = call.opening;
    if (this.#host.mustWait(method)) return anyBytes as Codec<unknown>;
    return this.#registry.find(method)?.request ?? discarded;
  }

  /** The time that is left of a call: it passed while the call was under way, too. */
  #timeLeftMs({ timeoutMs, sentAt }: Header): number {
    if (timeoutMs === noTimeout) return noTimeout;
    return Math.max(0, timeoutMs - this.#clock.underWayMs(sentAt));
  }

  /** Notifications that were sent before the peer knew are taken. */
  #refusal(kind: number, timeoutMs: number): number | undefined {
    if (this.#host.isDraining && kind !== CallKind.notification) return ResetReason.goingAway;
    return timeoutMs === 0 ? ResetReason.deadlineExceeded : undefined;
  }

  /** The slot stays closed in this generation; fragments that follow are late. */
  #refuse({ slot, generation, charge }: CallOpening, reason: number, window: number): void {
    const { sendQueue } = this.#shared;
    sendQueue.sendControl(sendQueue.header.reset(0, slot, generation, reason));
    this.#shared.giveBack(window, charge);
  }
}

/**
 * A name that was not announced, in front of the metadata. @throws {SidecallError}
 * `ERR_SIDECALL_PROTOCOL`.
 */
function nameIn(payload: Uint8Array, nameBytes: number): string {
  return methodName(payload.subarray(0, nameBytes), nameBytes);
}

/**
 * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for a call that has no business beyond the number
 * of streams announced.
 */
function checkExtra(method: string, kind: number, messageBytes: number): void {
  const isKind = kind === CallKind.unary || kind === CallKind.serverStream;
  const isBuiltIn = isKind && method.startsWith(builtInPrefix);
  if (!isBuiltIn || messageBytes > wireLimits.extraMaxBytes) {
    throw protocol('stream slot beyond the number announced');
  }
}

/**
 * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for a kind that there is not, or that does not
 * begin so.
 */
function checkKind(kind: number, flags: number, messageBytes: number): void {
  if (kind < CallKind.unary || kind > CallKind.duplex)
    throw protocol('open frame of an unknown kind of call');
  const isMany = sendsMany(kind);
  const wanted = isMany ? FrameFlag.fromOpener : FrameFlag.fromOpener | FrameFlag.end;
  if (flags !== wanted || (isMany && messageBytes !== 0)) {
    throw protocol('open frame with the flags of another kind of call');
  }
}
