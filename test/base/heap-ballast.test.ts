// Numbers that are kept in the heap while many array buffers are made for messages.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { ballastBytes, noteArrayBuffer } from '../../src/base/heap-ballast.ts';
import { tuning } from '../../src/base/limits/internal-limits.ts';

const MiB = 1024 * 1024;
const isHelpful = Number.parseInt(process.versions.v8, 10) < 13;

test('grows with the array buffers to its bound, and goes when there are few', async () => {
  expect(ballastBytes()).toBe(0);
  noteArrayBuffer(3 * MiB);
  expect(ballastBytes()).toBe(0);
  for (let made = 0; made < 200; made += 1) noteArrayBuffer(MiB);
  expect(ballastBytes()).toBe(isHelpful ? tuning.heapBallastBytes : 0);
  while (ballastBytes() > 0) {
    noteArrayBuffer(MiB); // few
    await sleep(500);
  }
  for (let made = 0; made < 10; made += 1) noteArrayBuffer(MiB);
  expect(ballastBytes()).toBe(isHelpful ? 2 * MiB : 0);
});
