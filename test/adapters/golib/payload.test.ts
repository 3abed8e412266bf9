// The message of golib's RPC, byte for byte.
import protobufjs from 'protobufjs';
import { describe, expect, it } from 'vitest';
import { encodeFrame } from '../../../src/adapters/golib/chunk-framing.ts';
import { decodePayload, encodePayload } from '../../../src/adapters/golib/payload.ts';
import { Random } from '../../support/random.ts';

// The message of golib's own benchmark.
const { root } = protobufjs.parse('syntax = "proto3"; message BenchmarkReq { bytes data = 1; }');
const BenchmarkReq = root.lookupType('BenchmarkReq');

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');

describe('the payload of golib', () => {
  it('is written as golib writes requests and errors', () => {
    const request = encodePayload({
      id: 1,
      deadlineNanos: 1_700_000_000_000_000_000n,
      method: '/math/sum',
      data: Buffer.from('{"Ints":[1,2,3]}'),
    });
    const expected =
      '52 08 01 10 80 80 a8 b1 e3 9f e7 cb 17 1a 09 2f 6d 61 74 68 2f 73 75 6d 22 10 7b 22 49 6e 74 73 22 3a 5b 31 2c 32 2c 33 5d 7d';
    expect(encodeFrame(request)).toEqual(hex(expected));
    const error = encodePayload({ id: 1, errorKind: 1, error: 'method(x): not found' });
    expect(encodeFrame(error)).toEqual(
      hex('34 08 01 28 01 32 14 6d 65 74 68 6f 64 28 78 29 3a 20 6e 6f 74 20 66 6f 75 6e 64'),
    );
  });

  it.each([
    [1_024, 1_056],
    [10_240, 10_273],
    [102_400, 102_435],
    [1_024_000, 1_024_035],
  ])('has the length that a benchmark of %d bytes has with golib', (size, length) => {
    const message = { data: Buffer.alloc(size) };
    for (const id of [128, 16_383]) {
      const request = encodePayload({
        id,
        deadlineNanos: BigInt(Date.now()) * 1_000_000n,
        method: 'benchmark',
        data: BenchmarkReq.encode(message).finish(),
      });
      expect(encodeFrame(request)).toHaveLength(length);
    }
  });

  it('is read as golib writes answers and errors', () => {
    const answer = hex(
      '08 01 10 80 80 a8 b1 e3 9f e7 cb 17 1a 09 2f 6d 61 74 68 2f 73 75 6d 22 09 7b 22 53 75 6d 22 3a 36 7d',
    );
    expect(decodePayload(answer)).toMatchObject({
      id: 1,
      deadlineNanos: 1_700_000_000_000_000_000n,
      method: '/math/sum',
      errorKind: 0,
    });
    expect(Buffer.from(decodePayload(answer).data).toString()).toBe('{"Sum":6}');
    const error = hex('28 01 32 14 6d 65 74 68 6f 64 28 78 29 3a 20 6e 6f 74 20 66 6f 75 6e 64');
    expect(decodePayload(error)).toMatchObject({
      id: 0,
      errorKind: 1,
      error: 'method(x): not found',
    });
  });

  it('skips fields that it does not know, and refuses what is cut off', () => {
    expect(decodePayload(hex('08 05 3d 01 02 03 04 42 01 61'))).toMatchObject({ id: 5 });
    expect(() => decodePayload(hex('22 05 61'))).toThrow();
    expect(() => decodePayload(hex('08'))).toThrow();
  });

  it('takes any bytes or refuses them', () => {
    const random = Random.fromEnvironment();
    let taken = 0;
    for (let round = 0; round < 20_000; round += 1) {
      const bytes = Buffer.from(Array.from({ length: random.next(48) }, () => random.next(256)));
      try {
        decodePayload(bytes);
        taken += 1;
      } catch (error) {
        expect(error).toBeInstanceOf(Error);
      }
    }
    expect(taken).toBeGreaterThan(0);
  });
});
