// SPDX-License-Identifier: MIT
// The frames of golib's package chunk: the length as a signed varint of Go (zigzag, low group of 7
// bits first), then so many bytes.
import { Buffer } from 'node:buffer';
import { SidecallError } from '../../base/errors.ts';

/** A length of 2^55 - 1 has 8 bytes: golib writes no more. */
const lengthMaxBytes = 8;

/** A frame of `bytes`, which is not empty: golib sends and expects no empty frame. */
export function encodeFrame(bytes: Uint8Array): Buffer {
  const length = encodeLength(bytes.length);
  const frame = Buffer.allocUnsafe(length.length + bytes.length);
  frame.set(length, 0);
  frame.set(bytes, length.length);
  return frame;
}

function encodeLength(bytes: number): number[] {
  const encoded: number[] = [];
  // Zigzag doubles a length; numbers hold that exactly, 32-bit operators do not.
  let rest = 2 * bytes;
  while (rest >= 0x80) {
    encoded.push((rest % 0x80) + 0x80);
    rest = Math.floor(rest / 0x80);
  }
  encoded.push(rest);
  return encoded;
}

/** Takes frames out of the bytes of a stream. */
export class FrameReader {
  readonly #maxBytes: number;
  /** Bytes of the length that have arrived. */
  #length: number[] = [];
  /** The frame that arrives, and how much of it is there; undefined: its length is not known. */
  #frame: Buffer | undefined;
  #filled = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** True: a frame has begun, and is not whole. */
  get isMidway(): boolean {
    return this.#frame !== undefined || this.#length.length > 0;
  }

  /**
   * The frames that are whole with these bytes, in memory of their own.
   * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for a length that no correct peer writes,
   * `ERR_SIDECALL_FRAME_TOO_LARGE`.
   */
  *push(bytes: Uint8Array): Generator<Buffer> {
    let at = 0;
    while (at < bytes.length) {
      if (this.#frame === undefined) {
        this.#length.push(bytes[at] as number);
        at += 1;
        this.#readLength();
        continue;
      }
      const part = bytes.subarray(at, at + this.#frame.length - this.#filled);
      this.#frame.set(part, this.#filled);
      this.#filled += part.length;
      at += part.length;
      if (this.#filled < this.#frame.length) return;
      const whole = this.#frame;
      this.#frame = undefined;
      yield whole;
    }
  }

  #readLength(): void {
    const encoded = this.#length;
    const last = encoded.at(-1) as number;
    if (last >= 0x80) {
      if (encoded.length >= lengthMaxBytes) throw wrong('a length of more than 8 bytes');
      return;
    }
    if (last === 0 && encoded.length > 1) throw wrong('an over-long length');
    const zigzag = encoded.reduce((sum, group, at) => sum + (group % 0x80) * 0x80 ** at, 0);
    if (zigzag % 2 === 1) throw wrong('a negative length');
    const length = zigzag / 2;
    if (length === 0) throw wrong('an empty frame');
    if (length > this.#maxBytes) {
      const text = `a frame of ${length} bytes, at most ${this.#maxBytes} are accepted; raise receiveMaxBytes`;
      throw new SidecallError('ERR_SIDECALL_FRAME_TOO_LARGE', text);
    }
    this.#length = [];
    this.#filled = 0;
    this.#frame = Buffer.allocUnsafe(length);
  }
}

function wrong(what: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_PROTOCOL', `golib: ${what}`);
}
