// SPDX-License-Identifier: MIT
// Encoding: a value becomes the bytes, the text or the block of a message.

import { Buffer } from 'node:buffer';
import { isBytes } from '../../base/brands.ts';
import { lengthOf } from '../../base/bytes.ts';
import { SidecallError } from '../../base/errors.ts';
import { type Codec, encodeRaw, encodeWith } from './codec.ts';
import { Block, type BlockOwner, isLeased, isReleased } from './leases.ts';

/**
 * An encoded message: bytes, text that travels as UTF-8, or a block that the peer reads where it
 * lies.
 */
export type Message = Uint8Array | string | Block;

/**
 * Encodes for a session. `mayLend` false: the frame has no room for the reference to a block.
 * @throws {SidecallError} `ERR_SIDECALL_ENCODE`, or `ERR_SIDECALL_LEASE_RELEASED` for a
 * block that was sent or freed.
 */
export function encodeMessage(
  owner: BlockOwner,
  codec: Codec<unknown>,
  value: unknown,
  mayLend = true,
): Message {
  const isEncoded = codec.encode === encodeRaw && isBytes(value);
  if (isEncoded || !isLeased(codec) || !Block.is(value)) {
    const message = isEncoded ? value : encodeWith(codec, value);
    if (typeof message !== 'string' && isReleased(message))
      throw detachedError(`codec '${codec.name}'`);
    return message;
  }
  if (!value.isOf(owner)) {
    const text = 'the block belongs to another session; send a copy of its bytes';
    throw new SidecallError('ERR_SIDECALL_ENCODE', text);
  }
  return mayLend ? value.take() : value.copyOut();
}

/** The length of a message on the wire, in bytes. */
export function messageBytesOf(message: Message): number {
  if (typeof message === 'string') return Buffer.byteLength(message);
  return ArrayBuffer.isView(message) ? lengthOf.call(message) : message.byteLength;
}

/** The message lies in a block. V8 inlines this, but no walk of prototypes as by `instanceof`. */
export function isBlock(message: Message): message is Block {
  return typeof message !== 'string' && !ArrayBuffer.isView(message);
}

/** The bytes that go through the lane; of a block only its reference does, so 0. */
export function queuedBytesOf(message: Message, messageBytes: number): number {
  return isBlock(message) ? 0 : messageBytes;
}

/** Frees the block that a message is, if it is one. */
export function releaseMessage(message: unknown): void {
  if (message instanceof Block) message.release();
}

/** The bytes of a message have gone since it was encoded. */
export function isDetached(message: Message, messageBytes: number): boolean {
  return isBytes(message) && message.length !== messageBytes;
}

/** @param what the method or channel. */
export function detachedError(what: string): SidecallError {
  const text = `${what}: the bytes of the message were released, or transferred, before they were sent`;
  return new SidecallError('ERR_SIDECALL_LEASE_RELEASED', text, { delivered: 'no' });
}
