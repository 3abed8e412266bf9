// SPDX-License-Identifier: MIT
// Payloads, bytes or text, in the memory that one write gathers.
import { Buffer } from 'node:buffer';

/** An upper bound of the bytes: of a short text three for each character, else their number. */
export function maxBytesOf(payload: Uint8Array | string | undefined): number {
  if (payload === undefined) return 0;
  if (typeof payload !== 'string') return payload.length;
  return payload.length <= 4096 ? payload.length * 3 : Buffer.byteLength(payload);
}

/** Copies a payload. Returns its bytes. NOTE: only where there is room for `maxBytesOf()`. */
export function put(slab: Buffer, payload: Uint8Array | string | undefined, at: number): number {
  if (payload === undefined) return 0;
  if (typeof payload === 'string') return slab.write(payload, at);
  slab.set(payload, at);
  return payload.length;
}
