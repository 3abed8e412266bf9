// Values on the wire: JSON with bytes in it, schemas, third-party codecs.
import { deserialize, serialize } from 'node:v8';
import { isLosslessNumber, LosslessNumber, parse, stringify } from 'lossless-json';
import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { bytes, type Codec, decodeWith, encodeWith } from '../../src/rpc/contract/codec.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { joinParts } from '../../src/rpc/contract/json-bytes.ts';
import { validated } from '../../src/rpc/contract/schema.ts';
import { serverStream, service, unary } from '../../src/rpc/contract/service.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { writeU32 } from '../../src/wire/frame-header.ts';
import { collect } from '../support/contract.ts';
import { lanes, openLoopback } from '../support/pairs.ts';

function encoded(value: unknown): Uint8Array {
  const body = encodeWith(json<unknown>(), value);
  return typeof body === 'string' ? Buffer.from(body) : body;
}

function roundTrip(value: unknown): unknown {
  return decodeWith(json<unknown>(), encoded(value), false);
}

describe('bytes in JSON', () => {
  it.each([
    ['alone', new Uint8Array([1, 2, 3])],
    ['empty', { data: new Uint8Array(0) }],
    ['in an array', [1, new Uint8Array([9]), 'x', new Uint8Array([8, 7])]],
    ['deep', { a: { b: [{ c: new Uint8Array([5]) }] }, d: null, e: 'text' }],
    [
      'beside what looks like a placeholder',
      { $bytes: 0, x: { $bytes: 'y' }, data: new Uint8Array([4]) },
    ],
    ['beside what looks escaped', { $$bytes: { $$$bytes: 1 }, data: new Uint8Array([4]) }],
    ['what looks like a placeholder, without bytes', { $bytes: 0 }],
  ])('%s', (_what, value) => {
    expect(roundTrip(value)).toEqual(value);
  });

  it('a Buffer arrives as a Uint8Array of its own memory', () => {
    const message = encoded({ data: Buffer.from('hello') });
    const { data } = decodeWith(json<{ data: Uint8Array }>(), message, false);
    message.fill(0);
    expect(data.constructor).toBe(Uint8Array);
    expect(Buffer.from(data).toString()).toBe('hello');
  });

  it('JSON without bytes is plain JSON text', () => {
    expect(encodeWith(json<unknown>(), { a: [1, { b: 'c' }] })).toBe('{"a":[1,{"b":"c"}]}');
  });

  it('what makes itself JSON is asked, and may hold bytes', () => {
    const when = new Date(0);
    class Box {
      #bytes = new Uint8Array([6]);
      toJSON(): unknown {
        return { inside: this.#bytes, when };
      }
    }
    expect(roundTrip({ box: new Box() })).toEqual({
      box: { inside: new Uint8Array([6]), when: '1970-01-01T00:00:00.000Z' },
    });
  });

  it('keys like __proto__ are keys, with bytes and without', () => {
    const value = JSON.parse('{"__proto__":{"x":1},"constructor":2}');
    value.data = new Uint8Array([1]);
    const back = roundTrip(value) as object;
    expect(Object.getPrototypeOf(back)).toBe(Object.prototype);
    expect(Object.keys(back).sort()).toEqual(['__proto__', 'constructor', 'data']);
  });

  it('64 attachments pass, 65 are refused on both sides', () => {
    const value = Array.from({ length: 64 }, (_, at) => new Uint8Array([at]));
    expect(roundTrip(value)).toEqual(value);
    expect(() => encoded([...value, new Uint8Array(1)])).toThrow('64 attachments at most');
    const many = joinParts('[]', [...value, new Uint8Array(1)]);
    expect(() => decodeWith(json<unknown>(), many, false)).toThrow('refused a message');
  });

  it('two contracts that differ: the error names the method and the codec that refused', async () => {
    await using pair = await openLoopback();
    const theirs = service('Store', { put: unary(), get: unary({ response: bytes }) });
    pair.far.serve(theirs, { put: () => null, get: () => Buffer.from('x') });
    const ours = service('Store', { put: unary({ request: bytes }), get: unary() });
    const store = pair.near.client(ours);
    const failureOf = (call: Promise<unknown>) =>
      call.then(
        () => undefined,
        (error: Error & { code: string }) => [error.code, error.message],
      );
    expect(await failureOf(store.put(Buffer.from([255])))).toEqual([
      'ERR_SIDECALL_RPC',
      expect.stringMatching(/^Store\.put: the request could not be decoded: codec 'json'/),
    ]);
    expect(await failureOf(store.get())).toEqual([
      'ERR_SIDECALL_DECODE',
      expect.stringMatching(/^Store\.get: the answer could not be decoded: codec 'json'/),
    ]);
  });

  it('a circle, and what JSON cannot carry, are ENCODE errors', () => {
    const circle: { self?: unknown; data: Uint8Array } = { data: new Uint8Array(1) };
    circle.self = circle;
    expect(() => encoded(circle)).toThrow(expect.objectContaining({ code: 'ERR_SIDECALL_ENCODE' }));
    const plain: { self?: unknown } = {};
    plain.self = plain;
    expect(() => encoded(plain)).toThrow(expect.objectContaining({ code: 'ERR_SIDECALL_ENCODE' }));
    expect(() => encoded(1n)).toThrow(expect.objectContaining({ code: 'ERR_SIDECALL_ENCODE' }));
  });

  it.each<[string, () => Uint8Array]>([
    ['a count of none', () => head(0, 2, [], '{}')],
    ['a count beyond the message', () => head(60, 2, [], '{}')],
    ['a text beyond the message', () => head(1, 5000, [1], '{"$bytes":0}')],
    ['a length beyond the message', () => head(1, 12, [99], '{"$bytes":0}x')],
    ['bytes behind the last', () => head(1, 12, [1], '{"$bytes":0}xy')],
    ['a placeholder beyond the attachments', () => head(1, 12, [1], '{"$bytes":1}x')],
    ['a placeholder that is no number', () => head(1, 14, [1], '{"$bytes":"0"}x')],
    ['a placeholder with company', () => head(1, 18, [1], '{"$bytes":0,"a":1}x')],
    ['one attachment twice', () => head(1, 27, [1], '[{"$bytes":0},{"$bytes":0}]x')],
    ['an attachment that nothing refers to', () => head(1, 2, [1], '{}x')],
    ['a mark with something behind it', () => Buffer.from([0, 1, 0, 0, 1, 0, 0, 0])],
  ])('a message that lies is refused: %s', (_what, make) => {
    expect(() => decodeWith(json<unknown>(), make(), false)).toThrow(
      expect.objectContaining({ code: 'ERR_SIDECALL_DECODE' }),
    );
  });
});

function head(count: number, textBytes: number, lengths: number[], rest: string): Uint8Array {
  const start = Buffer.alloc(12 + 4 * lengths.length);
  writeU32(start, 4, count);
  writeU32(start, 8, textBytes);
  lengths.forEach((length, at) => writeU32(start, 12 + 4 * at, length));
  return Buffer.concat([start, Buffer.from(rest)]);
}

/**
 * The codec that docs/protobuf.md shows: everything that structured clone carries, between Node
 * processes.
 */
const cloned: Codec<unknown> = {
  name: 'v8',
  encode: (value) => serialize(value),
  decode: (view) => deserialize(view),
};

/** Numbers as they are written, by a parser from npm. */
const lossless: Codec<unknown> = {
  name: 'lossless-json',
  encode: (value) => stringify(value) ?? '',
  decode: (view) => parse(Buffer.from(view).toString('utf8')),
};

const User = v.object({ name: v.string(), age: v.pipe(v.number(), v.minValue(0)) });

const Codecs = service('Codecs', {
  clone: unary<unknown, unknown>({ request: cloned, response: cloned }),
  exact: unary<unknown, unknown>({ request: lossless, response: lossless }),
  mixed: unary<{ name: string; data: Uint8Array }, { name: string; data: Uint8Array }>(),
  user: unary({ request: validated(User), response: validated(v.object({ id: v.number() })) }),
  ages: serverStream({ request: json<void>(), response: validated(v.number()) }),
});

describe.each(lanes)("codecs over the '$lane'", ({ openPair }) => {
  const handlers = {
    clone: (value: unknown) => value,
    exact: (value: unknown) => value,
    mixed: ({ name, data }: { name: string; data: Uint8Array }) => ({
      name: name.toUpperCase(),
      data: data.map((byte) => byte + 1),
    }),
    user: ({ age }: { name: string; age: number }) => ({ id: age }),
    async *ages() {
      yield 1;
      yield 'two' as unknown as number;
    },
  };

  it('v8.serialize and a lossless JSON plug in', async () => {
    await using pair = await openPair();
    pair.far.serve(Codecs, handlers);
    const codecs = pair.near.client(Codecs);
    const value = { when: new Date(5), map: new Map([[1, new Set(['x'])]]), big: 2n ** 63n };
    expect(await codecs.clone(value)).toEqual(value);
    const exact = (await codecs.exact({ id: new LosslessNumber('9223372036854775807') })) as {
      id: unknown;
    };
    expect(isLosslessNumber(exact.id) && exact.id.toString()).toBe('9223372036854775807');
  });

  it('63-bit integers of a channel stay exact, and malformed text fails that channel alone', async () => {
    await using pair = await openPair();
    pair.far.serve(Codecs, handlers);
    const accepted = pair.far.channels(lossless, { name: 'exact' });
    const near = pair.near.openChannel(lossless, { name: 'exact' });
    await near.send({ id: new LosslessNumber('9223372036854775807') });
    const { value: far } = (await accepted.next()) as { value: typeof near };
    const { value: message } = (await far.next()) as { value: { id: LosslessNumber } };
    expect(message.id.toString()).toBe('9223372036854775807');
    const raw = pair.near.openChannel(bytes, { name: 'exact' });
    await raw.send(Buffer.from('{"id":'));
    const { value: refusing } = (await accepted.next()) as { value: typeof near };
    await expect(refusing.next()).rejects.toMatchObject({ code: 'ERR_SIDECALL_DECODE' });
    await expect(raw.next()).rejects.toMatchObject({ status: 'invalid_argument' });
    await far.send({ id: new LosslessNumber('1') });
    expect((await near.next()).value).toEqual({ id: new LosslessNumber('1') });
    await Promise.all([near.end(), far.end()]);
    await accepted.return?.();
  });

  it('bytes travel inside JSON at any size', async () => {
    await using pair = await openPair();
    pair.far.serve(Codecs, handlers);
    const codecs = pair.near.client(Codecs);
    for (const size of [0, 10, 5000, 70_000, 1_000_000]) {
      const answer = await codecs.mixed({ name: 'a', data: new Uint8Array(size).fill(size % 200) });
      expect(answer.name).toBe('A');
      expect(answer.data).toHaveLength(size);
      expect(answer.data.every((byte) => byte === (size % 200) + 1)).toBe(true);
    }
  });

  it('a schema refuses on the way out, on the way in, and what comes back', async () => {
    await using pair = await openPair();
    pair.far.serve(Codecs, handlers);
    const codecs = pair.near.client(Codecs);
    expect(await codecs.user({ name: 'a', age: 3 })).toEqual({ id: 3 });
    await expect(codecs.user({ name: 'a', age: -1 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_ENCODE',
      delivered: 'no',
    });
    // A caller without the schema: the handler's end refuses, and says where.
    await expect(pair.near.call('Codecs.user', { name: 5, age: -1 })).rejects.toMatchObject({
      status: 'invalid_argument',
      details: { issues: [{ path: 'name' }, { path: 'age' }] },
    });
    pair.near.serve(service('Codecs', { user: unary() }), { user: () => ({ id: 'text' }) });
    await expect(pair.far.client(Codecs).user({ name: 'a', age: 1 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DECODE',
      message: expect.stringMatching(/\(RefusedValue\)$/), // no doubt of the contract
    });
    await expect(collect(codecs.ages())).rejects.toMatchObject({ status: 'internal' });
  });

  it('an undecodable request is the fault of its sender, and no payload is repeated', async () => {
    await using pair = await openPair();
    pair.far.serve(Codecs, handlers);
    const Raw = service('Codecs', { mixed: unary({ request: bytes, response: bytes }) });
    const failure = await pair.near
      .client(Raw)
      .mixed(Buffer.from('secret {'))
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ status: 'invalid_argument' });
    expect(String((failure as Error).message)).not.toContain('secret');
  });
});

it('validated() refuses what is no schema, and one that answers later', () => {
  expect(() => validated({} as never)).toThrow(TypeError);
  const later = validated(
    v.pipeAsync(
      v.string(),
      v.checkAsync(async () => true),
    ) as never,
  );
  expect(() => encodeWith(later as Codec<unknown>, 'x')).toThrow('answers later');
});

describe('the depth of JSON', () => {
  const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)]);
  const Deep = service('Deep', {
    same: unary({ request: json<unknown>({ depthMax: 500 }), response: json<unknown>() }),
    give: unary({ request: json<number>(), response: json<unknown>({ depthMax: 500 }) }),
  });

  it('is what its codec says, with bytes and without, in each direction', async () => {
    await using pair = createSessionPair();
    pair.far.serve(Deep, { same: (value) => JSON.stringify(value).length, give: nested });
    const { same, give } = pair.near.client(Deep);
    expect(await same(nested(500))).toBe(1_001);
    expect(await give(500)).toEqual(nested(500));
    const bytesInside = [new Uint8Array(3), nested(498)];
    const codec = json<unknown>({ depthMax: 500 });
    const encodedDeep = encodeWith(codec, bytesInside) as Uint8Array;
    expect(decodeWith(codec, encodedDeep, false)).toEqual(bytesInside);
    await expect(same(nested(501))).rejects.toMatchObject({ code: 'ERR_SIDECALL_ENCODE' });
    await expect(give(501)).rejects.toMatchObject({ status: 'internal' });
  });

  it('is refused by a receiver that takes less', () => {
    const deep = encodeWith(json<unknown>({ depthMax: 500 }), nested(65)) as string;
    expect(() => decodeWith(json<unknown>(), Buffer.from(deep), false)).toThrow(
      expect.objectContaining({ code: 'ERR_SIDECALL_DECODE' }) as Error,
    );
  });

  it.each([0, 1_001, 1.5, '64', null])('is no %j', (depthMax) => {
    expect(() => json({ depthMax: depthMax as number })).toThrow(/depthMax must be/);
  });
});
