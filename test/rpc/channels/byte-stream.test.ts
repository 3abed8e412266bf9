// Byte streams by count, at sizes of protocols, over every lane.
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { byteReader, byteWriter } from '../../../src/rpc/channels/byte-stream.ts';
import { openDuplex } from '../../support/channels.ts';
import { turns } from '../../support/contract.ts';
import { lanes } from '../../support/pairs.ts';
import { Random } from '../../support/random.ts';

/** The byte at a place, so that a wrong one is seen wherever it is. */
const byteAt = (place: number): number => (place * 31 + (place >> 8) * 7) & 0xff;

describe.each(lanes)("bytes by count over the '$lane'", ({ lane, openPair }) => {
  it('are exact in a hundred rounds of 2 MiB, written and read in random pieces', async () => {
    await using pair = await openPair();
    const [near, far] = await openDuplex(pair);
    const writer = byteWriter(near);
    const reader = byteReader(far);
    const random = new Random(11);
    const roundBytes = 2 * 1024 * 1024;
    const pattern = Buffer.from(Array.from({ length: roundBytes }, (_, at) => byteAt(at)));
    const rounds = process.env.CI || lane === 'ring' ? 100 : 10;
    const writing = (async () => {
      for (let round = 0; round < rounds; round += 1) {
        for (let at = 0; at < roundBytes; ) {
          const count = Math.min(1 + random.next(200_000), roundBytes - at);
          writer.write(pattern.subarray(at, at + count));
          at += count;
          if (random.next(3) === 0) await writer.flush();
        }
      }
      await writer.flush({ end: true });
    })();
    for (let round = 0; round < rounds; round += 1) {
      for (let at = 0; at < roundBytes; ) {
        const count = Math.min(1 + random.next(150_000), roundBytes - at);
        const kind = random.next(4);
        if (kind === 0) await reader.discard(count);
        else if (kind === 1) {
          const peeked = await reader.peek(count);
          expect(peeked.equals(pattern.subarray(at, at + count))).toBe(true);
          continue;
        } else if (kind === 2) {
          expect(await reader.readByte()).toBe(byteAt(at));
          at += 1;
          continue;
        } else {
          const got = await reader.read(count);
          expect(got.equals(pattern.subarray(at, at + count))).toBe(true);
        }
        at += count;
      }
    }
    await writing;
    await expect(reader.readByte()).rejects.toMatchObject({ code: 'ERR_SIDECALL_END_OF_STREAM' });
    far.end();
  });

  it('takes no count below 0, and 0 gives nothing at once', async () => {
    await using pair = await openPair();
    const [near, far] = await openDuplex(pair);
    const reader = byteReader(far);
    for (const count of [-1, 1.5, Number.NaN]) {
      await expect(reader.read(count)).rejects.toBeInstanceOf(RangeError);
      await expect(reader.peek(count)).rejects.toBeInstanceOf(RangeError);
      await expect(reader.discard(count)).rejects.toBeInstanceOf(RangeError);
      await expect(reader.readString(count)).rejects.toBeInstanceOf(RangeError);
      expect(() => byteWriter(near).reserve(count)).toThrow(RangeError);
    }
    expect(await reader.read(0)).toHaveLength(0);
    expect(await reader.peek(0)).toHaveLength(0);
    expect(await reader.readString(0)).toBe('');
    await reader.discard(0);
    near.end();
    far.end();
    far.resume();
    near.resume();
  });

  it('one flush arrives as one piece', async () => {
    await using pair = await openPair();
    const [near, far] = await openDuplex(pair);
    const writer = byteWriter(near);
    const pieces: string[] = [];
    far.on('data', (bytes) => pieces.push(String(bytes)));
    for (let flush = 0; flush < 10; flush += 1) {
      for (const word of ['a', 'bc', 'def']) writer.writeString(`${word}${flush}`);
      await turns(3);
      expect(pieces).toHaveLength(flush);
      await writer.flush();
      while (pieces.length === flush) await turns(1);
    }
    expect(pieces).toEqual(Array.from({ length: 10 }, (_, at) => `a${at}bc${at}def${at}`));
    const ended = once(far, 'end');
    await writer.flush({ end: true });
    await ended;
    far.end();
    near.resume();
  });

  it('is read through a stream of the Web', async () => {
    await using pair = await openPair();
    const [near, far] = await openDuplex(pair);
    near.end(Buffer.alloc(500_000, 'w'));
    let bytes = 0;
    for await (const chunk of Readable.toWeb(far)) bytes += chunk.byteLength;
    expect(bytes).toBe(500_000);
    far.end();
    near.resume();
  });
});
