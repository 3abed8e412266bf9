// Memory for incoming messages that is used again: which sizes the pool keeps when it is full.
import { expect, test } from 'vitest';
import { giveBuffer, takeBuffer } from '../../src/base/buffer-pool.ts';
import { tuning } from '../../src/base/limits/internal-limits.ts';

const MiB = 1024 * 1024;

/** Fills the pool with buffers of one size. */
function fillWith(size: number): void {
  const buffers = Array.from({ length: tuning.receivePoolMaxBytes / size }, () => takeBuffer(size));
  for (const buffer of buffers) expect(giveBuffer(buffer)).toBe(true);
}

test('a size that fills the pool makes room for the one that is used now', () => {
  fillWith(MiB);
  const first = takeBuffer(8 * MiB);
  expect(giveBuffer(first)).toBe(true);
  expect(takeBuffer(8 * MiB).buffer).toBe(first.buffer);
});

test('a size that is used makes no room for one that was used before it', () => {
  fillWith(2 * MiB);
  const old = takeBuffer(16 * MiB);
  expect(giveBuffer(old)).toBe(true);
  const kept = takeBuffer(16 * MiB);
  for (let at = 0; at < 40; at += 1) giveBuffer(takeBuffer(2 * MiB));
  const spares = Array.from({ length: 40 }, () => takeBuffer(2 * MiB));
  for (const spare of spares) giveBuffer(spare);
  expect(giveBuffer(kept)).toBe(false); // the pool is full of what was taken later
});

test('a buffer whose memory is gone is not given out, and counts as its size', () => {
  fillWith(4 * MiB);
  const held = takeBuffer(4 * MiB);
  expect(giveBuffer(held)).toBe(true);
  structuredClone(held, { transfer: [held.buffer as ArrayBuffer] });
  expect(takeBuffer(4 * MiB).byteLength).toBe(4 * MiB);
  fillWith(4 * MiB);
});
