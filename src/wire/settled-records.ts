// SPDX-License-Identifier: MIT
// A copy of a flight recorder that is written while it is copied. A record of which one part is
// from before a change and one from after it looks like any other, but differs from that of an
// earlier copy, as everything does that was written meanwhile. What differs is left out.
import { FrameRecord, RunningEntry } from './recorder-layout.ts';

const wordBytes = 4;

/** Clears each record and each entry of a handler in the copy that differs from the earlier one. */
export function keepSettled(earlier: Uint8Array, copy: Uint8Array): void {
  const [before, after] = [wordsOf(earlier), wordsOf(copy)];
  for (const { begin, count, words } of [FrameRecord, RunningEntry]) {
    const first = begin / wordBytes;
    for (let at = first; at < first + count * words; at += words) {
      if (differ(before, after, at, words)) after.fill(0, at, at + words);
    }
  }
}

function differ(before: Uint32Array, after: Uint32Array, from: number, words: number): boolean {
  for (let at = from; at < from + words; at += 1) if (before[at] !== after[at]) return true;
  return false;
}

/** NOTE: the bytes begin at a multiple of 4. */
function wordsOf({ buffer, byteOffset, length }: Uint8Array): Uint32Array {
  return new Uint32Array(buffer, byteOffset, length / wordBytes);
}
