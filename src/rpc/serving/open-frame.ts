// SPDX-License-Identifier: MIT
// The arrival of the peer's calls: names, the frame that opens one, the pieces of its request, and
// what all of that may take.

import { partOf } from '../../base/bytes.ts';
import { noBytes } from '../../base/ignore-errors.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
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
  wholeFlags,
} from '../../wire/frame-header.ts';
import { decodeMetadata } from '../../wire/metadata-bytes.ts';
import type { ArrivedBlock } from '../../wire/transport.ts';
import { bytes as anyBytes, type Codec } from '../contract/codec.ts';
import { builtInPrefix } from '../contract/service.ts';
import { deadlineAfter } from '../deadline.ts';
import type { PeerClock } from '../peer-clock.ts';
import { Window } from '../sending/credit.ts';
import { LearntNames, methodName } from '../sending/method-names.ts';
import { takeMessage } from '../sending/session-shared.ts';
import { checkBlock, MessageAssembly } from '../streams/message-assembly.ts';
import type { AcceptedCalls } from './accepted-calls.ts';
import type { CallOpening } from './call-opening.ts';
import { IncomingCall } from './incoming-call.ts';
import type { Registry } from './registry.ts';
import type { UnservedRequests } from './unserved.ts';

/** The codec of a request that no handler will see: its memory is used again. */
const discarded: Codec<unknown> = { ...(anyBytes as Codec<unknown>), copiesBytes: true };

/** A request that is whole, until it is decoded. */
class WholeRequest {
  isWhole = false;
  /** Memory of the transport, unless there is an assembly. */
  memory: Uint8Array = noBytes;
  from = 0;
  to = 0;
  /** The memory of its own that holds the request. */
  assembly: MessageAssembly | undefined;

  set(memory: Uint8Array, from: number, to: number, assembly: MessageAssembly | undefined): void {
    this.isWhole = true;
    this.memory = memory;
    this.from = from;
    this.to = to;
    this.assembly = assembly;
  }

  clear(): void {
    this.isWhole = false;
    this.memory = noBytes;
    this.assembly = undefined;
  }
}

export class OpenFrames {
  readonly #calls: AcceptedCalls<IncomingCall>;
  readonly #registry: Registry;
  readonly #unserved: UnservedRequests;
  readonly #names = new LearntNames();
  readonly #clock: PeerClock;
  /** Pieces of requests that have arrived, ever. */
  pieces = 0;
  /** The request of the call that the last frame belongs to, where it is whole. */
  readonly request = new WholeRequest();
  /** Memory handed out for the first piece of a request, which is about to arrive. */
  placed: MessageAssembly | undefined;

  constructor(
    calls: AcceptedCalls<IncomingCall>,
    registry: Registry,
    unserved: UnservedRequests,
    clock: PeerClock,
  ) {
    this.#calls = calls;
    this.#registry = registry;
    this.#unserved = unserved;
    this.#clock = clock;
  }

  learn(header: Header, payload: Uint8Array): void {
    this.#names.learn(header.slot, payload);
  }

  /**
   * Final place of a piece of a request; of its first piece only where the call will be accepted.
   */
  placeFor(header: Header, bytes: number): Uint8Array | undefined {
    if (header.type !== FrameType.open) {
      const call = this.#calls.streams.find(header.slot, header.generation);
      if (call?.reader !== undefined) {
        return call.reader.place(header.type === FrameType.message, header.messageBytes, bytes);
      }
      return header.type === FrameType.fragment ? call?.assembly?.place(bytes) : undefined;
    }
    const { method, timeoutMs, metadataBytes, messageBytes } = header;
    const isPlain = metadataBytes === 0 && timeoutMs !== 0 && !this.#calls.isDraining;
    const mayHold = messageBytes <= this.#calls.shared.own.receiveMaxBytes && bytes <= messageBytes;
    if (!isPlain || method >= inlineName || !mayHold) return undefined;
    const name = this.#names.nameOf(method);
    const served = this.#registry.find(name);
    if (served === undefined || this.#unserved.mustWait(name)) return undefined;
    const { transport } = this.#calls.shared;
    this.placed = MessageAssembly.arriving(transport, messageBytes, bytes, served.request);
    return this.placed.place(bytes);
  }

  /** Takes the memory that was handed out for this frame; undefined: there is none. */
  takePlaced(): MessageAssembly | undefined {
    const placed = this.placed;
    this.placed = undefined;
    return placed;
  }

  /** The name of a method; undefined: its number was never announced. */
  nameOf(number: number): string | undefined {
    return this.#names.known(number);
  }

  /**
   * Reads the frame that opens a call. Returns the call, whose request is whole, or has begun to
   * arrive, or is a stream; undefined: the call was refused.
   * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for what no correct peer sends.
   */
  read(
    header: Header,
    payload: Uint8Array,
    from: number,
    to: number,
    placed: MessageAssembly | undefined,
    block: ArrivedBlock | undefined,
  ): IncomingCall | undefined {
    const { shared, streams } = this.#calls;
    const { own, remote } = shared;
    const { kind, metadataBytes, messageBytes } = header;
    streams.open(header.slot, header.generation);
    checkKind(kind, header.flags, messageBytes);
    const window = kind === CallKind.notification ? Window.notifications : Window.requests;
    const nameBytes = header.method < inlineName ? 0 : header.method - inlineName;
    if (nameBytes === 0 && kind >= CallKind.channel) throw protocol('channel named by a number');
    const method =
      nameBytes === 0 ? this.#names.nameOf(header.method) : nameIn(payload, from, nameBytes);
    const isExtra = streams.isExtra(header.slot);
    if (isExtra) checkExtra(method, kind, messageBytes);
    const charge = isExtra ? 0 : takeMessage(shared, window, messageBytes);
    const bodyAt = from + nameBytes + metadataBytes;
    const isMetadata = metadataBytes <= own.metadataMaxBytes && bodyAt <= to;
    if (!isMetadata || to - bodyAt > messageBytes) {
      throw protocol('open frame whose lengths do not agree');
    }
    if (block !== undefined) checkBlock(block, messageBytes, to - bodyAt);
    const timeoutMs = this.#timeLeftMs(header);
    const opening: CallOpening = {
      slot: header.slot,
      generation: header.generation,
      kind,
      method,
      metadata: decodeMetadata(
        metadataBytes === 0 ? noBytes : payload.subarray(from + nameBytes, bodyAt),
      ),
      deadline: timeoutMs === noTimeout ? undefined : deadlineAfter(shared.clock, timeoutMs),
      charge,
      windowBytes: header.windowBytes === 0 ? remote.streamWindowBytes : header.windowBytes,
    };
    const refusal = this.#refusal(kind, timeoutMs);
    if (refusal !== undefined) {
      this.#refuse(opening, refusal, window);
      return undefined;
    }
    const call = new IncomingCall(opening, this.#calls);
    if (sendsMany(kind)) return call;
    if (block !== undefined) this.#takeBlock(call, block);
    else if (placed === undefined && to - bodyAt === messageBytes) {
      this.request.set(payload, bodyAt, to, undefined);
    } else this.#begin(call, partOf(payload, bodyAt, to), messageBytes, placed);
    return call;
  }

  /** Adds a piece to a request. Returns whether the request is whole now. */
  addFragment(call: IncomingCall, payload: Uint8Array): boolean {
    const { assembly } = call;
    if (assembly === undefined) throw protocol('fragment without a message');
    this.pieces += 1;
    if (!assembly.add(payload)) return false;
    call.releaseAssembly();
    this.request.set(assembly.bytes, 0, assembly.bytes.length, assembly);
    return true;
  }

  #begin(
    call: IncomingCall,
    message: Uint8Array,
    messageBytes: number,
    placed: MessageAssembly | undefined,
  ): void {
    call.assembly = placed ?? new MessageAssembly(messageBytes, this.#codecOf(call));
    this.#calls.unfinished += 1;
    if (message.length > 0) this.addFragment(call, message);
  }

  /** A request in a block is whole. A request for a method that is not served is not copied. */
  #takeBlock(call: IncomingCall, block: ArrivedBlock): void {
    const { method } = call.opening;
    const isWanted = this.#registry.find(method) !== undefined || this.#unserved.mustWait(method);
    const assembly = isWanted
      ? MessageAssembly.ofBlock(block, this.#codecOf(call), method)
      : undefined;
    const bytes = assembly?.bytes ?? noBytes;
    this.request.set(bytes, 0, bytes.length, assembly);
  }

  #codecOf(call: IncomingCall): Codec<unknown> {
    const { method } = call.opening;
    if (this.#unserved.mustWait(method)) return anyBytes as Codec<unknown>;
    return this.#registry.find(method)?.request ?? discarded;
  }

  /** Milliseconds that are left of a call: the time of its frame on the way counts, too. */
  #timeLeftMs({ timeoutMs, sentAt }: Header): number {
    if (timeoutMs === noTimeout) return noTimeout;
    return Math.max(0, timeoutMs - this.#clock.underWayMs(sentAt));
  }

  /**
   * The reason to refuse a call; undefined: it is accepted. A notification is accepted also while
   * we drain, since the peer may not know of that yet.
   */
  #refusal(kind: number, timeoutMs: number): number | undefined {
    if (this.#calls.isDraining && kind !== CallKind.notification) return ResetReason.goingAway;
    return timeoutMs === 0 ? ResetReason.deadlineExceeded : undefined;
  }

  /** Refuses a call. The slot stays closed in this generation; fragments that follow are late. */
  #refuse({ slot, generation, charge }: CallOpening, reason: number, window: number): void {
    const { shared } = this.#calls;
    const { sendQueue } = shared;
    sendQueue.sendControl(sendQueue.header.reset(0, slot, generation, reason));
    shared.releaseCredit(window, charge);
  }
}

/**
 * A name that was not announced, in front of the metadata. @throws {SidecallError}
 * `ERR_SIDECALL_PROTOCOL`.
 */
function nameIn(payload: Uint8Array, from: number, nameBytes: number): string {
  return methodName(payload.subarray(from, from + nameBytes), nameBytes);
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
  const wanted = isMany ? FrameFlag.fromOpener : wholeFlags;
  if (flags !== wanted || (isMany && messageBytes !== 0)) {
    throw protocol('open frame with the flags of another kind of call');
  }
}
