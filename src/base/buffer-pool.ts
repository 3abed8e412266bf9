// SPDX-License-Identifier: MIT
// Memory for messages on their way in. Where a codec copies what it keeps, the memory is used
// again: fresh pages for each long message cost more than its bytes do.

import { tuning } from './limits/internal-limits.ts';

const smallestBytes = 1024;
const fill = process.env.SIDECALL_FILL_RETURNED === '1' ? 0xa5 : undefined;
const spares = new Map<number, Buffer[]>();
let spareBytes = 0;

/** Memory for `bytes` bytes, longer where it comes from the pool. */
export function takeBuffer(bytes: number): Buffer {
  const size = memoryBytesFor(bytes);
  const spare = spares.get(size)?.pop();
  if (spare === undefined) return Buffer.allocUnsafeSlow(size);
  spareBytes -= size;
  return spare;
}

/** Takes memory back of which no view is held any more. Returns false if it is not kept. */
export function giveBuffer(buffer: Buffer): boolean {
  if (fill !== undefined) buffer.fill(fill);
  const size = buffer.byteLength;
  if (size < smallestBytes || spareBytes + size > tuning.receivePoolMaxBytes) return false;
  const list = spares.get(size);
  if (list === undefined) spares.set(size, [buffer]);
  else list.push(buffer);
  spareBytes += size;
  return true;
}

/** Gives all spare memory to the collector: nothing long has come for a while. */
export function dropSpares(): void {
  spares.clear();
  spareBytes = 0;
}

/**
 * The memory for a message of `bytes` bytes: powers of two, so that memory of another one fits.
 */
function memoryBytesFor(bytes: number): number {
  if (bytes < smallestBytes) return bytes;
  // In one instruction, where `2 ** Math.ceil(Math.log2(bytes))` was seen in profiles. Up to 1 GiB.
  return 1 << (32 - Math.clz32(bytes - 1));
}
