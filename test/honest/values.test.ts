// Values that a codec or a call cannot carry are refused by the function that takes them.
import { describe, expect, it } from 'vitest';
import { SidecallError } from '../../src/base/errors.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { bidi, serverStream, service, unary } from '../../src/rpc/contract/service.ts';
import { lanes } from '../support/pairs.ts';

const Values = service('Values', {
  echo: unary(),
  letters: serverStream<void, unknown>(),
  chat: bidi<string, string>(),
});

class Named extends Map<string, number> {
  toJSON(): object {
    return Object.fromEntries(this);
  }
}

class Point {
  readonly x = 3;
  readonly at = new Date(0);
  length(): number {
    return this.x;
  }
}

const refused: [string, unknown, RegExp][] = [
  ['a Map', new Map([['a', 1]]), /cannot carry a Map/],
  ['a Set in an object', { names: new Set(['a']) }, /cannot carry a Set/],
  ['a Map deep in arrays', [[{ x: [new Map()] }]], /cannot carry a Map/],
  ['a Map behind bytes', { data: new Uint8Array(2), names: new Map() }, /cannot carry a Map/],
  ['a Set before bytes', { names: new Set(), data: new Uint8Array(2) }, /cannot carry a Set/],
  ['a promise', { rows: Promise.resolve([1]) }, /await it/],
  ['a bigint', { n: 1n }, /BigInt/],
  ['a bigint beside bytes', { n: 1n, data: new Uint8Array(1) }, /bigint/],
  ['a function in an object', { onDone: () => undefined }, /a function: leave 'onDone' out/],
  ['a function in a list', { steps: [() => 1] }, /a function: leave '0' out/],
  ['a function beside bytes', { data: new Uint8Array(1), done() {} }, /leave 'done' out/],
  ['a symbol', { kind: Symbol('x') }, /a symbol: leave 'kind' out/],
  ['an Error', { cause: new TypeError('no') }, /an Error: give its message/],
  ['an Error beside bytes', { data: new Uint8Array(1), cause: new Error('no') }, /an Error/],
  ['a RegExp', { pattern: /a+/ }, /give its source/],
  ['a WeakMap', [new WeakMap()], /a WeakMap/],
  ['options', { signal: new AbortController().signal }, /options are the second argument/],
];

describe.each(lanes)('over $lane', ({ openPair }) => {
  it.each(refused)('%s fails its call alone', async (_what, value, words) => {
    const events: SidecallEvent[] = [];
    await using pair = await openPair({ onFarEvent: (event) => events.push(event) });
    pair.far.serve(Values, {
      echo: (request) => request,
      letters: () => [],
      chat: (texts) => texts,
    });
    const client = pair.near.client(Values);
    const beside = client.echo('beside');
    const error = await client.echo(value).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(SidecallError);
    expect(error).toMatchObject({ code: 'ERR_SIDECALL_ENCODE', delivered: 'no' });
    expect(String(error)).toMatch(words);
    expect(await beside).toBe('beside');
    expect(events).toEqual([]);
  });

  it('an object travels as its toJSON() says, and a class as its members', async () => {
    await using pair = await openPair();
    pair.far.serve(Values, {
      echo: (request) => request,
      letters: () => [],
      chat: (texts) => texts,
    });
    const { echo } = pair.near.client(Values);
    const at = new Date(0);
    expect(await echo({ at, n: new Named([['a', 1]]) })).toEqual({
      at: at.toISOString(),
      n: { a: 1 },
    });
    expect(await echo({ data: new Uint8Array([1]), n: new Named([['a', 1]]) })).toEqual({
      data: new Uint8Array([1]),
      n: { a: 1 },
    });
    expect(await echo(new Point())).toEqual({ x: 3, at: at.toISOString() });
    expect(await echo(Object.assign(Object.create(null), { x: [1, null] }))).toEqual({
      x: [1, null],
    });
  });

  it('a text is no stream of its letters, neither of a caller nor of a handler', async () => {
    const failed: unknown[] = [];
    await using pair = await openPair({
      onFarEvent: (event) => event.type === 'handler-failed' && failed.push(event.error),
    });
    pair.far.serve(Values, {
      echo: (request) => request,
      letters: () => 'abc' as never,
      chat: (texts) => texts,
    });
    const client = pair.near.client(Values);
    await expect(client.letters().next()).rejects.toMatchObject({ status: 'internal' });
    expect(String(failed[0])).toMatch(/and no text; got string/);
    await expect(client.chat('abc' as never).next()).rejects.toThrow(/and no text; got string/);
  });

  it('a key of metadata in upper case is refused with the one that is meant', async () => {
    await using pair = await openPair();
    pair.far.serve(Values, {
      echo: (_request, { metadata }) => metadata,
      letters: () => [],
      chat: (texts) => texts,
    });
    const { echo } = pair.near.client(Values);
    const metadata = { Authorization: 'Bearer x' };
    await expect(echo(1, { metadata })).rejects.toThrow(/write 'authorization'/);
    expect(await echo(1, { metadata: { authorization: 'Bearer x' } })).toEqual({
      authorization: 'Bearer x',
    });
  });
});
