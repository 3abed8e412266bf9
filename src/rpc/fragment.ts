// SPDX-License-Identifier: MIT
// A message that came in pieces, joined in its final buffer.
import { protocol } from '../frame.ts';
import { giveBuffer, takeBuffer } from './receive-pool.ts';

/**
 * The memory of one message: its own where the codec keeps what it is given, else of the pool.
 * NOTE: the length was checked against the limits; here the memory is taken.
 */
export class Assembly {
  readonly bytes: Buffer;
  readonly #pooled: Buffer | undefined;
  #filled = 0;

  /** `isKept`: the decoded value will share the memory. */
  constructor(totalBytes: number, isKept: boolean) {
    this.#pooled = isKept ? undefined : takeBuffer(totalBytes);
    this.bytes = this.#pooled?.subarray(0, totalBytes) ?? Buffer.allocUnsafeSlow(totalBytes);
  }

  /** Memory that it holds. */
  get memoryBytes(): number {
    return this.#pooled?.byteLength ?? this.bytes.byteLength;
  }

  /** Bytes that are still to come. */
  get missingBytes(): number {
    return this.bytes.byteLength - this.#filled;
  }

  /** The codec may keep the memory. */
  get isOwned(): boolean {
    return this.#pooled === undefined;
  }

  /** Where the next `bytes` bytes belong. @throws {SidecallError} `PROTOCOL` beyond the length. */
  place(bytes: number): Uint8Array {
    if (bytes === 0 || bytes > this.bytes.byteLength - this.#filled) {
      throw protocol('fragment that does not fit its message');
    }
    return this.bytes.subarray(this.#filled, this.#filled + bytes);
  }

  /** Adds a piece, which may already lie in its place. True: the message is whole. */
  add(payload: Uint8Array): boolean {
    const place = this.place(payload.byteLength);
    const isInPlace = payload.buffer === place.buffer && payload.byteOffset === place.byteOffset;
    if (!isInPlace) place.set(payload);
    this.#filled += payload.byteLength;
    return this.#filled === this.bytes.byteLength;
  }

  /**
   * It was decoded: nothing looks at the memory any more. Once, and never for a message that is given up
   * half-way, whose next piece may be on its way into a place that was handed out.
   */
  release(): void {
    if (this.#pooled !== undefined) giveBuffer(this.#pooled);
  }
}
