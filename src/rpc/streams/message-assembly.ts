// SPDX-License-Identifier: MIT
// A message on its way into its final buffer, and out of it: in pieces, or in a block of the
// peer's.

import { giveBuffer, pooledMinBytes, takeBuffer } from '../../base/buffer-pool.ts';
import { ownedBuffer } from '../../base/message-slabs.ts';
import { protocol } from '../../wire/frame-header.ts';
import type { ArrivedBlock, LentBytes } from '../../wire/transport.ts';
import { type Codec, decodeWith } from '../contract/codec.ts';
import { copiedLease, isLeased, Lease } from '../contract/leases.ts';

/**
 * The memory of one message. A codec that keeps the bytes gets memory of its own; one that copies
 * them gets memory of the pool, until the message is decoded; one that borrows them until
 * `release()`; a leased message holds memory of the pool, or of the peer, until it is released.
 * NOTE: the length was checked against the limits; here the memory is taken.
 */
export class MessageAssembly {
  readonly bytes: Uint8Array;
  readonly codec: Codec<unknown>;
  #pooled: Buffer | undefined;
  #lent: LentBytes | undefined;
  #filled = 0;

  /** `own`: memory of the caller's for it, of its length. */
  constructor(totalBytes: number, codec: Codec<unknown>, lent?: LentBytes, own?: Uint8Array) {
    this.codec = codec;
    this.#lent = lent;
    if (lent !== undefined) {
      this.bytes = lent.bytes;
      this.#filled = totalBytes;
    } else if (own !== undefined) this.bytes = own;
    else if (codec.keepsBytes === true) this.bytes = ownedBuffer(totalBytes);
    else {
      this.#pooled = takeBuffer(totalBytes);
      this.bytes = this.#pooled.subarray(0, totalBytes);
    }
  }

  /** A whole message that lies in memory of the transport, copied. `own`: as of the constructor. */
  static ofBytes(bytes: Uint8Array, codec: Codec<unknown>, own?: Uint8Array): MessageAssembly {
    const assembly = new MessageAssembly(bytes.byteLength, codec, undefined, own);
    if (bytes.byteLength > 0) assembly.add(bytes);
    return assembly;
  }

  /**
   * As {@link MessageAssembly.ofBytes}, for a codec that borrows bytes. undefined: another codec,
   * or a short message, which the codec copies.
   */
  static ofBorrowed(bytes: Uint8Array, codec: Codec<unknown>): MessageAssembly | undefined {
    if (codec.borrowsBytes !== true || bytes.byteLength < pooledMinBytes) return undefined;
    return MessageAssembly.ofBytes(bytes, codec);
  }

  /**
   * A whole message, read in place if codec and transport allow that, else a copy. `owner`: the
   * method or channel whose message it is. `own`: as of the constructor.
   */
  static ofBlock(
    block: ArrivedBlock,
    codec: Codec<unknown>,
    owner: string,
    own?: Uint8Array,
  ): MessageAssembly {
    const lent = isLeased(codec) ? block.lend(owner) : undefined;
    const assembly = new MessageAssembly(block.byteLength, codec, lent, own);
    if (lent !== undefined) return assembly;
    block.copyInto(assembly.bytes);
    assembly.#filled = block.byteLength;
    return assembly;
  }

  /** Memory that it holds. */
  get memoryBytes(): number {
    return this.#pooled?.byteLength ?? this.bytes.byteLength;
  }

  /** Does a view look into its memory? */
  isUnder(view: Uint8Array): boolean {
    return view.buffer === this.bytes.buffer;
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
      return lent === undefined ? copiedLease(this.bytes, pooled) : new Lease(lent);
    }
    if (codec.borrowsBytes === true && codec === this.codec) {
      return decodeWith(codec, this.bytes, true);
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
 * Memory for the answer of a call; undefined: the codec says which. Codecs that borrow bytes get
 * memory of its own for it, since nothing says how long an answer is read. `into`: memory that the
 * caller gave; a longer answer does not use it.
 */
export function answerPlace(
  bytes: number,
  codec: Codec<unknown>,
  into: Uint8Array | undefined,
): Uint8Array | undefined {
  if (into !== undefined && into.byteLength >= bytes) return into.subarray(0, bytes);
  return codec.borrowsBytes === true ? ownedBuffer(bytes) : undefined;
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
