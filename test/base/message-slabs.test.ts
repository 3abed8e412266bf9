// Messages of some kilobytes that the application keeps share array buffers, in bounds.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { tuning } from '../../src/base/limits/internal-limits.ts';
import { isSmallPart, ownedBuffer, ownedCopy } from '../../src/base/message-slabs.ts';
import { bytes, service, unary } from '../../src/index.ts';
import { createSessionPair } from '../../src/testing/testing.ts';
import { lanes } from '../support/pairs.ts';

test.each([8_192, 65_536])(
  'a slice holds 8 KiB or 8 times its length, with a pool of %i',
  (size) => {
    const { poolSize } = Buffer;
    setPoolSize(size); // of Node 20 to 24, and of later ones
    try {
      for (let length = 0; length <= tuning.slicedMaxBytes + 64; length += 1) {
        const source = Buffer.alloc(length);
        for (const { buffer, byteLength } of [ownedBuffer(length), ownedCopy(source)]) {
          expect(byteLength).toBe(length);
          // The pool of Node 26 has 64 bytes more, to align it.
          if (buffer.byteLength > Math.max(8_192 + 64, tuning.heldMultipleMax * length))
            expect.fail(`${length} bytes hold ${buffer.byteLength}`);
        }
      }
    } finally {
      setPoolSize(poolSize);
    }
  },
);

/** The pool that is in use is used up, so that the next one has that size. */
function setPoolSize(size: number): void {
  Buffer.poolSize = size;
  for (let at = 0; at < 64; at += 1) Buffer.allocUnsafe(2_048);
}

test('a peer that has one message of each slab wait makes us hold eight times its bytes', async () => {
  const pair = createSessionPair();
  const Store = service('Store', {
    keep: unary({ request: bytes, response: bytes }),
    drop: unary({ request: bytes, response: bytes }),
  });
  const kept: Uint8Array[] = [];
  const empty = new Uint8Array(0);
  pair.far.serve(Store, {
    keep: (request) => {
      kept.push(request);
      return empty;
    },
    drop: () => empty,
  });
  const client = pair.near.client(Store);
  const message = Buffer.alloc(2_048);
  for (let round = 0; round < 1_000; round += 1) {
    await client.keep(message);
    for (let call = 1; call < tuning.heldMultipleMax; call += 1) await client.drop(message);
  }
  const held = [...new Set(kept.map(({ buffer }) => buffer))];
  const heldBytes = held.reduce((sum, { byteLength }) => sum + byteLength, 0);
  expect(kept).toHaveLength(1_000);
  expect(heldBytes).toBeGreaterThan(4 * 1_000 * message.length); // the attack is one
  expect(heldBytes).toBeLessThanOrEqual(tuning.heldMultipleMax * 1_000 * message.length);
  await pair.close();
});

test('slices do not overlap, and begin where any element type may begin', () => {
  const kept = Array.from({ length: 500 }, (_, at) => {
    const slice = ownedBuffer(1024 + ((at * 1_237) % 15_000));
    slice.fill(at);
    return slice;
  });
  kept.forEach((slice, at) => {
    expect(slice.byteOffset % 8).toBe(0);
    expect(slice.every((byte) => byte === (at & 0xff))).toBe(true);
  });
});

test('a copy has the bytes, and keeps them', () => {
  for (const length of [0, 1, 1023, 1024, 5000, 16_384, 16_385]) {
    const source = Buffer.alloc(length, 3);
    const copy = ownedCopy(source);
    source.fill(9);
    expect(copy).toEqual(Buffer.alloc(length, 3));
  }
});

test('short parts of much longer memory are small, long ones and slices of slabs are not', () => {
  const request = new Uint8Array(4 * 1024 * 1024);
  const isSmall = (bytes: number): boolean => isSmallPart(request.subarray(0, bytes));
  expect([0, 1, 16_384, 65_536].map(isSmall)).toEqual([true, true, true, true]);
  // A program that answers with megabytes of a file in memory copies none of them.
  expect([65_537, 1024 * 1024, request.length].map(isSmall)).toEqual([false, false, false]);
  for (const length of [1, 1_000, 1_024, 5_000, 16_384, 16_385]) {
    expect(isSmallPart(ownedCopy(new Uint8Array(length)))).toBe(false);
  }
});

test('a transfer of one message does not take the others along', () => {
  const [message, other] = [ownedBuffer(4_000), ownedBuffer(4_000)];
  try {
    structuredClone(message, { transfer: [message.buffer as ArrayBuffer] });
  } catch (error) {
    expect(error).toMatchObject({ name: 'DataCloneError' }); // from Node 21 on; before it copies
  }
  expect([message.byteLength, other.byteLength]).toEqual([4_000, 4_000]);
  const long = ownedBuffer(tuning.slicedMaxBytes + 1);
  structuredClone(long, { transfer: [long.buffer as ArrayBuffer] });
  expect(long.byteLength).toBe(0);
});

test('a slab that a program has detached, where it can, is followed by another one', () => {
  // Node 20 has the method behind a flag, in new realms only; from Node 24 on it refuses slabs.
  setFlagsFromString('--harmony-rab-gsab-transfer');
  const transfer = runInNewContext('ArrayBuffer.prototype.transfer') as () => ArrayBuffer;
  for (const length of [1, 100, 1_500, 12_000]) {
    for (const make of [ownedBuffer, (bytes: number) => ownedCopy(new Uint8Array(bytes))]) {
      const message = make(length);
      try {
        transfer.call(message.buffer);
      } catch (error) {
        expect(error).toMatchObject({ name: 'TypeError' });
        expect(message.byteLength).toBe(length);
      }
      for (const next of [ownedBuffer(length), ownedCopy(new Uint8Array(length).fill(7))]) {
        expect(next.byteLength).toBe(length);
      }
    }
  }
});

test.each(lanes)('answers and requests share memory on the $lane lane', async ({ openPair }) => {
  await using pair = await openPair();
  const Store = service('Store', { same: unary({ request: bytes, response: bytes }) });
  const requests: Uint8Array[] = [];
  pair.far.serve(Store, {
    same: (request) => {
      requests.push(request);
      return request;
    },
  });
  const client = pair.near.client(Store);
  for (const length of [2_000, 5_000, 16_000]) {
    requests.length = 0;
    const answers: Uint8Array[] = [];
    for (let at = 0; at < 40; at += 1) answers.push(await client.same(Buffer.alloc(length, at)));
    for (const messages of [answers, requests])
      expect(messages.every((message, at) => Buffer.alloc(length, at).equals(message))).toBe(true);
    const buffers = new Set([...answers, ...requests].map(({ buffer }) => buffer));
    expect(buffers.size).toBeLessThanOrEqual((2 * 40) / 3);
    for (const { byteLength } of buffers)
      expect(byteLength).toBeLessThanOrEqual(tuning.heldMultipleMax * length);
  }
});
