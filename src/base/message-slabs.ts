// SPDX-License-Identifier: MIT
// Memory for messages that the application keeps. Those of some kilobytes are slices of shared
// array buffers ("slabs"): an array buffer for each costs more than the copy of its bytes. Buffer
// does the same for shorter ones.

import { markAsUntransferable } from 'node:worker_threads';
import { tuning } from './limits/internal-limits.ts';

interface Slab {
  readonly memory: Buffer;
  filled: number;
}

/** Shorter messages are slices of the memory that Buffer shares. */
const slicedMinBytes = 1024;
/** A view of any element type may begin here. */
const alignment = 16;
/** The slab of each power of two that is not yet full. */
const slabs: Slab[] = [];
let canMark = true;

/**
 * Memory for a message of `bytes` bytes that the application keeps, not zeroed. A slice holds at
 * most `tuning.heldMultipleMax` times its length; longer messages have array buffers of their own.
 */
export function ownedBuffer(bytes: number): Buffer {
  if (bytes < slicedMinBytes || bytes > tuning.slicedMaxBytes) return Buffer.allocUnsafeSlow(bytes);
  const power = 31 - Math.clz32(bytes);
  let slab = slabs[power];
  if (slab === undefined || slab.filled + bytes > slab.memory.byteLength) {
    slab = newSlab(tuning.heldMultipleMax << power);
    slabs[power] = slab;
  }
  const from = slab.filled;
  slab.filled = (from + bytes + alignment - 1) & -alignment;
  return slab.memory.subarray(from, from + bytes);
}

/** A copy that the application may keep. */
export function ownedCopy(bytes: Uint8Array): Buffer {
  if (bytes.byteLength < slicedMinBytes) return Buffer.from(bytes);
  const copy = ownedBuffer(bytes.byteLength);
  copy.set(bytes);
  return copy;
}

function newSlab(bytes: number): Slab {
  const memory = Buffer.allocUnsafeSlow(bytes);
  if (canMark) mark(memory.buffer);
  return { memory, filled: 0 };
}

/** A transfer of one message would take the others along. Bun and Deno have no such mark. */
function mark(buffer: ArrayBufferLike): void {
  try {
    markAsUntransferable(buffer);
  } catch {
    canMark = false;
  }
}
