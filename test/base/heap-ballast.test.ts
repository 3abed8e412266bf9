// Numbers that are kept in the heap while many array buffers are made for messages.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { heldParts, noteArrayBuffer } from '../../src/base/heap-ballast.ts';
import { tuning } from '../../src/base/limits/internal-limits.ts';

const MiB = 1024 * 1024;

test('grows with the array buffers to its bound, is renewed, and goes when there are few', async () => {
  expect(heldParts()).toHaveLength(0);
  noteArrayBuffer(3 * MiB);
  expect(heldParts()).toHaveLength(0);
  make(200);
  expect(heldBytes()).toBe(tuning.heapBallastBytes);

  const first = [...heldParts()];
  make(64);
  const changed = () => heldParts().filter((part, at) => part !== first[at]).length;
  expect(changed()).toBe(1);
  make(64 * 15);
  expect(changed()).toBe(first.length);
  expect(heldParts()).toHaveLength(first.length);

  while (heldParts().length > 0) {
    noteArrayBuffer(MiB); // few
    await sleep(500);
  }
  make(10);
  expect(heldBytes()).toBe(2 * MiB);
});

function make(mebibytes: number): void {
  for (let made = 0; made < mebibytes; made += 1) noteArrayBuffer(MiB);
}

/** The numbers take 8 bytes each. */
function heldBytes(): number {
  return heldParts().reduce((sum, part) => sum + 8 * part.length, 0);
}
