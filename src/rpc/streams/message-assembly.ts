// SPDX-License-Identifier: MIT
// A message on its way into its final buffer, and out of it: in pieces, or in a block of the
// peer's.

import { giveBuffer, takeBuffer } from '../../base/buffer-pool.ts';
import { protocol } from '../../wire/frame-header.ts';
import type { ArrivedBlock, LentBytes } from '../../wire/transport.ts';
import { type Codec, decodeWith } from '../contract/codec.ts';
import { copiedLease, isLeased, lentLease } from '../contract/leases.ts';

/**
 * The memory of one message. A codec that keeps the bytes gets memory of its own; one that copies
 * them gets memory of the pool, until the message is decoded; a leased message holds memory of the
 * pool, or of the peer, until it is released. NOTE: the length was checked against the limits;
 * here the memory is taken.
 */
export class MessageAssembly {
  readonly bytes: Uint8Array;
  readonly codec: Codec<unknown>;
  #pooled: Buffer | undefined;
  #lent: LentBytes | undefined;
  #filled = 0;

  constructor(totalBytes: number, codec: Codec<unknown>, lent?: LentBytes) {
    this.codec = codec;
    this.#lent = lent;
    if (lent !== undefined) {
      this.bytes = lent.bytes;
      this.#filled = totalBytes;
    } else if (codec.keepsBytes === true) this.bytes = Buffer.allocUnsafeSlow(totalBytes);
    else {
      this.#pooled = takeBuffer(totalBytes);
      this.bytes = this.#pooled.subarray(0, totalBytes);
    }
  }

  /**
   * A whole message, read in place if codec and transport allow that, else a copy. `owner`: the
   * method or channel whose message it is.
   */
  static ofBlock(block: ArrivedBlock, codec: Codec<unknown>, owner: string): MessageAssembly {
    const lent = isLeased(codec) ? block.lend(owner) : undefined;
    const assembly = new MessageAssembly(block.byteLength, codec, lent);
    if (lent !== undefined) return assembly;
    block.copyInto(assembly.bytes);
    assembly.#filled = block.byteLength;
    return assembly;
  }

  /** Memory that it holds. */
  get memoryBytes(): number {
    return this.#pooled?.byteLength ?? this.bytes.byteLength;
  }

  /** Bytes that are still to come. */
  get missingBytes(): number {
    return this.bytes.byteLength - this.#filled;
  }

  /** The peer's memory that holds the message. The caller that decodes the message releases it. */
  get lent(): LentBytes | undefined {
    return this.#lent;
  }

  /**
   * Where the next `bytes` bytes belong. @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` beyond the
   * length.
   */
  place(bytes: number): Uint8Array {
    if (bytes === 0 || bytes > this.bytes.byteLength - this.#filled) {
      throw protocol('fragment that exceeds its message');
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
   * The value of the whole message, once. `codec`: that of its method, which may have been served
   * while the message arrived. @throws {SidecallError} `ERR_SIDECALL_DECODE`.
   */
  decode(codec = this.codec): unknown {
    if (isLeased(codec) && codec === this.codec) {
      const [lent, pooled] = [this.#lent, this.#pooled];
      this.#lent = undefined;
      this.#pooled = undefined;
      return lent === undefined ? copiedLease(this.bytes, pooled) : lentLease(lent);
    }
    try {
      const isOwned = this.#pooled === undefined && this.#lent === undefined;
      return decodeWith(codec, this.bytes, isOwned);
    } finally {
      this.release();
    }
  }

  /**
   * Gives back memory that is not read any more. Never for a message that is given up half-way,
   * whose next piece may be on its way into a place that was handed out.
   */
  release(): void {
    if (this.#pooled !== undefined) giveBuffer(this.#pooled);
    this.#pooled = undefined;
    this.#lent?.release();
    this.#lent = undefined;
  }
}

/**
 * The block holds exactly the message, and the frame nothing of it. @throws {SidecallError}
 * `ERR_SIDECALL_PROTOCOL`.
 */
export function checkBlock(block: ArrivedBlock, messageBytes: number, payloadBytes: number): void {
  if (block.byteLength !== messageBytes || payloadBytes !== 0) {
    throw protocol('block that does not fit its message');
  }
}
