// Copies of the memory of a ring, healthy and corrupt.
import { describe, expect, it } from 'vitest';
import { reportRing, splitRingCopy } from '../../src/wire/ring-report.ts';
import { watchLeaks } from '../support/leaks.ts';
import { Random } from '../support/random.ts';
import { copyWithRequests, outboxBytes, unreadRequests } from '../support/ring-copies.ts';

const settled = await watchLeaks();
const healthy = await copyWithRequests();
await settled(); // the thread that watches for the end of peers ends a little later
const consumedAt = outboxBytes + 256; // the other side's memory says how much it has consumed
const publishedAt = 128;
const consumed = Number(healthy.readBigUInt64LE(consumedAt));
/** The offset of the first unread record. */
const recordAt = 16_384 + consumed;

function report(copy: Uint8Array) {
  return reportRing(splitRingCopy(copy));
}

/** The healthy copy after a change. */
function changed(change: (copy: Buffer) => unknown): Buffer {
  const copy = Buffer.from(healthy);
  change(copy);
  return copy;
}

describe('the report of a ring', () => {
  it('shows cursors, sleep and the unread records with the headers of their frames', () => {
    const { sent, received, faults } = report(healthy);
    expect(faults).toEqual([]);
    expect(sent).toMatchObject({
      capacityBytes: 1_048_576,
      blockAreaBytes: 0,
      consumedBytes: consumed,
      sleepsForRoom: false,
      moreRecords: 0,
    });
    expect(sent?.records).toHaveLength(unreadRequests);
    for (const { kind, frame } of sent?.records ?? []) {
      expect(kind).toBe('frame');
      expect(frame).toMatch(/^open \d+\.\d+ by its opener, unary, \d+ bytes, ends, payload \d+$/);
    }
    expect(received).toMatchObject({ unreadBytes: 0, records: [] });
    expect(JSON.stringify(report(healthy))).not.toContain('"a"'); // no payload
  });

  it('reports one memory alone, as a process that has died leaves it', () => {
    const { sent, received, faults } = report(healthy.subarray(0, outboxBytes));
    expect(sent).toMatchObject({ consumedBytes: undefined, unreadBytes: undefined, records: [] });
    expect({ received, faults }).toEqual({ received: undefined, faults: [] });
  });

  it.each<[string, Buffer, RegExp]>([
    ['nothing', Buffer.alloc(0), /ends after 0 bytes, within its control page/],
    ['half a control page', healthy.subarray(0, 8_000), /ends after 8000 bytes, within/],
    ['half of its data', healthy.subarray(0, 500_000), /ends after 500000 of 1064960 bytes/],
    ['a foreign file', changed((copy) => copy.writeUInt32LE(7, 0)), /is no memory of a ring/],
    ['another version', changed((copy) => copy.writeUInt32LE(9, 4)), /version 9, not 1/],
    [
      'a capacity that no ring has',
      changed((copy) => copy.writeBigUInt64LE(100_000n, 8)),
      /capacity of 100000 bytes/,
    ],
    [
      'a block area that no ring has',
      changed((copy) => copy.writeBigUInt64LE(5n, 16)),
      /block area of 5 bytes/,
    ],
    [
      'a cursor that is no multiple of 8',
      changed((copy) => copy.writeBigUInt64LE(BigInt(consumed + 3), publishedAt)),
      /published bytes of the first memory are \d+, no multiple of 8/,
    ],
    [
      'a reader beyond its writer',
      changed((copy) => copy.writeBigUInt64LE(1_000_000_000_000n, consumedAt)),
      /consumed bytes of the first memory are 1000000000000, beyond/,
    ],
    [
      'more unread bytes than the ring holds',
      changed((copy) => copy.writeBigUInt64LE(BigInt(consumed + 2_097_152), publishedAt)),
      /2097152 bytes of the first memory are unread, of a capacity of 1048576/,
    ],
    [
      'a record that is too long',
      changed((copy) => copy.writeUInt32LE(0xffff_fff0, recordAt)),
      /the record at \d+ has more than the \d+ bytes that follow \(the first memory\)/,
    ],
    [
      'a record of an unknown kind',
      changed((copy) => copy.writeUInt16LE(9, recordAt + 4)),
      /has an unknown kind/,
    ],
    [
      'a record whose zero field is none',
      changed((copy) => copy.writeUInt16LE(1, recordAt + 6)),
      /has no zero field/,
    ],
    [
      'padding in the middle',
      changed((copy) => copy.writeUInt16LE(1, recordAt + 4)),
      /pads, but not to the end/,
    ],
    [
      'a frame of an unknown type',
      changed((copy) => copy.writeUInt8(200, recordAt + 8)),
      /a frame of an unknown type/,
    ],
    [
      'a frame with flags that it cannot have',
      changed((copy) => copy.writeUInt8(0xff, recordAt + 9)),
      /has an invalid frame/,
    ],
    [
      'a block outside of the block area',
      changed((copy) => {
        copy.writeUInt16LE(3, recordAt + 4);
        copy.writeBigUInt64LE(0n, recordAt + 8);
        copy.writeBigUInt64LE(4_096n, recordAt + 16);
        copy.writeUInt8(1, recordAt + 32);
      }),
      /refers to a block outside of the block area/,
    ],
  ])('names the fault of a copy with %s', (_what, copy, words) => {
    expect(report(copy).faults).toEqual(expect.arrayContaining([expect.stringMatching(words)]));
  });

  it('shows no record of a direction in which one has a fault', () => {
    const { sent, faults } = report(changed((copy) => copy.writeUInt16LE(9, recordAt + 4)));
    expect(sent).toMatchObject({ records: [], moreRecords: 0, unreadBytes: expect.any(Number) });
    expect(faults).toHaveLength(1);
  });

  it.each([
    ['records without a payload', [0, 2, 0, 0], 1],
    ['records of pings', [12, 2, 10, 0], 0],
  ])(
    'is bounded for the largest ring full of %s',
    (_what, [bytes = 0, kind = 0, type = 0], faults) => {
      const capacity = 64 * 1024 * 1024;
      const memory = (published: number): Buffer => {
        const bytesOf = Buffer.alloc(16_384 + capacity);
        bytesOf.set(healthy.subarray(0, 40));
        bytesOf.writeBigUInt64LE(BigInt(capacity), 8);
        bytesOf.writeBigUInt64LE(BigInt(published), 128);
        return bytesOf;
      };
      const size = 8 + 8 * Math.ceil(bytes / 8);
      const count = Math.floor(capacity / size);
      const peer = memory(count * size);
      for (let at = 0; at < count; at += 1) {
        const offset = 16_384 + at * size;
        peer.writeUInt32LE(bytes, offset);
        peer.writeUInt16LE(kind, offset + 4);
        peer[offset + 8] = type;
        if (type > 0) peer[offset + 12] = 1;
      }
      const { received, faults: found } = reportRing({ mine: memory(0), peer });
      expect(found).toHaveLength(faults);
      expect(received?.records).toHaveLength(faults === 0 ? 64 : 0);
      expect(received?.moreRecords).toBe(faults === 0 ? 100_000 : 0);
    },
  );

  it('reports any bytes without a failure', () => {
    const random = new Random(36);
    const whole = Buffer.from(healthy);
    for (let round = 0; round < 3_000; round += 1) {
      const copy = whole.subarray(0, random.next(healthy.byteLength + 1));
      const stores = Array.from({ length: 8 }, () => {
        const near = [random.next(640), recordAt + random.next(600), random.next(whole.byteLength)];
        return near[random.next(3)] as number;
      });
      for (const at of stores) whole[at] = random.next(256);
      expect(report(copy).faults.length).toBeLessThan(10);
      for (const at of stores) whole[at] = healthy[at] as number;
    }
  });
});
