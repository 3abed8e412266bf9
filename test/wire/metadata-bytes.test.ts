import { describe, expect, it } from 'vitest';
import { decodeMetadata, encodeMetadata } from '../../src/wire/metadata-bytes.ts';

function broken(bytes: Uint8Array): void {
  expect(() => decodeMetadata(bytes)).toThrow(
    expect.objectContaining({ code: 'ERR_SIDECALL_PROTOCOL' }) as Error,
  );
}

describe('metadata', () => {
  it('comes back as it was, without a prototype', () => {
    const metadata = { trace: 'ü€', 'x-bin': new Uint8Array([0, 1, 255]), empty: '' };
    const decoded = decodeMetadata(encodeMetadata(metadata, 8192));
    expect({ ...decoded }).toEqual(metadata);
    expect(Object.getPrototypeOf(decoded)).toBeNull();
    expect({ ...decodeMetadata(encodeMetadata({ __proto__: 'own' } as never, 100)) }).toEqual({});
  });

  it('has several values of a key of bytes, in their order, each counted', () => {
    const values = [new Uint8Array([1]), new Uint8Array(0), new Uint8Array([2, 3])];
    const decoded = decodeMetadata(encodeMetadata({ 'a-bin': values, b: 'c' }, 8192));
    expect({ ...decoded }).toEqual({ 'a-bin': values, b: 'c' });
    expect({ ...decodeMetadata(encodeMetadata({ 'a-bin': [] }, 8192)) }).toEqual({});
    for (const wrong of [{ a: ['x'] }, { 'a-bin': ['x'] }, { 'a-bin': [[new Uint8Array(1)]] }]) {
      expect(() => encodeMetadata(wrong as never, 8192)).toThrow(TypeError);
    }
    const many = { 'a-bin': Array.from({ length: 65 }, () => new Uint8Array(1)) };
    expect(() => encodeMetadata(many, 8192)).toThrow(
      expect.objectContaining({ code: 'ERR_SIDECALL_MESSAGE_TOO_LARGE' }) as Error,
    );
  });

  it('throws for what is no plain object, rather than lose it', () => {
    for (const metadata of [new Map([['a', 'b']]), 'text', null, 5, ['a']]) {
      expect(() => encodeMetadata(metadata as never, 8192)).toThrow(TypeError);
    }
  });

  it('is nothing where there is nothing', () => {
    expect(encodeMetadata(undefined, 0)).toHaveLength(0);
    expect(encodeMetadata({}, 0)).toHaveLength(0);
    expect(Object.keys(decodeMetadata(new Uint8Array(0)))).toEqual([]);
  });

  it('refuses bytes that no correct peer sends, cut anywhere', () => {
    const bytes = encodeMetadata({ key: 'value', 'b-bin': new Uint8Array(3) }, 8192);
    const firstEntry = 2 + 3 + 4 + 5;
    for (let cut = 1; cut < bytes.byteLength; cut += 1) {
      if (cut !== firstEntry) broken(bytes.subarray(0, cut));
    }
    broken(Buffer.concat([bytes, bytes])); // a key of a text twice
    broken(Buffer.from('0300ffffff00000000', 'hex')); // a key that is no ASCII
    broken(Buffer.from('000000000000', 'hex')); // a key of no bytes
    broken(Buffer.from('0100610000ffff', 'hex')); // a value beyond the end
  });

  it('holds 64 entries at most', () => {
    const entries = (count: number): Record<string, string> =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 'v']));
    expect(Object.keys(decodeMetadata(encodeMetadata(entries(64), 8192)))).toHaveLength(64);
    expect(() => encodeMetadata(entries(65), 8192)).toThrow(
      expect.objectContaining({ code: 'ERR_SIDECALL_MESSAGE_TOO_LARGE' }) as Error,
    );
    const one = encodeMetadata({ k: 'v' }, 100);
    const many = Buffer.concat(
      Array.from({ length: 65 }, (_, at) => {
        const entry = Buffer.from(one);
        entry[2] = 97 + (at % 26);
        return entry;
      }),
    );
    broken(many);
  });
});
