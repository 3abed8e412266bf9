// SPDX-License-Identifier: MIT
// A pool of buffers for incoming messages that the application does not keep: of codecs that copy,
// of `bytes.borrowed`, and of leases. Fresh pages for a long message cost more than its copy.

import { Buffer } from 'node:buffer';
import { systemClock } from './clock.ts';
import { tuning } from './limits/internal-limits.ts';

/** Shorter messages lie in memory of their own, which costs less than a place in the pool. */
export const pooledMinBytes = 1024;
/** The pool drops the spare memory of sizes that were not taken for so long. */
const idleMs = 5_000;
const fill = process.env.SIDECALL_FILL_RETURNED === '1' ? 0xa5 : undefined;

/** Spare buffers of one size. */
interface Spares {
  readonly size: number;
  readonly buffers: Buffer[];
  /** The number of the last take of this size. */
  usedAt: number;
}

const spares = new Map<number, Spares>();
let spareBytes = 0;
let takes = 0;
/** The takes up to the last look. */
let lookedAt = 0;
let isWatched = false;
// Mark of array buffers of the pool. A property: a WeakSet slows garbage collections down.
const pooled = Symbol('pooled');

type Marked = ArrayBufferLike & { [pooled]?: true };

/** A buffer of at least `bytes` bytes, not zeroed; from `pooledMinBytes` on of a power of two. */
export function takeBuffer(bytes: number): Buffer {
  const size = memoryBytesFor(bytes);
  const own = spares.get(size);
  takes += 1;
  if (own !== undefined) own.usedAt = takes;
  const spare = own?.buffers.pop();
  if (spare !== undefined) {
    spareBytes -= size;
    // A program that has kept a view by mistake may have transferred the memory.
    if (spare.length === size) return spare;
  }
  const memory = Buffer.allocUnsafeSlow(size);
  if (size >= pooledMinBytes) (memory.buffer as Marked)[pooled] = true;
  return memory;
}

/**
 * Takes a buffer back, of which the caller holds no view any more. Returns false if it is not kept.
 */
export function giveBuffer(buffer: Buffer): boolean {
  if (fill !== undefined) buffer.fill(fill);
  const size = buffer.length;
  if (size < pooledMinBytes || !makeRoom(size)) return false;
  (buffer.buffer as Marked)[pooled] = true; // also of memory that was moved out of a lease
  const own = spares.get(size);
  if (own === undefined) spares.set(size, { size, buffers: [buffer], usedAt: takes });
  else own.buffers.push(buffer);
  spareBytes += size;
  if (!isWatched) watch();
  return true;
}

/** True: the bytes lie in memory of the pool, which is used again. */
export function isPooled(bytes: Uint8Array): boolean {
  return (bytes.buffer as Marked)[pooled] === true;
}

/**
 * Drops spare buffers of the sizes that were not taken for longest, so that a peer cannot fill the
 * pool with a size that no other message has. False: those that are left were used later.
 */
function makeRoom(size: number): boolean {
  const usedAt = spares.get(size)?.usedAt ?? takes;
  while (spareBytes + size > tuning.receivePoolMaxBytes) {
    let oldest: Spares | undefined;
    for (const each of spares.values()) {
      const isOlder = each.usedAt < (oldest?.usedAt ?? usedAt);
      if (each.buffers.length > 0 && isOlder) oldest = each;
    }
    if (oldest === undefined) return false;
    oldest.buffers.pop();
    spareBytes -= oldest.size;
  }
  return true;
}

function watch(): void {
  isWatched = true;
  lookedAt = takes;
  systemClock.setTimeout(look, idleMs).unref();
}

/** Drops the sizes of which none was taken since the last look. */
function look(): void {
  for (const { size, buffers, usedAt } of spares.values()) {
    if (usedAt > lookedAt) continue;
    spareBytes -= size * buffers.length;
    spares.delete(size);
  }
  if (spares.size > 0) return watch();
  isWatched = false;
}

/**
 * The memory for a message of `bytes` bytes: a power of two, so that a spare buffer fits messages
 * of other lengths.
 */
function memoryBytesFor(bytes: number): number {
  if (bytes < pooledMinBytes) return bytes;
  // In one instruction, where `2 ** Math.ceil(Math.log2(bytes))` was seen in profiles. Up to 1 GiB.
  return 1 << (32 - Math.clz32(bytes - 1));
}
