// SPDX-License-Identifier: MIT
// How a value becomes the bytes, the text or the block of a message.
import { SidecallError } from '../../base/errors.ts';
import { type Codec, encodeWith } from './codec.ts';
import { Block, type BlockOwner, isLeased, isReleased } from './leases.ts';

/** An encoded message: bytes, text that travels as UTF-8, or a block that the peer reads where it lies. */
export type Body = Uint8Array | string | Block;

/**
 * Encodes for a session. `mayLend` false: there is no room for a reference beside what else the frame holds.
 * @throws {SidecallError} `ENCODE`, or `LEASE_RELEASED` for a block that was sent or freed.
 */
export function encodeBody(
  owner: BlockOwner,
  codec: Codec<unknown>,
  value: unknown,
  mayLend = true,
): Body {
  if (!isLeased(codec) || !(value instanceof Block)) {
    const body = encodeWith(codec, value);
    if (typeof body !== 'string' && isReleased(body)) throw detachedError(`codec '${codec.name}'`);
    return body;
  }
  if (!value.isOf(owner)) {
    const words = 'the block belongs to another session; send a copy of its bytes';
    throw new SidecallError('ERR_SIDECALL_ENCODE', words);
  }
  return mayLend ? value.take() : value.copyOut();
}

/** Its length in bytes, as it travels. */
export function bodyBytesOf(body: Body): number {
  return typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength;
}

/** What of it goes through the lane: nothing of a block but its reference. */
export function queuedBytesOf(body: Body, bodyBytes: number): number {
  return body instanceof Block ? 0 : bodyBytes;
}

/** Frees the block that a message is, if it is one. */
export function discard(body: unknown): void {
  if (body instanceof Block) body.discard();
}

/** The bytes of a message have gone since it was encoded. */
export function isDetached(body: Body, bodyBytes: number): boolean {
  return body instanceof Uint8Array && body.byteLength !== bodyBytes;
}

/** @param what the method or channel. */
export function detachedError(what: string): SidecallError {
  const words = `${what}: the bytes of the message were released, or transferred, before they were sent`;
  return new SidecallError('ERR_SIDECALL_LEASE_RELEASED', words, { delivered: 'no' });
}
