// SPDX-License-Identifier: MIT
// The headers of frames: the types, their flags and fields, and the bytes of each. docs/protocol.md
// draws them.

import { SidecallError } from '../base/errors.ts';
import { noBytes } from '../base/ignore-errors.ts';
import { wireLimits } from '../base/limits/wire-limits.ts';

/** First byte of a frame. */
export const FrameType = {
  method: 1,
  open: 2,
  message: 3,
  fragment: 4,
  headers: 5,
  end: 6,
  reset: 7,
  credit: 8,
  goaway: 9,
  ping: 10,
  pong: 11,
  clock: 12,
} as const;

/** Second byte, a set of bits. */
export const FrameFlag = {
  /** The sender of this frame opened its stream. */
  fromOpener: 1,
  /** The sender's half ends with this message; on an `end` or a goaway: it answers one. */
  end: 2,
  /** A message of a stream: it counts in the stream's window and in that of all streams. */
  streamed: 4,
  /** A message of a stream that counts in its own window only: that of all is used up. */
  beyond: 8,
} as const;

/** The kinds of streams. */
export const CallKind = {
  unary: 1,
  notification: 2,
  serverStream: 3,
  clientStream: 4,
  bidi: 5,
  channel: 6,
  duplex: 7,
} as const;

/** The name of a kind of call, as `stats()` and `inspect()` have it. */
export type CallKindName = keyof typeof CallKind;

/** The opener sends a stream of messages: `open` carries none. */
export function sendsMany(kind: number): boolean {
  return kind >= CallKind.clientStream;
}

/** The other side sends a stream of messages. */
export function receivesMany(kind: number): boolean {
  return kind === CallKind.serverStream || kind >= CallKind.bidi;
}

/** Why a stream was reset, on the wire. */
export const ResetReason = {
  cancelled: 1,
  deadlineExceeded: 2,
  limitStreams: 3,
  goingAway: 4,
} as const;

/** Flags of an `open` whose message is all that its sender says. */
export const wholeFlags = FrameFlag.fromOpener | FrameFlag.end;

/** The first word of a header. */
function firstWord(type: number, flags: number, detail: number): number {
  return type | (flags << 8) | (detail << 16);
}

/** The first word of the header that opens a call with one answer, whose request is whole. */
export const plainOpen = firstWord(FrameType.open, wholeFlags, CallKind.unary);
/** The first word of the header of an answer behind which nothing follows. */
export const plainAnswer = firstWord(FrameType.message, FrameFlag.end, 0);
/** Where the fields of these headers lie. */
export const PlainField = {
  slot: 4,
  generation: 8,
  answerBytes: 12,
  method: 12,
  timeoutMs: 16,
  metadataBytes: 20,
  requestBytes: 24,
} as const;

let viewed: Uint8Array = noBytes;
let view = new DataView(viewed.buffer);

/** A view for reading fields of headers: most frames lie in the memory of the one before. */
export function fieldsOf(memory: Uint8Array): DataView {
  if (memory !== viewed) {
    viewed = memory;
    view = new DataView(memory.buffer, memory.byteOffset, memory.length);
  }
  return view;
}

/** `timeoutMs` of a call that has none. */
export const noTimeout = 0xffff_ffff;

/** Added to the bytes of a name that stands in its `open`, in place of a number. */
export const inlineName = 0x8000_0000;

/** Windows that a session has in each direction. */
const sessionWindows = 4;

/** Header bytes by type; 0, and behind the last one undefined: no such type. */
export const headerBytesOf = [0, 12, 36, 16, 12, 12, 20, 12, 16, 12, 12, 12, 16] as const;
const flagsOf = [0, 0, 3, 15, 1, 1, 3, 1, 1, 2, 0, 0, 0] as const;

/** Largest frame on any lane. */
export const frameMaxBytes = wireLimits.fragmentBytes + wireLimits.frameHeaderMaxBytes;

/** Header bytes of a frame by its first byte, or 0 where there is no such type. */
export function headerBytes(type: number): number {
  return headerBytesOf[type] ?? 0;
}

/** A little-endian u32; `at` is inside `bytes`. */
export function readU32(bytes: Uint8Array, at: number): number {
  return (
    ((bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24)) >>>
    0
  );
}

export function writeU32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value;
  bytes[at + 1] = value >>> 8;
  bytes[at + 2] = value >>> 16;
  bytes[at + 3] = value >>> 24;
}

/** Places for a header at the beginning of `memory`, by the type of the frame. */
export function headerViews(memory: Uint8Array): readonly Uint8Array[] {
  return headerBytesOf.map((size) => memory.subarray(0, size));
}

/** The fields of an `open` frame. */
type OpenFields = Omit<
  Readonly<Header>,
  'type' | 'flags' | 'status' | 'reason' | 'textBytes' | 'grantBytes'
>;

/**
 * Writes headers into one buffer: a transport copies them before `trySend` returns, or sends them
 * from there, where the buffer is its own.
 */
export class HeaderWriter {
  readonly #views: readonly Uint8Array[];
  readonly #fields: DataView;

  /** `views`: of {@link headerViews}. */
  constructor(views = headerViews(new Uint8Array(wireLimits.frameHeaderMaxBytes))) {
    this.#views = views;
    const [{ buffer, byteOffset }] = views as [Uint8Array];
    this.#fields = new DataView(buffer, byteOffset, wireLimits.frameHeaderMaxBytes);
  }

  method(number: number): Uint8Array {
    return this.#base(FrameType.method, 0, 0, number, 0);
  }

  open(open: OpenFields): Uint8Array {
    const { kind, slot, generation } = open;
    const flags = sendsMany(kind) ? FrameFlag.fromOpener : wholeFlags;
    const bytes = this.#base(FrameType.open, flags, kind, slot, generation);
    const fields = this.#fields;
    fields.setUint32(12, open.method, true);
    fields.setUint32(16, open.timeoutMs, true);
    fields.setUint32(20, open.metadataBytes, true);
    fields.setUint32(24, open.messageBytes, true);
    fields.setUint32(28, open.windowBytes, true);
    fields.setUint32(32, open.sentAt, true);
    return bytes;
  }

  /** As {@link HeaderWriter.open}, for a plain call. */
  call(
    slot: number,
    generation: number,
    method: number,
    timeoutMs: number,
    messageBytes: number,
    sentAt: number,
  ): Uint8Array {
    const fields = this.#fields;
    fields.setUint32(0, plainOpen, true);
    fields.setUint32(4, slot, true);
    fields.setUint32(8, generation, true);
    fields.setUint32(12, method, true);
    fields.setUint32(16, timeoutMs, true);
    fields.setUint32(20, 0, true);
    fields.setUint32(24, messageBytes, true);
    fields.setUint32(28, 0, true);
    fields.setUint32(32, sentAt, true);
    return this.#views[FrameType.open] as Uint8Array;
  }

  /** As {@link HeaderWriter.message}, of an answer behind which nothing follows. */
  answer(slot: number, generation: number, messageBytes: number): Uint8Array {
    const fields = this.#fields;
    fields.setUint32(0, plainAnswer, true);
    fields.setUint32(4, slot, true);
    fields.setUint32(8, generation, true);
    fields.setUint32(12, messageBytes, true);
    return this.#views[FrameType.message] as Uint8Array;
  }

  message(flags: number, slot: number, generation: number, messageBytes: number): Uint8Array {
    const bytes = this.#base(FrameType.message, flags, 0, slot, generation);
    this.#fields.setUint32(12, messageBytes, true);
    return bytes;
  }

  fragment(flags: number, slot: number, generation: number): Uint8Array {
    return this.#base(FrameType.fragment, flags, 0, slot, generation);
  }

  headers(slot: number, generation: number): Uint8Array {
    return this.#base(FrameType.headers, 0, 0, slot, generation);
  }

  /** `flags` {@link FrameFlag.end}: the peer's end has arrived. */
  end(
    flags: number,
    slot: number,
    generation: number,
    status: number,
    sizes: { metadataBytes: number; textBytes: number },
  ): Uint8Array {
    const bytes = this.#base(FrameType.end, flags, status, slot, generation);
    this.#fields.setUint32(12, sizes.metadataBytes, true);
    this.#fields.setUint32(16, sizes.textBytes, true);
    return bytes;
  }

  reset(flags: number, slot: number, generation: number, reason: number): Uint8Array {
    return this.#base(FrameType.reset, flags, reason, slot, generation);
  }

  /** For a window of the session by its number (generation 0), or for one stream. */
  credit(flags: number, slot: number, generation: number, bytesGranted: number): Uint8Array {
    const bytes = this.#base(FrameType.credit, flags, 0, slot, generation);
    this.#fields.setUint32(12, bytesGranted, true);
    return bytes;
  }

  /** `flags` {@link FrameFlag.end}: the answer to the peer's goaway. */
  goaway(flags: number): Uint8Array {
    return this.#base(FrameType.goaway, flags, 0, 0, 0);
  }

  ping(token: number): Uint8Array {
    return this.#base(FrameType.ping, 0, 0, token, 0);
  }

  pong(token: number): Uint8Array {
    return this.#base(FrameType.pong, 0, 0, token, 0);
  }

  /** `milliseconds`: the sender's monotonic clock, its low 32 bits. */
  clock(milliseconds: number): Uint8Array {
    const bytes = this.#base(FrameType.clock, 0, 0, 0, 0);
    this.#fields.setUint32(12, milliseconds, true);
    return bytes;
  }

  #base(type: number, flags: number, detail: number, slot: number, generation: number): Uint8Array {
    const fields = this.#fields;
    fields.setUint32(0, firstWord(type, flags, detail), true);
    fields.setUint32(4, slot, true);
    fields.setUint32(8, generation, true);
    return this.#views[type] as Uint8Array;
  }
}

/**
 * A header taken apart. The fields behind the first four belong to the types that they name; in
 * others they mean nothing.
 */
export interface Header {
  type: number;
  flags: number;
  /** Stream slot; number of a `method`; window of a `credit`; token of a `ping` and `pong`. */
  slot: number;
  /** Generation of the stream; 0 where the frame belongs to none. */
  generation: number;
  /** `open`: one of {@link CallKind}. */
  kind: number;
  /** `end`: a status by its number. */
  status: number;
  /** `reset`: one of {@link ResetReason}. */
  reason: number;
  /** `open`: number of the method, or {@link inlineName} and the bytes of its name. */
  method: number;
  /** `open`: what is left of the call's time, or {@link noTimeout}. */
  timeoutMs: number;
  /** `open` and `end`: bytes of the metadata. */
  metadataBytes: number;
  /** `open` and `message`: bytes of the whole message. */
  messageBytes: number;
  /** `open`: bytes of a stream that may be sent before credit comes; 0: what the hello said. */
  windowBytes: number;
  /** `open` and `clock`: the sender's monotonic clock in milliseconds, its low 32 bits. */
  sentAt: number;
  /** `end`: bytes of the text. */
  textBytes: number;
  /** `credit`: bytes that may be sent beside those before. */
  grantBytes: number;
}

/** For {@link readHeader}. */
export function emptyHeader(): Header {
  return {
    type: 0,
    flags: 0,
    slot: 0,
    generation: 0,
    kind: 0,
    status: 0,
    reason: 0,
    method: 0,
    timeoutMs: 0,
    metadataBytes: 0,
    messageBytes: 0,
    windowBytes: 0,
    sentAt: 0,
    textBytes: 0,
    grantBytes: 0,
  };
}

/** The header that begins at `at`, whose type is known and which is whole. */
export function headerAt(bytes: Uint8Array, at: number): Uint8Array {
  return bytes.subarray(at, at + headerBytes(bytes[at] as number));
}

/**
 * Takes the header that begins at `at` apart into `into`, which the caller keeps: no object per
 * frame.
 * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for an unknown type, wrong size, unknown flags,
 * or a field that must be zero and is not.
 */
export function readHeader(bytes: Uint8Array, into: Header, at = 0): void {
  const type = bytes[at] as number;
  const size = headerBytes(type);
  if (size === 0 || bytes.length - at < size) throw protocol(`frame of unknown type ${type}`);
  into.type = type;
  into.flags = bytes[at + 1] as number;
  into.slot = readU32(bytes, at + 4);
  into.generation = readU32(bytes, at + 8);
  checkFlags(type, into.flags);
  readFields(bytes, at, into);
  if (type === FrameType.credit) checkCredit(into);
  else if (type > FrameType.credit || type === FrameType.method) checkOfNoStream(into);
  else if (into.generation === 0) throw protocol('stream of generation 0');
}

/** The fields behind the first four. */
function readFields(bytes: Uint8Array, at: number, into: Header): void {
  const detail = (bytes[at + 2] as number) | ((bytes[at + 3] as number) << 8);
  switch (into.type) {
    case FrameType.open:
      into.kind = detail;
      into.method = readU32(bytes, at + 12);
      into.timeoutMs = readU32(bytes, at + 16);
      into.metadataBytes = readU32(bytes, at + 20);
      into.messageBytes = readU32(bytes, at + 24);
      into.windowBytes = readU32(bytes, at + 28);
      into.sentAt = readU32(bytes, at + 32);
      return;
    case FrameType.end:
      into.status = detail;
      into.metadataBytes = readU32(bytes, at + 12);
      into.textBytes = readU32(bytes, at + 16);
      return;
    case FrameType.reset:
      into.reason = detail;
      return;
    case FrameType.message:
      into.messageBytes = readU32(bytes, at + 12);
      break;
    case FrameType.credit:
      into.grantBytes = readU32(bytes, at + 12);
      break;
    case FrameType.clock:
      into.sentAt = readU32(bytes, at + 12);
      break;
  }
  if (detail !== 0) throw protocol('frame with a reserved field set');
}

function checkFlags(type: number, flags: number): void {
  const isBeyond = (flags & FrameFlag.beyond) !== 0;
  const isKnown = (flags & ~(flagsOf[type] as number)) === 0;
  if (isKnown && (!isBeyond || (flags & FrameFlag.streamed) !== 0)) return;
  throw protocol('frame with unknown flags');
}

function checkCredit({ generation, slot, flags }: Header): void {
  if (generation !== 0 || (slot < sessionWindows && flags === 0)) return;
  throw protocol('credit for an unknown window');
}

/** Frames of the session have no generation; goaway and clock have no number either. */
function checkOfNoStream({ type, generation, slot }: Header): void {
  const hasNumber = type !== FrameType.goaway && type !== FrameType.clock;
  if (generation === 0 && (hasNumber || slot === 0)) return;
  throw protocol('frame with a reserved field set');
}

/** @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for a payload behind a frame that has none. */
export function checkPayload(type: number, payloadBytes: number): void {
  if (type >= FrameType.reset && payloadBytes > 0)
    throw protocol('payload behind a frame that has none');
}

/** The error of a peer that breaks the protocol. */
export function protocol(what: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_PROTOCOL', `the peer broke the protocol: ${what}`);
}
