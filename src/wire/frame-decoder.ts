// SPDX-License-Identifier: MIT
// Frames out of a byte stream.

import { Buffer } from 'node:buffer';
import { giveBuffer, takeBuffer } from '../base/buffer-pool.ts';
import { SidecallError } from '../base/errors.ts';
import { noBytes } from '../base/ignore-errors.ts';
import { wireLimits } from '../base/limits/wire-limits.ts';
import {
  fieldsOf,
  frameMaxBytes,
  headerBytes,
  headerBytesOf,
  protocol,
  readU32,
} from './frame-header.ts';
/** The receiver of a {@link FrameDecoder}'s frames. */
export interface FrameSink {
  onFrame(header: Uint8Array, at: number, payload: Uint8Array, from: number, to: number): void;
  placeFor(header: Uint8Array, bytes: number): Uint8Array | undefined;
}

const lengthBytes = 4;
const scratchMaxBytes = 4096;

/**
 * Frames out of a byte stream: u32 length, then header and payload. It is fed with the chunks of
 * reads; a frame that is whole in one chunk is handed out as a part of it.
 */
export class FrameDecoder {
  readonly #sink: FrameSink;
  readonly #isStopped: () => boolean;
  // Length and header of a frame whose beginning was cut: at most 4 + 120 bytes.
  readonly #head = new Uint8Array(lengthBytes + wireLimits.frameHeaderMaxBytes);
  #headFilled = 0;
  // Payload of a frame whose payload was cut.
  #payload: Uint8Array | undefined;
  #payloadFilled = 0;
  #scratch: Uint8Array | undefined;
  // Memory of the pool for a long payload that has no place: an idle session keeps none.
  #pooled: Buffer | undefined;
  #chunk: Uint8Array | undefined;
  #chunkEnd = 0;
  #next = 0;
  /** Frames ever whose beginning was cut. */
  cutFrames = 0;

  /** `isStopped`: asked before each frame, since a frame can end the session that it belongs to. */
  constructor(sink: FrameSink, isStopped: () => boolean) {
    this.#sink = sink;
    this.#isStopped = isStopped;
  }

  /**
   * While a frame is handed out: what follows it in the same chunk. Whole frames, if the chunk is.
   */
  get rest(): Uint8Array | undefined {
    return this.#chunk?.subarray(this.#next, this.#chunkEnd);
  }

  /** True in the middle of a frame: an end here lost something. */
  get isMidFrame(): boolean {
    return this.#headFilled > 0;
  }

  /**
   * Takes the bytes of `chunk` before `end`. Returns how many it took before it was stopped.
   * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` or `ERR_SIDECALL_FRAME_TOO_LARGE`; then the
   * decoder is not to be used again.
   */
  push(chunk: Uint8Array, end = chunk.length): number {
    let at = 0;
    this.#chunk = chunk;
    this.#chunkEnd = end;
    const fields = fieldsOf(chunk);
    while (at < end && !this.#isStopped()) {
      // The common case is a whole frame, handed out without a copy.
      if (this.#headFilled === 0 && end - at > lengthBytes) {
        const size = headerBytesOf[chunk[at + lengthBytes] as number] ?? 0;
        const frameBytes = fields.getUint32(at, true);
        const isLength = size > 0 && frameBytes >= size && frameBytes <= frameMaxBytes;
        if (!isLength) checkLength(frameBytes, size);
        const start = at + lengthBytes;
        const next = start + frameBytes;
        if (next <= end) {
          this.#next = next;
          this.#sink.onFrame(chunk, start, chunk, start + size, next);
          at = next;
          continue;
        }
      }
      at = this.#resume(chunk, at, end);
    }
    this.#chunk = undefined;
    return at;
  }

  #resume(chunk: Uint8Array, start: number, end: number): number {
    let at = start;
    if (this.#headFilled === 0) this.cutFrames += 1;
    if (this.#payload === undefined) {
      at = this.#fillHead(chunk, at, end);
      if (this.#payload === undefined) return at;
    }
    const payload: Uint8Array = this.#payload;
    const count = Math.min(payload.length - this.#payloadFilled, end - at);
    payload.set(chunk.subarray(at, at + count), this.#payloadFilled);
    this.#payloadFilled += count;
    if (this.#payloadFilled === payload.length) this.#finish(payload);
    return at + count;
  }

  /** Takes length and header; once they are whole, finds a place for the payload. */
  #fillHead(chunk: Uint8Array, start: number, end: number): number {
    let at = start;
    for (;;) {
      const wanted = this.#headWanted();
      const count = Math.min(wanted - this.#headFilled, end - at);
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
    const pooled = this.#pooled;
    this.#payload = undefined;
    this.#pooled = undefined;
    this.#headFilled = 0;
    this.#sink.onFrame(this.#head, lengthBytes, payload, 0, payload.length);
    if (pooled !== undefined) giveBuffer(pooled);
  }

  #scratchOf(bytes: number): Uint8Array {
    if (bytes === 0) return noBytes;
    if (bytes > scratchMaxBytes) {
      this.#pooled = takeBuffer(bytes);
      return this.#pooled.subarray(0, bytes);
    }
    this.#scratch ??= Buffer.allocUnsafeSlow(scratchMaxBytes);
    return this.#scratch.subarray(0, bytes);
  }
}

function checkLength(frameBytes: number, size: number): number {
  if (frameBytes > frameMaxBytes) {
    const text = `the peer announced a frame of ${frameBytes} bytes; the most is ${frameMaxBytes}`;
    throw new SidecallError('ERR_SIDECALL_FRAME_TOO_LARGE', text);
  }
  if (size === 0) throw protocol('frame of unknown type');
  if (frameBytes < size) throw protocol('frame shorter than its header');
  return frameBytes;
}
