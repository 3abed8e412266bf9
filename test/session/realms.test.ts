// A value is what it is, whatever realm has made it: each kind of value of each realm, in JSON
// alone and beside bytes, and the bytes of each realm wherever bytes are taken.
import { PassThrough, Readable } from 'node:stream';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { leased } from '../../src/rpc/contract/leases.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { Demo, demoHandlers } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

const realms = [
  { realm: 'this realm', evaluate: (text: string): unknown => new Function(`return ${text}`)() },
  { realm: 'node:vm', evaluate: (text: string): unknown => runInNewContext(`(${text})`) },
];

/** Values that `JSON.stringify` would empty or spoil, and their names in the error. */
const refused = [
  ['new Map([[1, 2]])', 'a Map'],
  ['new Set([1])', 'a Set'],
  ['new Error("lost")', 'an Error'],
  ['new RangeError("lost")', 'an Error'],
  ['/lost/', 'a RegExp'],
  ['Promise.resolve(1)', 'a Promise'],
  ['new WeakMap()', 'a WeakMap'],
  ['new WeakSet()', 'a WeakSet'],
  ['new WeakRef({})', 'a WeakRef'],
  ['new ArrayBuffer(1)', 'an ArrayBuffer'],
  ['new SharedArrayBuffer(1)', 'a SharedArrayBuffer'],
  ['new Uint16Array(1)', 'a Uint16Array'],
  ['new DataView(new ArrayBuffer(1))', 'a DataView'],
  ['[1][Symbol.iterator]()', 'an Array Iterator'],
  ['new Map([[1, 2]]).entries()', 'a Map Iterator'],
  ['(function* () { yield 1; })()', 'a Generator'],
  ['() => 1', 'a function'],
  ['Symbol("lost")', 'a symbol'],
] as const;

/** Values whose classes a context of `node:vm` has not. */
const refusedHere = [
  [new URLSearchParams('a=1'), 'an? URLSearchParams'],
  [new Headers({ a: '1' }), 'a Headers'],
  [new FormData(), 'a FormData'],
  [new Blob(['x']), 'a Blob'],
  [new AbortController().signal, 'an AbortSignal'],
  [new ReadableStream(), 'a ReadableStream'],
  [new PassThrough(), 'a stream'],
  [new (class Lines extends Readable {})(), 'a stream'],
] as const;

const carried = [
  '{ a: [1, "x", null, { b: true }] }',
  'Object.assign(Object.create(null), { a: 1 })',
  'new Date(0)',
  'new Number(1)',
  '[new String("x"), new Boolean(false)]',
  'new (class Point { x = 1; y = [2]; })()',
  'new (class { toJSON() { return { own: [1] }; } })()',
  'new (class { constructor() { this.toJSON = () => ({ ...this, made: 1 }); } })()',
  '{ at: { toJSON: (name) => name } }',
  '[{ toJSON: (name) => name }]',
  'new Proxy({ a: 1 }, {})',
  'Object.defineProperty({ a: 1 }, "toJSON", { value: () => [1, 2] })',
  'Object.assign(new Date(0), { toJSON: () => ({ own: [1] }) })',
  'new (class List extends Array { constructor(items) { super(); this.push(...items); } })(["a"])',
];

const asBytes = { data: new Uint8Array([7]) };

function textOf(value: unknown): string {
  const encoded = json<unknown>().encode(value);
  return typeof encoded === 'string' ? encoded : Buffer.from(encoded).toString();
}

describe.each(realms)('JSON with a value of $realm', ({ evaluate }) => {
  it.each(refused)('refuses %s by name, wherever it stands', (text, name) => {
    const value = evaluate(text);
    const words = new RegExp(`JSON cannot carry ${name}\\b`);
    for (const whole of [value, [value], { a: value }, { ...asBytes, a: value }, [asBytes, value]])
      expect(() => textOf(whole), text).toThrow(words);
  });

  it.each(carried)('carries %s as JSON.stringify does, also beside bytes', (text) => {
    const plain = JSON.stringify({ given: evaluate(text) });
    expect(textOf({ given: evaluate(text) })).toBe(plain);
    const beside = textOf({ given: evaluate(text), data: new Uint8Array([7]) });
    expect(beside).toContain(plain.slice(1, -1));
  });

  it('writes JSON.rawJSON() as it is, alone and beside bytes', () => {
    const codec = json<object>();
    const { rawJSON } = JSON as { rawJSON?: (text: string) => unknown };
    const at = rawJSON?.('12345678901234567890') ?? 12345678901234567000; // Node 22 has it
    const carried = (value: object): unknown =>
      codec.decode(Buffer.from(codec.encode(value)), false);
    expect(carried({ at })).toEqual({ at: 12345678901234567000 });
    expect(carried({ at, b: new Uint8Array([1]) })).toMatchObject({ at: 12345678901234567000 });
  });

  it.each([
    '{ $bytes: 5, at: { toJSON: () => "x" } }',
    '{ at: { toJSON: () => ({ $bytes: "y", $$bytes: 1 }) } }',
  ])('keeps the keys of %s beside a toJSON()', (text) => {
    expect(textOf(evaluate(text))).toBe(JSON.stringify(evaluate(text)));
  });

  it('finds bytes in what a toJSON() returns, also one of a Date or one that is hidden', () => {
    const codec = json<object>();
    const data = '() => ({ data: new Uint8Array([7]) })';
    for (const text of [
      `Object.assign(new Date(0), { toJSON: ${data} })`,
      `Object.defineProperty({ a: 1 }, "toJSON", { value: ${data} })`,
    ]) {
      const value = evaluate(text) as object;
      expect(codec.decode(Buffer.from(codec.encode(value)), false)).toEqual(asBytes);
    }
  });

  it('calls toJSON() once', () => {
    for (const others of [{}, asBytes]) {
      let calls = 0;
      const make = evaluate('(count) => ({ toJSON() { count(); return this; } })') as (
        count: () => void,
      ) => object;
      const value = make(() => {
        calls += 1;
      });
      textOf({ value, ...others });
      expect(calls).toBe(1);
    }
  });
});

describe('JSON', () => {
  it.each(refusedHere)('refuses %o by name', (value, name) => {
    for (const whole of [value, { a: value }, { ...asBytes, a: value }])
      expect(() => textOf(whole)).toThrow(new RegExp(`JSON cannot carry ${name}`));
  });

  it.each(['alone', 'beside bytes'])('takes own fields only, %s', (where) => {
    const others = where === 'alone' ? {} : asBytes;
    const old = Object.prototype as unknown as Record<string, unknown>;
    old.inherited = { a: [1] };
    try {
      expect(textOf({ x: { y: 1 }, ...others })).toContain('"x":{"y":1}');
      expect(textOf({ x: { y: 1 }, ...others })).not.toContain('inherited');
    } finally {
      delete old.inherited;
    }
  });

  it.each(['alone', 'beside bytes'])('writes a bigint that has a toJSON(), %s', (where) => {
    const others = where === 'alone' ? {} : asBytes;
    const old = BigInt.prototype as unknown as Record<string, unknown>;
    expect(() => textOf({ x: 1n, ...others })).toThrow(/bigint|BigInt/);
    old.toJSON = function (this: bigint) {
      return this.toString();
    };
    try {
      expect(textOf({ x: 1n, ...others })).toContain('"x":"1"');
    } finally {
      delete old.toJSON;
    }
  });
});

const Bytes = service('Bytes', {
  raw: unary({ request: bytes, response: bytes }),
  leased: unary({ request: leased, response: bytes }),
  json: unary<{ data: Uint8Array }, number>(),
  metadata: unary<void, string>(),
});

describe.each(lanes)('bytes of each realm over the $lane', ({ openPair }) => {
  it.each(realms)(
    'of $realm are taken by every codec, in metadata and as a buffer',
    async (row) => {
      await using pair = await openPair();
      pair.far.serve(Bytes, {
        raw: (message) => message,
        leased: ({ bytes: given }) => Uint8Array.from(given),
        json: ({ data }) => data.length,
        metadata: (_, { metadata }) => Buffer.from(metadata['x-bin'] as Uint8Array).toString('hex'),
      });
      const client = pair.near.client(Bytes);
      const given = row.evaluate('new Uint8Array([1, 2, 3])') as Uint8Array;
      expect(Buffer.from(await client.raw(given))).toEqual(Buffer.from([1, 2, 3]));
      expect(Buffer.from(await client.leased(given))).toEqual(Buffer.from([1, 2, 3]));
      expect(await client.json({ data: given })).toBe(3);
      const metadata = row.evaluate('{ "x-bin": new Uint8Array([1, 2]) }') as never;
      expect(await client.metadata(undefined, { metadata })).toBe('0102');
      const into = row.evaluate('new Uint8Array(8)') as Uint8Array;
      await client.raw(given, { into });
      expect([...into.subarray(0, 3)]).toEqual([1, 2, 3]);
    },
  );

  it('a signal of another realm ends a call, and one that is aborted begins none', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const { hang, add } = pair.near.client(Demo);
    // As a DOM has it: the same members, another class.
    class Signal extends EventTarget {
      aborted = false;
      reason: unknown;
      get [Symbol.toStringTag](): string {
        return 'AbortSignal';
      }
      abort(reason: unknown): void {
        this.aborted = true;
        this.reason = reason;
        this.dispatchEvent(new Event('abort'));
      }
    }
    const signal = new Signal();
    const call = hang(undefined, { signal: signal as unknown as AbortSignal });
    signal.abort('enough');
    await expect(call).rejects.toBe('enough');
    const late = add({ a: 1, b: 1 }, { signal: signal as unknown as AbortSignal });
    await expect(late).rejects.toBe('enough');
  });
});
