// SPDX-License-Identifier: MIT
// Memory for messages that the application keeps. Those of 65 bytes to 16 KiB are slices of shared
// array buffers ("slabs"): an array buffer for each costs more than the copy of its bytes. Buffer
// does the same, in a pool whose size depends on the version of Node.

import { Buffer } from 'node:buffer';
import { markAsUntransferable } from 'node:worker_threads';
import { copyBytes, lengthOf, viewOf } from './bytes.ts';
import { noteArrayBuffer } from './heap-ballast.ts';
import { tuning } from './limits/internal-limits.ts';
import { wireLimits } from './limits/wire-limits.ts';

interface Slab {
  readonly memory: Buffer;
  readonly buffer: ArrayBufferLike;
  filled: number;
}

/**
 * The class of the slices of a Buffer. Its constructor takes half the time of `subarray()`, and of
 * what `Buffer.from()` does for a short message.
 */
type SliceClass = {
  new (bytes: number): Buffer;
  new (buffer: ArrayBufferLike, at: number, bytes: number): Buffer;
};
const BufferSlice = (Buffer as unknown as { readonly [Symbol.species]: SliceClass })[
  Symbol.species
];

/** Shorter messages share slabs of this many times `tuning.heldMultipleMax` bytes. */
const shortBytes = 1024;
/** V8 has the bytes of shorter arrays on its heap, which takes less time than a slice. */
const onHeapMaxBytes = 64;
/** A view of any element type may begin here. */
const alignment = 16;
/** The slab for lengths from 2^i up to, but not including, 2^(i + 1), by i; and for short ones. */
const slabs: Slab[] = [];
let canMark = true;

/**
 * Memory for a message of `bytes` bytes that the application keeps, not zeroed. A slice keeps its
 * slab alive, which has at most `tuning.heldMultipleMax` times its length, or 8 KiB for those
 * shorter than 1 KiB. Longer messages have array buffers of their own.
 */
export function ownedBuffer(bytes: number): Buffer {
  if (bytes === 0 || bytes > tuning.slicedMaxBytes) return wholeBuffer(bytes);
  const slab = slabFor(bytes);
  const at = slab.filled;
  slab.filled = (at + bytes + alignment - 1) & -alignment;
  return new BufferSlice(slab.buffer, at, bytes);
}

/** As {@link ownedBuffer}, in an array buffer of its own. */
export function wholeBuffer(bytes: number): Buffer {
  noteArrayBuffer(bytes);
  return Buffer.allocUnsafeSlow(bytes);
}

/** A copy that the application may keep. */
export function ownedCopy(bytes: Uint8Array): Buffer {
  return ownedPart(bytes, 0, bytes.length);
}

/** A copy of a part, which the application may keep. */
export function ownedPart(memory: Uint8Array, from: number, to: number): Buffer {
  const bytes = to - from;
  const part = viewOf.call(memory, from, to);
  if (bytes <= onHeapMaxBytes) {
    const copy = new BufferSlice(bytes);
    copyBytes.call(copy, part, 0);
    return copy;
  }
  if (bytes > tuning.slicedMaxBytes) {
    const copy = wholeBuffer(bytes);
    copy.set(part);
    return copy;
  }
  const slab = slabFor(bytes);
  const at = slab.filled;
  copyBytes.call(slab.memory, part, at);
  slab.filled = (at + bytes + alignment - 1) & -alignment;
  return new BufferSlice(slab.buffer, at, bytes);
}

/**
 * True: the bytes are short, and a small part of their array buffer, so that a copy of them is
 * better kept: a part of a request can hold all of it, and what bounds the answers that wait counts
 * the part alone. Longer parts are few in that bound, and copying them would cost more.
 */
export function isSmallPart({ buffer, length }: Uint8Array): boolean {
  if (length > wireLimits.fragmentBytes) return false;
  return buffer.byteLength > tuning.heldMultipleMax * Math.max(length, shortBytes);
}

/** A slab with room for a message of `bytes` bytes. */
function slabFor(bytes: number): Slab {
  const power = 31 - Math.clz32(Math.max(bytes, shortBytes));
  let slab = slabs[power];
  // The length of memory that a program has transferred, by a message in it, is 0.
  if (slab === undefined || slab.filled + bytes > lengthOf.call(slab.memory)) {
    slab = newSlab(tuning.heldMultipleMax << power);
    slabs[power] = slab;
  }
  return slab;
}

function newSlab(bytes: number): Slab {
  const memory = wholeBuffer(bytes);
  const { buffer } = memory;
  if (canMark) mark(buffer);
  return { memory, buffer, filled: 0 };
}

/** A transfer of one message would take the others along. Bun and Deno have no such mark. */
function mark(buffer: ArrayBufferLike): void {
  try {
    markAsUntransferable(buffer);
  } catch {
    canMark = false;
  }
}
