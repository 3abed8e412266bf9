import { describe, expect, it } from 'vitest';
import { RpcError } from '../../src/base/errors.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import type { CallContext } from '../../src/rpc/contract/call-context.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { Demo, defer, demoHandlers, turns } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

const textAsIs = { name: 'text', encode: (text: string) => text, decode: () => '' };

const binaryAsIs = {
  name: 'binary',
  encode: (view: Uint8Array) => view,
  decode: (view: Uint8Array) => view,
};

const neverDecodes = {
  name: 'never',
  encode: () => '',
  decode: (view: Uint8Array): unknown => {
    throw new Error(`cannot read ${Buffer.from(view).toString()}`);
  },
};

describe.each(lanes)('messages of a session over the $lane', ({ openPair }) => {
  it('keeps __proto__ an own key and prototypes untouched', async () => {
    await using pair = await openPair();
    const seen = defer<unknown>();
    pair.far.serve(
      Demo,
      demoHandlers({
        same: (value) => {
          seen.resolve(value);
          return undefined;
        },
      }),
    );
    const hostile = JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"x":1}}}');
    await pair.near.client(Demo).same(hostile);
    expect(Object.hasOwn((await seen.promise) as object, '__proto__')).toBe(true);
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });

  it('refuses JSON that is broken, too deep or not UTF-8, within the call', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const raw = service('Demo', { same: unary<string, unknown>({ request: textAsIs }) });
    const demo = pair.near.client(raw);
    const deep = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
    await expect(demo.same(deep(64))).resolves.toBeDefined();
    for (const text of ['{', '{"a":}', deep(65), deep(10_000), '\u0000', '"\\']) {
      await expect(demo.same(text)).rejects.toMatchObject({ status: 'invalid_argument' });
    }
    await expect(demo.same(`${JSON.stringify(deep(70))}`)).resolves.toBe(deep(70));
    const bytesAsIs = service('Demo', {
      same: unary<Uint8Array, unknown>({ request: binaryAsIs }),
    });
    const notUtf8 = pair.near.client(bytesAsIs).same(new Uint8Array([0x22, 0xff, 0xfe, 0x22]));
    await expect(notUtf8).rejects.toMatchObject({ status: 'invalid_argument' });
    expect(await pair.near.client(Demo).add({ a: 1, b: 1 }), 'the session lives').toEqual({
      sum: 2,
    });
  });

  it('refuses what JSON cannot carry, on either side', async () => {
    const events: SidecallEvent[] = [];
    await using pair = await openPair({ onFarEvent: (event) => events.push(event) });
    const circle: { self?: unknown } = {};
    circle.self = circle;
    const answers: Record<string, unknown> = {
      circle,
      big: 1n,
      function: () => 1,
      symbol: Symbol(),
    };
    pair.far.serve(Demo, demoHandlers({ same: (value) => answers[value as string] }));
    const demo = pair.near.client(Demo);
    for (const name of Object.keys(answers)) {
      await expect(demo.same(answers[name])).rejects.toMatchObject({
        code: 'ERR_SIDECALL_ENCODE',
        delivered: 'no',
      });
      await expect(demo.same(name)).rejects.toMatchObject({ status: 'internal' });
    }
    expect(events).toHaveLength(4);
    expect(await demo.same('none')).toBeUndefined();
  });

  it('DECODE: an answer that cannot be decoded fails that call, without payload in its words', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const picky = service('Demo', { same: unary<string, unknown>({ response: neverDecodes }) });
    const error = await pair.near
      .client(picky)
      .same('hush')
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: 'ERR_SIDECALL_DECODE',
      delivered: 'yes',
      status: 'internal',
    });
    expect(String((error as Error).stack) + String((error as Error).cause)).not.toContain('hush');
    // It has arrived, and the application did not get it.
    expect(pair.near.stats().messages).toMatchObject({
      received: { messages: 1, bytes: 6 },
      consumed: { messages: 0, bytes: 0 },
    });
    expect(await pair.near.client(Demo).same(1)).toBe(1);
    expect(pair.near.stats().messages.consumed).toEqual({ messages: 1, bytes: 1 });
  });

  it('carries metadata, headers and trailers both ways', async () => {
    await using pair = await openPair();
    let context: CallContext | undefined;
    pair.far.serve(
      Demo,
      demoHandlers({
        same: async (value, ctx) => {
          context = ctx;
          ctx.sendHeaders({ stage: 'begun' });
          expect(() => ctx.sendHeaders({})).toThrow(TypeError);
          ctx.trailers = { rows: '3' };
          await turns();
          return value;
        },
        fail: (_words, ctx) => {
          ctx.trailers = { rows: '0' };
          throw new RpcError('aborted', 'no', { metadata: { why: 'because' } });
        },
      }),
    );
    const heard: unknown[] = [];
    const demo = pair.near.client(Demo);
    await demo.same('x', {
      metadata: { trace: 'ü', 'key-bin': new Uint8Array([0, 255]) },
      onHeaders: (metadata) => heard.push({ ...metadata }),
      onTrailers: (metadata) => heard.push({ ...metadata }),
    });
    expect(heard).toEqual([{ stage: 'begun' }, { rows: '3' }]);
    expect({ ...context?.metadata }).toEqual({ trace: 'ü', 'key-bin': new Uint8Array([0, 255]) });
    expect(context).toMatchObject({
      method: 'Demo.same',
      deadline: undefined,
      peer: pair.far.peer,
    });
    const failed = demo.fail('', { onTrailers: (metadata) => heard.push({ ...metadata }) });
    await expect(failed).rejects.toMatchObject({ metadata: { why: 'because', rows: '0' } });
  });

  it('takes messages of exactly the limit and refuses one byte more, in both roles', async () => {
    await using pair = await openPair({
      near: { receiveMaxBytes: 2048 },
      far: { receiveMaxBytes: 4096 },
    });
    pair.far.serve(
      Demo,
      demoHandlers({ echo: (payload) => payload.subarray(0, payload.length / 2) }),
    );
    const demo = pair.near.client(Demo);
    expect(await demo.echo(new Uint8Array(4096))).toHaveLength(2048);
    await expect(demo.echo(new Uint8Array(4097))).rejects.toMatchObject({
      code: 'ERR_SIDECALL_MESSAGE_TOO_LARGE',
      status: 'resource_exhausted',
      delivered: 'no',
    });
    pair.near.serve(Demo, demoHandlers());
    await expect(pair.far.client(Demo).echo(new Uint8Array(2049))).rejects.toMatchObject({
      code: 'ERR_SIDECALL_MESSAGE_TOO_LARGE',
    });
    const tooLong = service('Big', { answer: unary<void, string>() });
    pair.far.serve(tooLong, { answer: () => 'x'.repeat(5000) });
    await expect(pair.near.client(tooLong).answer()).rejects.toMatchObject({
      code: 'ERR_SIDECALL_RPC',
      status: 'resource_exhausted',
    });
    expect(await demo.add({ a: 1, b: 2 })).toEqual({ sum: 3 });
  });

  it('bounds metadata by bytes and entries', async () => {
    await using pair = await openPair({ far: { metadataMaxBytes: 100 } });
    pair.far.serve(Demo, demoHandlers());
    const demo = pair.near.client(Demo);
    const tooMuch = { metadata: { key: 'v'.repeat(100) } };
    const failure = { code: 'ERR_SIDECALL_MESSAGE_TOO_LARGE', delivered: 'no' };
    await expect(demo.same(1, tooMuch)).rejects.toMatchObject(failure);
    expect(await demo.same(1, { metadata: { key: 'v'.repeat(80) } })).toBe(1);
    const badKeys = [{ 'UP-per': 'x' }, { ü: 'x' }, { '': 'x' }, { 'a-bin': 'text' }];
    for (const metadata of badKeys) {
      await expect(demo.same(1, { metadata } as never)).rejects.toThrow(TypeError);
    }
  });
});
