// SPDX-License-Identifier: MIT
// Memory in the heap of V8 that holds nothing, while many long messages are given memory of their
// own. V8 frees young array buffers by a short collection for each 32 MB of them. It begins a full
// collection, which takes 8 to 20 ms of both processors, when the heap and the array buffers since
// the last one exceed a limit, and the limit of a heap of 5 to 13 MB is less than 32 MB above it:
// so each short collection came with a full one. 16 MB of numbers, which no collection looks into,
// raise the limit enough. V8 13 (Node 24) counts in another way, and gains nothing.

import { systemClock } from './clock.ts';
import { tuning } from './limits/internal-limits.ts';

const MiB = 1024 * 1024;
/** A part takes half a millisecond to make. */
const partBytes = MiB;
const doubleBytes = 8;
/** Array buffers for which the heap is given one part more. */
const bytesPerPart = 4 * MiB;
/** The array buffers of so long are counted; too few of them, and the parts are dropped. */
const lookMs = 5_000;
const isHelpful =
  !('bun' in process.versions) && Number.parseInt(process.versions.v8 ?? '', 10) < 13;

let parts: number[][] = [];
let freshBytes = 0;
let isWatched = false;

/** Notes that an array buffer of this length was made for a message. */
export function noteArrayBuffer(bytes: number): void {
  freshBytes += bytes;
  if (!isHelpful || freshBytes < bytesPerPart * (parts.length + 1)) return;
  if ((parts.length + 1) * partBytes > tuning.heapBallastBytes) return;
  parts.push(new Array<number>(partBytes / doubleBytes).fill(0.5));
  if (isWatched) return;
  isWatched = true;
  watch();
}

/** Bytes that are held now. */
export function ballastBytes(): number {
  return parts.length * partBytes;
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
