// SPDX-License-Identifier: MIT
// Collects the pieces of one incoming message in its final buffer, or holds the block of the peer
// that contains it, and decodes it.

import { giveBuffer, pooledMinBytes, takeBuffer } from '../../base/buffer-pool.ts';
import { ownedBuffer, wholeBuffer } from '../../base/message-slabs.ts';
import { protocol } from '../../wire/frame-header.ts';
import type { ArrivedBlock, LentBytes, Transport } from '../../wire/transport.ts';
import { type Codec, decodeWith, keepsBytes } from '../contract/codec.ts';
import { copiedLease, isLeased, Lease } from '../contract/leases.ts';

/**
 * The memory of one message: memory of its own for a codec that keeps the bytes; memory of the pool
 * for one that copies them, until the message is decoded; the same for one that borrows them, until
 * `release()`; memory of the pool, or of the peer, for a lease, until that is released.
 * NOTE: the caller checks the length first: the constructor allocates.
 */
export class MessageAssembly {
  readonly bytes: Uint8Array;
  readonly codec: Codec<unknown>;
  readonly #totalBytes: number;
  #pooled: Buffer | undefined;
  #lent: LentBytes | undefined;
  #filled = 0;

  /** `own`: memory for it, of its length. */
  constructor(totalBytes: number, codec: Codec<unknown>, own?: Uint8Array, lent?: LentBytes) {
    this.codec = codec;
    this.#totalBytes = totalBytes;
    this.#lent = lent;
    if (lent !== undefined) {
      this.bytes = lent.bytes;
      this.#filled = totalBytes;
    } else if (own !== undefined) this.bytes = own;
    else if (keepsBytes(codec)) this.bytes = wholeBuffer(totalBytes);
    else {
      const pooled = takeBuffer(totalBytes);
      this.#pooled = pooled;
      // Not a Buffer where the application reads it: `slice()` of a Buffer copies nothing.
      this.bytes =
        codec.borrowsBytes === true
          ? new Uint8Array(pooled.buffer, pooled.byteOffset, totalBytes)
          : pooled.subarray(0, totalBytes);
    }
  }

  /** A message of which the first piece is about to arrive. `own`: as of the constructor. */
  static arriving(
    { fillsAtOnce }: Pick<Transport, 'fillsAtOnce'>,
    totalBytes: number,
    firstBytes: number,
    codec: Codec<unknown>,
    own?: Uint8Array,
  ): MessageAssembly {
    // A slice only where it is filled before the event loop goes on: a program could detach it,
    // together with its neighbours, while it is filled.
    const isAtOnce = fillsAtOnce === true && firstBytes === totalBytes;
    const isSlice = isAtOnce && own === undefined && keepsBytes(codec);
    return new MessageAssembly(totalBytes, codec, isSlice ? ownedBuffer(totalBytes) : own);
  }

  /** A whole message that lies in memory of the transport, copied. `own`: as of the constructor. */
  static ofBytes(bytes: Uint8Array, codec: Codec<unknown>, own?: Uint8Array): MessageAssembly {
    const assembly = new MessageAssembly(bytes.length, codec, own);
    if (bytes.length > 0) assembly.add(bytes);
    return assembly;
  }

  /**
   * As {@link MessageAssembly.ofBytes}, for a codec that borrows bytes. undefined: another codec,
   * or a short message, which the codec copies.
   */
  static ofBorrowed(bytes: Uint8Array, codec: Codec<unknown>): MessageAssembly | undefined {
    if (codec.borrowsBytes !== true || bytes.length < pooledMinBytes) return undefined;
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
    const isSlice = lent === undefined && own === undefined && keepsBytes(codec);
    const place = isSlice ? ownedBuffer(block.byteLength) : own;
    const assembly = new MessageAssembly(block.byteLength, codec, place, lent);
    if (lent !== undefined) return assembly;
    block.copyInto(assembly.bytes);
    assembly.#filled = block.byteLength;
    return assembly;
  }

  /** Memory that it holds. */
  get memoryBytes(): number {
    return this.#pooled?.length ?? this.bytes.length;
  }

  /** True: the view has the same array buffer. NOTE: only memory of the pool has one message. */
  isUnder(view: Uint8Array): boolean {
    return view.buffer === this.bytes.buffer;
  }

  /** Bytes that are still to come. */
  get missingBytes(): number {
    return this.#totalBytes - this.#filled;
  }

  /** True: the memory is gone, as that of WebAssembly is once it has grown. */
  get isDetached(): boolean {
    return this.bytes.length !== this.#totalBytes;
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
    if (bytes === 0 || bytes > this.#totalBytes - this.#filled) {
      throw protocol('fragment that exceeds its message');
    }
    return this.bytes.subarray(this.#filled, this.#filled + bytes);
  }

  /** Adds a piece, which may already lie in its place. True: the message is whole. */
  add(payload: Uint8Array): boolean {
    const place = this.place(payload.length);
    const isInPlace = payload.buffer === place.buffer && payload.byteOffset === place.byteOffset;
    if (!isInPlace) place.set(payload);
    this.#filled += payload.length;
    return this.#filled === this.#totalBytes;
  }

  /**
   * The value of the whole message, once. `codec`: that of its method; another one than the
   * constructor's where the method was served after the first piece had come. `jsonMaxBytes`: as of
   * `Codec.decode`.
   * @throws {SidecallError} `ERR_SIDECALL_DECODE`.
   */
  decode(jsonMaxBytes: number, codec = this.codec): unknown {
    if (isLeased(codec) && codec === this.codec) {
      const [lent, pooled] = [this.#lent, this.#pooled];
      this.#lent = undefined;
      this.#pooled = undefined;
      return lent === undefined ? copiedLease(this.bytes, pooled) : new Lease(lent);
    }
    if (codec.borrowsBytes === true && codec === this.codec) {
      return decodeWith(codec, this.bytes, true, jsonMaxBytes);
    }
    try {
      const isOwned = this.#pooled === undefined && this.#lent === undefined;
      return decodeWith(codec, this.bytes, isOwned, jsonMaxBytes);
    } finally {
      this.release();
    }
  }

  /**
   * Gives back memory that is not read any more. NOTE: never for a message that is not whole, since
   * the transport may still write into the memory that `place()` gave.
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
  if (into !== undefined && into.length >= bytes) return into.subarray(0, bytes);
  if (codec.borrowsBytes !== true) return undefined;
  return new Uint8Array(wholeBuffer(bytes).buffer);
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
