// SPDX-License-Identifier: MIT
// A message that came in pieces, joined in its final buffer.
import { protocol } from '../frame.ts';

/** Collects the fragments of one message, whose length its first frame announced. */
export class Assembly {
  readonly bytes: Buffer;
  #filled = 0;

  /** NOTE: `totalBytes` was checked against the limits; here the memory is taken. */
  constructor(totalBytes: number, first: Uint8Array) {
    this.bytes = Buffer.allocUnsafeSlow(totalBytes);
    this.bytes.set(first);
    this.#filled = first.byteLength;
  }

  /** Where the next `bytes` bytes belong. @throws {SidecallError} `PROTOCOL` beyond the length. */
  place(bytes: number): Uint8Array {
    if (bytes === 0 || bytes > this.bytes.byteLength - this.#filled) {
      throw protocol('fragment that does not fit its message');
    }
    return this.bytes.subarray(this.#filled, this.#filled + bytes);
  }

  /** Adds a fragment, which may already lie in its place. True: the message is whole. */
  add(payload: Uint8Array): boolean {
    const place = this.place(payload.byteLength);
    const isInPlace = payload.buffer === place.buffer && payload.byteOffset === place.byteOffset;
    if (!isInPlace) place.set(payload);
    this.#filled += payload.byteLength;
    return this.#filled === this.bytes.byteLength;
  }
}
