// SPDX-License-Identifier: MIT
// Memory for messages on their way in. Where a codec copies what it keeps, the memory is used
// again: fresh pages for each long message cost more than its bytes do.

import { systemClock } from './clock.ts';
import { tuning } from './limits/internal-limits.ts';

/** Shorter messages lie in memory of their own, which costs less than a place in the pool. */
export const pooledMinBytes = 1024;
/** A thread that takes none for so long gives its spare memory to the collector. */
const idleMs = 5_000;
const fill = process.env.SIDECALL_FILL_RETURNED === '1' ? 0xa5 : undefined;
const spares = new Map<number, Buffer[]>();
let spareBytes = 0;
let isUsed = false;
let isWatched = false;
// Mark of array buffers of the pool. A property: a WeakSet slows garbage collections down.
const pooled = Symbol('pooled');

type Marked = ArrayBufferLike & { [pooled]?: true };

/** Memory for `bytes` bytes, longer where it comes from the pool. */
export function takeBuffer(bytes: number): Buffer {
  const size = memoryBytesFor(bytes);
  isUsed = true;
  const spare = spares.get(size)?.pop();
  if (spare !== undefined) {
    spareBytes -= size;
    // A program that has kept a view by mistake may have transferred the memory.
    if (spare.byteLength === size) return spare;
  }
  const memory = Buffer.allocUnsafeSlow(size);
  if (size >= pooledMinBytes) (memory.buffer as Marked)[pooled] = true;
  return memory;
}

/** Takes memory back of which no view is held any more. Returns false if it is not kept. */
export function giveBuffer(buffer: Buffer): boolean {
  if (fill !== undefined) buffer.fill(fill);
  const size = buffer.byteLength;
  if (size < pooledMinBytes || spareBytes + size > tuning.receivePoolMaxBytes) return false;
  (buffer.buffer as Marked)[pooled] = true; // also of memory that was moved out of a lease
  const list = spares.get(size);
  if (list === undefined) spares.set(size, [buffer]);
  else list.push(buffer);
  spareBytes += size;
  if (!isWatched) watch();
  return true;
}

/** True: the bytes lie in memory of the pool, which is used again. */
export function isPooled(bytes: Uint8Array): boolean {
  return (bytes.buffer as Marked)[pooled] === true;
}

function watch(): void {
  isWatched = true;
  isUsed = false;
  systemClock.setTimeout(look, idleMs).unref();
}

function look(): void {
  if (isUsed) return watch();
  isWatched = false;
  spares.clear();
  spareBytes = 0;
}

/**
 * The memory for a message of `bytes` bytes: powers of two, so that memory of another one fits.
 */
function memoryBytesFor(bytes: number): number {
  if (bytes < pooledMinBytes) return bytes;
  // In one instruction, where `2 ** Math.ceil(Math.log2(bytes))` was seen in profiles. Up to 1 GiB.
  return 1 << (32 - Math.clz32(bytes - 1));
}
