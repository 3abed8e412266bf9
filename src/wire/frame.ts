// SPDX-License-Identifier: MIT
// The unit on every lane: a header of fixed size per type, then a payload. docs/protocol.md draws them.
import { SidecallError } from '../base/errors.ts';
import { fixed } from '../base/limits.ts';

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
  /** A message of a stream that counts in the stream's window only: the window of all streams is used up. */
  beyond: 8,
} as const;

/** What an opened stream is. */
export const CallKind = {
  unary: 1,
  notification: 2,
  serverStream: 3,
  clientStream: 4,
  bidi: 5,
  channel: 6,
  duplex: 7,
} as const;

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

/** `timeoutMs` of a call that has none. */
export const noTimeout = 0xffff_ffff;

/** Added to the bytes of a name that stands in its `open`, in place of a number. */
export const inlineName = 0x8000_0000;

/** Windows that a session has in each direction. */
const sessionWindows = 4;

const baseBytes = 12;
/** Header bytes by type; 0: no such type. */
const headerBytesOf = [0, 12, 36, 16, 12, 12, 20, 12, 16, 12, 12, 12, 16] as const;
const flagsOf = [0, 0, 3, 15, 1, 1, 3, 1, 1, 2, 0, 0, 0] as const;

/** Largest frame on any lane. */
export const frameMaxBytes = fixed.fragmentBytes + fixed.frameHeaderMaxBytes;

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

/** Writes headers into one buffer that it keeps: a transport copies them before `trySend` returns. */
export class HeaderWriter {
  readonly #bytes = new Uint8Array(fixed.frameHeaderMaxBytes);
  readonly #views = headerBytesOf.map((size) => this.#bytes.subarray(0, size));

  method(number: number): Uint8Array {
    return this.#base(FrameType.method, 0, 0, number, 0);
  }

  open(open: {
    kind: number;
    slot: number;
    generation: number;
    method: number;
    timeoutMs: number;
    metadataBytes: number;
    messageBytes: number;
    windowBytes: number;
    sentAt: number;
  }): Uint8Array {
    const flags = sendsMany(open.kind)
      ? FrameFlag.fromOpener
      : FrameFlag.fromOpener | FrameFlag.end;
    const bytes = this.#base(FrameType.open, flags, open.kind, open.slot, open.generation);
    writeU32(bytes, 12, open.method);
    writeU32(bytes, 16, open.timeoutMs);
    writeU32(bytes, 20, open.metadataBytes);
    writeU32(bytes, 24, open.messageBytes);
    writeU32(bytes, 28, open.windowBytes);
    writeU32(bytes, 32, open.sentAt);
    return bytes;
  }

  message(flags: number, slot: number, generation: number, messageBytes: number): Uint8Array {
    const bytes = this.#base(FrameType.message, flags, 0, slot, generation);
    writeU32(bytes, 12, messageBytes);
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
    writeU32(bytes, 12, sizes.metadataBytes);
    writeU32(bytes, 16, sizes.textBytes);
    return bytes;
  }

  reset(flags: number, slot: number, generation: number, reason: number): Uint8Array {
    return this.#base(FrameType.reset, flags, reason, slot, generation);
  }

  /** For a window of the session by its number (generation 0), or for one stream. */
  credit(flags: number, slot: number, generation: number, bytesGranted: number): Uint8Array {
    const bytes = this.#base(FrameType.credit, flags, 0, slot, generation);
    writeU32(bytes, 12, bytesGranted);
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
    writeU32(bytes, 12, milliseconds);
    return bytes;
  }

  #base(type: number, flags: number, aux: number, slot: number, generation: number): Uint8Array {
    const bytes = this.#views[type] as Uint8Array;
    bytes[0] = type;
    bytes[1] = flags;
    bytes[2] = aux;
    bytes[3] = aux >>> 8;
    writeU32(bytes, 4, slot);
    writeU32(bytes, 8, generation);
    return bytes;
  }
}

/** A header taken apart. Fields beyond the first five belong to the type. */
export interface Header {
  type: number;
  flags: number;
  /** Kind, status or reason. */
  aux: number;
  /** Stream slot; number of a `method`; window of a `credit`; token of a `ping`. */
  slot: number;
  generation: number;
  /** The u32 at byte 12 and the following ones, 0 where the type has none. */
  a: number;
  b: number;
  c: number;
  d: number;
  e: number;
  f: number;
}

/** For {@link readHeader}. */
export function emptyHeader(): Header {
  return { type: 0, flags: 0, aux: 0, slot: 0, generation: 0, a: 0, b: 0, c: 0, d: 0, e: 0, f: 0 };
}

/**
 * Takes a header apart into `into`, which the caller keeps: no object per frame.
 * @throws {SidecallError} `PROTOCOL` for an unknown type, wrong size, unknown flags, or a field that
 * must be zero and is not.
 */
export function readHeader(bytes: Uint8Array, into: Header): void {
  const type = bytes[0] as number;
  const size = headerBytes(type);
  if (size === 0 || bytes.byteLength !== size) throw protocol(`frame of unknown type ${type}`);
  into.type = type;
  into.flags = bytes[1] as number;
  into.aux = (bytes[2] as number) | ((bytes[3] as number) << 8);
  into.slot = readU32(bytes, 4);
  into.generation = readU32(bytes, 8);
  into.a = size > baseBytes ? readU32(bytes, 12) : 0;
  into.b = size > 16 ? readU32(bytes, 16) : 0;
  into.c = size > 20 ? readU32(bytes, 20) : 0;
  into.d = size > 24 ? readU32(bytes, 24) : 0;
  into.e = size > 28 ? readU32(bytes, 28) : 0;
  into.f = size > 32 ? readU32(bytes, 32) : 0;
  if ((into.flags & ~(flagsOf[type] as number)) !== 0) throw protocol('frame with unknown flags');
  const isBeyond = (into.flags & FrameFlag.beyond) !== 0;
  if (isBeyond && (into.flags & FrameFlag.streamed) === 0)
    throw protocol('frame with unknown flags');
  const hasAux = type === FrameType.open || type === FrameType.end || type === FrameType.reset;
  if (!hasAux && into.aux !== 0) throw protocol('frame with a reserved field set');
  if (type === FrameType.credit) {
    const isOfSession = into.generation === 0;
    if (isOfSession && (into.slot >= sessionWindows || into.flags !== 0)) {
      throw protocol('credit for no window');
    }
  } else if (type > FrameType.credit || type === FrameType.method) {
    const hasSlot = type !== FrameType.goaway && type !== FrameType.clock;
    const slotMax = hasSlot ? 0xffff_ffff : 0;
    if (into.generation !== 0 || into.slot > slotMax) {
      throw protocol('frame with a reserved field set');
    }
  }
}

/** @throws {SidecallError} `PROTOCOL` for a payload behind a frame that has none. */
export function checkPayload(type: number, payloadBytes: number): void {
  if (type >= FrameType.reset && payloadBytes > 0) throw protocol('payload behind a frame of none');
}

/** The answer to a peer that breaks the rules. */
export function protocol(what: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_PROTOCOL', `the peer sent a ${what}`);
}

/** What a {@link FrameDecoder} gives out. */
export interface FrameSink {
  onFrame(header: Uint8Array, payload: Uint8Array): void;
  placeFor(header: Uint8Array, bytes: number): Uint8Array | undefined;
}

const lengthBytes = 4;
const nothing = new Uint8Array(0);

/**
 * Frames out of a byte stream: u32 length, then header and payload. Fed with whatever a read gave;
 * a frame that lies whole in one read is handed out as a view of it.
 */
export class FrameDecoder {
  readonly #sink: FrameSink;
  readonly #isStopped: () => boolean;
  // Length and header of a frame whose beginning was cut: at most 4 + 120 bytes.
  readonly #head = new Uint8Array(lengthBytes + fixed.frameHeaderMaxBytes);
  #headFilled = 0;
  // Payload of a frame whose payload was cut.
  #payload: Uint8Array | undefined;
  #payloadFilled = 0;
  #scratch: Uint8Array | undefined;
  #chunk: Uint8Array | undefined;
  #next = 0;

  /** `isStopped`: asked before each frame, since a frame can end the session that it belongs to. */
  constructor(sink: FrameSink, isStopped: () => boolean) {
    this.#sink = sink;
    this.#isStopped = isStopped;
  }

  /** While a frame is handed out: what follows it in the same chunk. Whole frames, if the chunk is. */
  get rest(): Uint8Array | undefined {
    return this.#chunk?.subarray(this.#next);
  }

  /** True in the middle of a frame: an end here lost something. */
  get isMidFrame(): boolean {
    return this.#headFilled > 0;
  }

  /**
   * Returns how many bytes it took before it was stopped.
   * @throws {SidecallError} `PROTOCOL` or `FRAME_TOO_LARGE`; then the decoder is not to be used again.
   */
  push(chunk: Uint8Array): number {
    let at = 0;
    this.#chunk = chunk;
    while (at < chunk.byteLength && !this.#isStopped()) {
      at = this.#headFilled > 0 ? this.#resume(chunk, at) : this.#begin(chunk, at);
    }
    this.#chunk = undefined;
    return at;
  }

  /** At a frame boundary: the common case is a whole frame, handed out without a copy. */
  #begin(chunk: Uint8Array, at: number): number {
    const available = chunk.byteLength - at;
    if (available > lengthBytes) {
      const size = headerBytes(chunk[at + lengthBytes] as number);
      const frameBytes = checkLength(readU32(chunk, at), size);
      if (available >= lengthBytes + frameBytes) {
        const start = at + lengthBytes;
        const header = chunk.subarray(start, start + size);
        const end = start + frameBytes;
        const payload = size === frameBytes ? nothing : chunk.subarray(start + size, end);
        this.#next = end;
        this.#sink.onFrame(header, payload);
        return end;
      }
    }
    return this.#resume(chunk, at);
  }

  #resume(chunk: Uint8Array, start: number): number {
    let at = start;
    if (this.#payload === undefined) {
      at = this.#fillHead(chunk, at);
      if (this.#payload === undefined) return at;
    }
    const payload: Uint8Array = this.#payload;
    const count = Math.min(payload.byteLength - this.#payloadFilled, chunk.byteLength - at);
    payload.set(chunk.subarray(at, at + count), this.#payloadFilled);
    this.#payloadFilled += count;
    if (this.#payloadFilled === payload.byteLength) this.#finish(payload);
    return at + count;
  }

  /** Takes length and header; once they are whole, finds a place for the payload. */
  #fillHead(chunk: Uint8Array, start: number): number {
    let at = start;
    for (;;) {
      const wanted = this.#headWanted();
      const count = Math.min(wanted - this.#headFilled, chunk.byteLength - at);
      this.#head.set(chunk.subarray(at, at + count), this.#headFilled);
      this.#headFilled += count;
      at += count;
      if (this.#headFilled < wanted) return at;
      if (wanted > lengthBytes + 1) break;
    }
    const size = headerBytes(this.#head[lengthBytes] as number);
    const payloadBytes = checkLength(readU32(this.#head, 0), size) - size;
    const header = this.#head.subarray(lengthBytes, lengthBytes + size);
    this.#payloadFilled = 0;
    this.#payload = this.#sink.placeFor(header, payloadBytes) ?? this.#scratchOf(payloadBytes);
    if (payloadBytes === 0) this.#finish(this.#payload);
    return at;
  }

  /** Bytes of length and header to collect: the type byte comes first and tells the rest. */
  #headWanted(): number {
    if (this.#headFilled <= lengthBytes) return lengthBytes + 1;
    const size = headerBytes(this.#head[lengthBytes] as number);
    checkLength(readU32(this.#head, 0), size);
    return lengthBytes + size;
  }

  #finish(payload: Uint8Array): void {
    const size = headerBytes(this.#head[lengthBytes] as number);
    const header = this.#head.subarray(lengthBytes, lengthBytes + size);
    this.#payload = undefined;
    this.#headFilled = 0;
    // An idle session keeps no large buffer; the view in `payload` lives on until it was handed out.
    if (this.#scratch !== undefined && this.#scratch.byteLength > 8192) this.#scratch = undefined;
    this.#sink.onFrame(header, payload);
  }

  #scratchOf(bytes: number): Uint8Array {
    if (bytes === 0) return nothing;
    if (this.#scratch === undefined || this.#scratch.byteLength < bytes) {
      this.#scratch = Buffer.allocUnsafeSlow(Math.max(bytes, 4096));
    }
    return this.#scratch.subarray(0, bytes);
  }
}

function checkLength(frameBytes: number, size: number): number {
  if (frameBytes > frameMaxBytes) {
    const words = `the peer announced a frame of ${frameBytes} bytes; the most is ${frameMaxBytes}`;
    throw new SidecallError('ERR_SIDECALL_FRAME_TOO_LARGE', words);
  }
  if (size === 0) throw protocol('frame of unknown type');
  if (frameBytes < size) throw protocol('frame shorter than its header');
  return frameBytes;
}
