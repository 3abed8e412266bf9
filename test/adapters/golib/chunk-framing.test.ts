// The frames of golib, byte for byte.
import { describe, expect, it } from 'vitest';
import { encodeFrame, FrameReader } from '../../../src/adapters/golib/chunk-framing.ts';
import { Random } from '../../support/random.ts';

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');

/** Lengths and their bytes, as Go's `binary.PutVarint` writes them. */
const lengths: readonly (readonly [number, string])[] = [
  [1, '02'],
  [11, '16'],
  [41, '52'],
  [63, '7e'],
  [64, '80 01'],
  [127, 'fe 01'],
  [128, '80 02'],
  [1_023, 'fe 0f'],
  [1_024, '80 10'],
  [8_191, 'fe 7f'],
  [8_192, '80 80 01'],
  [10_240, '80 a0 01'],
  [102_400, '80 c0 0c'],
  [1_024_000, '80 80 7d'],
  [1_048_576, '80 80 80 01'],
];

describe('frames of golib', () => {
  it.each(lengths)('%i bytes have the length %s', (bytes, length) => {
    const message = Buffer.alloc(bytes, 7);
    const frame = encodeFrame(message);
    expect(frame.equals(Buffer.concat([hex(length), message]))).toBe(true);
    expect([...new FrameReader(2 ** 21).push(frame)]).toEqual([message]);
  });

  it.each([
    ['2^31 - 1', 'fe ff ff ff 0f'],
    ['2^31', '80 80 80 80 10'],
    ['2^55 - 1', 'fe ff ff ff ff ff ff 7f'],
  ])('a length of %s is too large, before memory is taken', (_, length) => {
    const reader = new FrameReader(2 ** 30);
    expect(() => [...reader.push(hex(length))]).toThrow('at most 1073741824 are accepted');
  });

  it('knows the frame of hello world', () => {
    const text = '16 68 65 6c 6c 6f 20 77 6f 72 6c 64';
    expect(encodeFrame(Buffer.from('hello world'))).toEqual(hex(text));
  });

  it.each([
    ['-1', '01'],
    ['0', '00'],
    ['an over-long 1', '82 00'],
    ['the most negative one', 'ff ff ff ff ff ff ff ff ff 01'],
    ['ten bytes that all continue', '80 80 80 80 80 80 80 80 80 80'],
  ])('refuses the length %s', (_, bytes) => {
    const reader = new FrameReader(1_000);
    expect(() => [...reader.push(hex(bytes))]).toThrow('golib: ');
  });

  it('gives the same frames at every split', () => {
    const messages = [1, 63, 64, 300].map((bytes) => Buffer.alloc(bytes, bytes));
    const all = Buffer.concat(messages.map(encodeFrame));
    for (let split = 0; split <= all.byteLength; split += 1) {
      const reader = new FrameReader(1_000);
      const frames = [...reader.push(all.subarray(0, split)), ...reader.push(all.subarray(split))];
      expect(frames).toEqual(messages);
      expect(reader.isMidway).toBe(false);
    }
    const reader = new FrameReader(1_000);
    const byOne = [...all].flatMap((byte) => [...reader.push(Buffer.of(byte))]);
    expect(byOne).toEqual(messages);
  });

  it('takes any bytes as frames within the limit, or refuses them', () => {
    const random = Random.fromEnvironment();
    for (let round = 0; round < 20_000; round += 1) {
      const reader = new FrameReader(4_096);
      const bytes = Buffer.from(Array.from({ length: random.next(64) }, () => random.next(256)));
      try {
        for (const frame of reader.push(bytes)) {
          expect(frame.byteLength).toBeGreaterThan(0);
          expect(frame.byteLength).toBeLessThan(64);
        }
      } catch (error) {
        expect((error as { code: string }).code).toMatch(
          /^ERR_SIDECALL_(PROTOCOL|FRAME_TOO_LARGE)$/,
        );
      }
    }
  });
});
