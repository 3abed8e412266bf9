// Values at and beyond the range of each type of field, of both kinds of message types.
import protobufjs from 'protobufjs';
import { describe, expect, it } from 'vitest';
import { protobuf } from '../../src/adapters/protobuf.ts';
import { demo } from '../support/proto/demo.js';

const scalars = [
  ...['int32', 'sint32', 'sfixed32', 'uint32', 'fixed32'],
  ...['int64', 'sint64', 'sfixed64', 'uint64', 'fixed64', 'float', 'double', 'string'],
];
const keys = scalars.filter((type) => !['float', 'double'].includes(type));
const { root } = protobufjs.parse(`syntax = "proto3"; package all;
  message Time { int64 seconds = 1; int32 nanos = 2; }
  enum Color { RED = 0; BLUE = 5; }
  message All {
    ${scalars.map((type, at) => `${type} ${type}_one = ${at + 1};`).join('\n')}
    ${scalars.map((type, at) => `repeated ${type} ${type}_many = ${at + 101};`).join('\n')}
    Color color = 200; Time at = 201; All inner = 202; repeated All list = 203;
    map<string, int32> counts = 204; bytes raw = 205; map<bool, int32> bool_map = 206;
    map<string, Time> times = 207;
    ${keys.map((type, at) => `map<${type}, int32> ${type}_map = ${at + 301};`).join('\n')}
  }`);
const codec = protobuf<Record<string, unknown>>(root.lookupType('all.All'));

const int32 = { holds: [0, -(2 ** 31), 2 ** 31 - 1], refuses: [2 ** 31, -(2 ** 31) - 1, 2 ** 40] };
const uint32 = { holds: [0, 2 ** 32 - 1], refuses: [-1, 2 ** 32, 2 ** 40] };
const { Long } = protobufjs.util as unknown as {
  Long: { fromString(text: string, unsigned?: boolean): unknown };
};
const longMin = Long.fromString('-9223372036854775808');
const unsignedMax = Long.fromString('18446744073709551615', true);
const int64 = {
  holds: [0, -(2 ** 53) + 1, 2 ** 53 - 1, longMin, Long.fromString('7', true)],
  refuses: [2 ** 53, -(2 ** 60), 0.5, Number.NaN, Number.POSITIVE_INFINITY, unsignedMax],
};
const uint64 = {
  holds: [0, 2 ** 53 - 1, unsignedMax, Long.fromString('7')],
  refuses: [-1, 2 ** 53, 0.5, Long.fromString('-1'), longMin],
};
/** Keys of maps are texts with all digits. */
const wideKeys: { readonly [type: string]: { holds: string[]; refuses: string[] } } = {
  signed: {
    holds: ['0', '-9223372036854775808', '9223372036854775807'],
    refuses: ['9223372036854775808', '-9223372036854775809', '18446744073709551615'],
  },
  unsigned: {
    holds: ['0', '18446744073709551615', '9223372036854775808'],
    refuses: ['-1', '18446744073709551616', '-9223372036854775808'],
  },
};
const half = '\ud83d';
const values: { readonly [type: string]: { holds: unknown[]; refuses: unknown[] } } = {
  int32,
  sint32: int32,
  sfixed32: int32,
  uint32,
  fixed32: uint32,
  int64,
  sint64: int64,
  sfixed64: int64,
  uint64,
  fixed64: uint64,
  float: { holds: [0, 1.5, Number.NaN, Number.NEGATIVE_INFINITY, 3.4e38], refuses: [1e300, -1e39] },
  double: { holds: [0, 1e300, Number.NaN], refuses: [] },
  string: { holds: ['', 'ü😀'], refuses: [half, `a${half}`, `${'x'.repeat(200)}\ude00b`] },
};

const camel = (name: string): string =>
  name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

describe('a map', () => {
  const written = (name: string, key: string): object => {
    const bytes = codec.encode({ [name]: { [key]: 7 } }) as Uint8Array;
    return { ...(codec.decode(bytes, true)[name] as object) };
  };

  it.each(keys)('takes each key of the type %s, and no other', (type) => {
    const name = `${type}Map`;
    const isWide = type.endsWith('64');
    const wide = wideKeys[/^u|^fixed/.test(type) ? 'unsigned' : 'signed'];
    const { holds, refuses } = (isWide ? wide : values[type]) as (typeof values)[string];
    for (const key of holds.map(String)) {
      const found = Object.keys(written(name, key));
      expect(found, `${name} ${key}`).toHaveLength(1);
      if (!type.endsWith('64')) expect(found).toEqual([key]); // those of 64 bits come as bytes
    }
    for (const key of refuses.filter((each) => isWide || Number.isInteger(each)).map(String)) {
      expect(() => written(name, key)).toThrow(`${name}.${key}: "${key}" is no ${type}`);
    }
  });

  it('takes both keys of the type bool', () => {
    expect([written('boolMap', 'true'), written('boolMap', 'false')]).toEqual([
      { true: 7 },
      { false: 7 },
    ]);
  });
});

describe.each(scalars)('a field of the type %s', (type) => {
  const { holds, refuses } = values[type] as { holds: unknown[]; refuses: unknown[] };

  it('holds what is in its range', () => {
    for (const [name, wrap] of [
      [camel(`${type}_one`), (value: unknown) => value],
      [camel(`${type}_many`), (value: unknown) => [value]],
    ] as const) {
      for (const value of holds) {
        const decoded = codec.decode(codec.encode({ [name]: wrap(value) }) as Uint8Array, true);
        const got = [decoded[name]].flat()[0];
        const isSame = String(got) === String(value) || got === Math.fround(Number(value));
        expect(isSame, `${name} ${String(value)}: ${String(got)}`).toBe(true);
      }
    }
  });

  it('refuses what is beyond it, and names the field', () => {
    for (const value of refuses) {
      for (const [path, message] of [
        [camel(`${type}_one`), { [camel(`${type}_one`)]: value }],
        [`${camel(`${type}_many`)}.1`, { [camel(`${type}_many`)]: [holds[0], value] }],
        [`inner.${camel(`${type}_one`)}`, { inner: { [camel(`${type}_one`)]: value } }],
        [`list.0.${camel(`${type}_one`)}`, { list: [{ [camel(`${type}_one`)]: value }] }],
      ] as const) {
        expect(() => codec.encode(message), `${path} ${String(value)}`).toThrow(
          new RegExp(`^${path}: |^${path.split('.')[0]}`),
        );
      }
    }
  });
});

describe('a message', () => {
  it.each([
    ['a Date', new Date(0), 'at: a Date is no message; a Timestamp is { seconds, nanos }'],
    ['a Map', new Map([['seconds', 1]]), 'at: a Map is no message'],
    ['a Set', new Set(), 'at: a Set is no message'],
    ['a RegExp', /x/, 'at: a RegExp is no message'],
    ['a URL', new URLSearchParams('seconds=1'), 'at: a URLSearchParams is no message'],
  ])('is not %s, whose content would be lost', (_, at, text) => {
    expect(() => codec.encode({ at })).toThrow(text);
    expect(() => codec.encode({ list: [{ at }] })).toThrow(`list.0.${text}`);
  });

  it.each([
    ['at', { at: [] }, 'message'],
    ['inner', { inner: [{ int32One: 1 }] }, 'message'],
    ['list.0', { list: [[]] }, 'message'],
    ['list.1.at', { list: [{}, { at: [1] }] }, 'message'],
    ['counts', { counts: [1] }, 'map'],
    ['times', { times: [] }, 'map'],
    ['times.a', { times: { a: [] } }, 'message'],
    ['inner.times.a', { inner: { times: { a: [{}] } } }, 'message'],
  ])('or a map at %s is no array', (path, message, kind) => {
    expect(() => codec.encode(message)).toThrow(`${path}: an array is no ${kind}`);
  });

  it('is no array itself', () => {
    expect(() => codec.encode([] as never)).toThrow('an array is no message');
  });

  it.each([new Date(), new Map(), new Error('x'), Promise.resolve(), new Uint8Array(2), /x/])(
    'is not %s itself, nor where a message is due',
    (value) => {
      expect(() => codec.encode(value as never)).toThrow(/(is|are) no message/);
      expect(() => codec.encode({ list: [value] } as never)).toThrow(
        /list.0: .*(is|are) no message/,
      );
    },
  );

  it('may be an instance of a class, hold memory, and refer to what is no part of it', () => {
    class Time {
      seconds = 5;
    }
    const parent: Record<string, unknown> = { int32One: 1 };
    const message = {
      at: new Time(),
      raw: Buffer.from([1]),
      counts: { a: 1 },
      list: [root.lookupType('all.All').create({})],
      inner: { int32One: 2, parent },
      parent,
    };
    parent.children = [message, message, parent];
    const decoded = codec.decode(codec.encode(message) as Uint8Array, true);
    expect(decoded).toMatchObject({ inner: { int32One: 2 }, counts: { a: 1 } });
    expect(String((decoded.at as { seconds: unknown }).seconds)).toBe('5');
  });

  it('of a static module is checked, too', () => {
    const own = protobuf(demo.Q);
    expect(() => own.encode({ number: 2 ** 40 })).toThrow('number: 1099511627776 is no int32');
    expect(() => own.encode({ text: half })).toThrow('half of a surrogate pair');
  });

  it('whose encoding failed spoils no later one', () => {
    expect(() => codec.encode({ int32One: 1, stringOne: half })).toThrow('surrogate');
    expect(codec.decode(codec.encode({ int32One: 7 }) as Uint8Array, true)).toMatchObject({
      int32One: 7,
    });
  });
});

describe('a field of bytes', () => {
  it.each([
    ['bytes', new Uint8Array([1, 255]), '01ff'],
    ['a Buffer', Buffer.from('01ff', 'hex'), '01ff'],
    ['an array of bytes', [1, 255], '01ff'],
    ['base64', 'Af8=', '01ff'],
    ['base64 of URLs without padding', '_-8', 'ffef'],
    ['nothing', '', ''],
  ])('takes %s', (_kind, raw, hex) => {
    const { raw: got } = codec.decode(codec.encode({ raw }) as Uint8Array, true);
    expect(Buffer.from((got as Uint8Array | undefined) ?? []).toString('hex')).toBe(hex);
  });

  it.each([
    ['numbers that are no bytes', [1, 2, 300]],
    ['numbers below zero', [-1]],
    ['fractions', [0.5]],
    ['an array of words', new Uint16Array([1, 300])],
    ['an object with a length', { length: 2 }],
    ['text', 'hello world'],
    ['base64 that is cut off', 'Af8=A'],
    ['a digit alone', 'A'],
  ])('refuses %s', (_kind, raw) => {
    expect(() => codec.encode({ raw })).toThrow(/^raw(\.\d)?: .* is no field of bytes/);
  });
});

describe('the path of a value that is refused', () => {
  it.each([
    [{ doubleOne: 2 ** 32, uint32One: 2 ** 32 }, 'uint32One: '],
    [{ inner: { list: [{ int32One: 1 }, { int32One: 2 ** 31 }] } }, 'inner.list.1.int32One: '],
    [{ uint32Many: [1, 2, -1] }, 'uint32Many.2: '],
    [{ stringOne: '-1', uint64Map: { 5: 5, '-1': 5 } }, 'uint64Map.-1: '],
    [{ counts: { a: 1, b: 2 ** 40 } }, 'counts.b: '],
    [{ at: { nanos: 2 ** 31 } }, 'at.nanos: '],
  ])('of %o is %s', (value, path) => {
    expect(() => codec.encode(value)).toThrow(path);
  });
});
