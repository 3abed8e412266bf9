// SPDX-License-Identifier: MIT
// Memory in the heap of V8 that holds nothing, while many long messages are given memory of their
// own. V8 frees young array buffers by a short collection for each 32 MB of them. It begins a full
// collection, which takes 8 to 20 ms of both processors, when the heap and the array buffers since
// the last one exceed a limit. In a heap of 5 to 13 MB the limit is less than 32 MB above it, so
// that each short collection came with a full one. 16 MB of numbers, which no collection looks
// into, raise the limit. After each full collection V8 sets the limit anew: to four times the heap
// if old memory was allocated in the last five seconds, else to a tenth above the heap. Therefore a
// part of the numbers is made anew for every two short collections.

import { systemClock } from './clock.ts';
import { tuning } from './limits/internal-limits.ts';

const MiB = 1024 * 1024;
/** A part takes half a millisecond to make. */
const partBytes = MiB;
const doubleBytes = 8;
/** Array buffers for which the heap is given one part more. */
const bytesPerPart = 4 * MiB;
/** Array buffers for which the oldest part is made anew, once all are there. */
const bytesPerRenewal = 64 * MiB;
/** The array buffers of so long are counted; too few of them, and the parts are dropped. */
const lookMs = 5_000;
const isV8 = !('bun' in process.versions);

let parts: number[][] = [];
let freshBytes = 0;
let oldest = 0;
let unrenewedBytes = 0;
let isWatched = false;

/** Notes that an array buffer of this length was made for a message. */
export function noteArrayBuffer(bytes: number): void {
  if (!isV8) return;
  freshBytes += bytes;
  if ((parts.length + 1) * partBytes > tuning.heapBallastBytes) return renew(bytes);
  if (freshBytes < bytesPerPart * (parts.length + 1)) return;
  parts.push(newPart());
  if (isWatched) return;
  isWatched = true;
  watch();
}

function renew(bytes: number): void {
  unrenewedBytes += bytes;
  if (unrenewedBytes < bytesPerRenewal || parts.length === 0) return;
  unrenewedBytes = 0;
  oldest = (oldest + 1) % parts.length;
  parts[oldest] = newPart();
}

function newPart(): number[] {
  return new Array<number>(partBytes / doubleBytes).fill(0.5);
}

/** The parts that are held now, for tests. */
export function heldParts(): readonly number[][] {
  return parts;
}

function watch(): void {
  systemClock.setTimeout(look, lookMs).unref();
}

function look(): void {
  const isBusy = freshBytes >= bytesPerPart * parts.length;
  freshBytes = 0;
  if (isBusy) return watch();
  parts = [];
  isWatched = false;
}
