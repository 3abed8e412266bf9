import { describe, expect, it } from 'vitest';
import { RpcError, SidecallError } from '../../src/base/errors.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import type { CallContext } from '../../src/rpc/contract/call-context.ts';
import { notification, service, unary } from '../../src/rpc/contract/service.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { Desk, defer, deskHandlers, turns, until } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

describe.each(lanes)('a session over the $lane', ({ openPair }) => {
  it('U23 D11 calls in both directions at once, out of order', async () => {
    await using pair = await openPair();
    pair.near.serve(Desk, deskHandlers());
    pair.far.serve(Desk, deskHandlers());
    const sums = async (session: Session, from: number): Promise<number[]> => {
      const desk = session.client(Desk);
      const calls = Array.from({ length: 500 }, (_, a) => desk.add({ a, b: from }));
      return (await Promise.all(calls)).map(({ sum }) => sum);
    };
    const [near, far] = await Promise.all([sums(pair.near, 0), sums(pair.far, 1000)]);
    expect(near).toEqual(Array.from({ length: 500 }, (_, a) => a));
    expect(far).toEqual(Array.from({ length: 500 }, (_, a) => a + 1000));
  });

  it('U23 one slow call does not hold the others', async () => {
    await using pair = await openPair();
    const slow = defer<{ sum: number }>();
    pair.far.serve(Desk, deskHandlers({ add: ({ a }) => (a === 0 ? slow.promise : { sum: a }) }));
    const desk = pair.near.client(Desk);
    const first = desk.add({ a: 0, b: 0 });
    expect(await desk.add({ a: 5, b: 0 })).toEqual({ sum: 5 });
    slow.resolve({ sum: -1 });
    expect(await first).toEqual({ sum: -1 });
  });

  it('U16 D8 carries messages of every size around the fragment, empty ones too', async () => {
    await using pair = await openPair();
    pair.far.serve(Desk, deskHandlers());
    const desk = pair.near.client(Desk);
    const fragment = 65_536;
    const sizes = [0, 1, 3, fragment - 1, fragment, fragment + 1, 2 * fragment, 1_000_003];
    for (const size of sizes) {
      const payload = Buffer.alloc(size, 1);
      for (let at = 0; at < size; at += 997) payload[at] = at % 251;
      const answer = await desk.echo(payload);
      expect(Buffer.compare(answer, payload), `${size} bytes`).toBe(0);
    }
  });

  it('D14 gives the receiver bytes of its own', async () => {
    await using pair = await openPair();
    const kept: Uint8Array[] = [];
    pair.far.serve(
      Desk,
      deskHandlers({
        echo: (payload) => {
          kept.push(payload);
          return payload;
        },
      }),
    );
    const desk = pair.near.client(Desk);
    for (let value = 0; value < 50; value += 1) await desk.echo(new Uint8Array(100).fill(value));
    kept.forEach((payload, value) => expect(payload.every((byte) => byte === value)).toBe(true));
  });

  it('carries nothing as nothing, and Unicode as it is', async () => {
    await using pair = await openPair();
    pair.far.serve(Desk, deskHandlers());
    const desk = pair.near.client(Desk);
    expect(await desk.same(undefined)).toBeUndefined();
    expect(await desk.same(null)).toBeNull();
    const text = 'ü€😀'.repeat(30_000);
    expect(await desk.same({ text })).toEqual({ text });
  });

  it('U28 U32 tells the caller what the handler said, and nothing else', async () => {
    const events: SidecallEvent[] = [];
    await using pair = await openPair({ onFarEvent: (event) => events.push(event) });
    const said = new RpcError('not_found', '100 % of "ü" is gone', {
      details: { id: 7 },
      metadata: { hint: 'look elsewhere' },
    });
    const throwers: Record<string, () => unknown> = {
      rpc: () => {
        throw said;
      },
      sync: () => {
        throw new Error('/home/secret/path.ts:1');
      },
      async: () => Promise.reject(new Error('secret')),
      text: () => {
        throw 'secret';
      },
      nothing: () => Promise.reject(undefined),
    };
    pair.far.serve(Desk, deskHandlers({ fail: (how) => throwers[how]?.() as undefined }));
    const desk = pair.near.client(Desk);
    const failure = await desk.fail('rpc').catch((error: unknown) => error);
    expect(RpcError.is(failure)).toBe(true);
    expect(failure).toMatchObject({
      code: 'ERR_SIDECALL_RPC',
      status: 'not_found',
      delivered: 'yes',
      message: 'Desk.fail: 100 % of "ü" is gone',
      details: { id: 7 },
      metadata: { hint: 'look elsewhere' },
    });
    for (const how of ['sync', 'async', 'text', 'nothing']) {
      const error = (await desk.fail(how).catch((reason: unknown) => reason)) as RpcError;
      expect(error).toMatchObject({ status: 'internal', details: undefined });
      expect(`${error.message}${JSON.stringify(error)}`, 'row 71').not.toContain('secret');
    }
    const failed = events.filter(({ type }) => type === 'handler-failed');
    expect(failed).toHaveLength(4);
    expect(String((failed[0]?.error.cause as Error).message)).toContain('secret');
  });

  it('U25 row 64 answers unknown methods with unimplemented, whatever their name', async () => {
    await using pair = await openPair();
    pair.far.serve(Desk, deskHandlers());
    for (const name of ['toString', 'constructor', '__proto__', 'Desk.none', 'Desk']) {
      await expect(pair.near.call(name, {})).rejects.toMatchObject({
        code: 'ERR_SIDECALL_RPC',
        status: 'unimplemented',
        message: expect.stringContaining(name),
      });
    }
    await expect(pair.near.call('Desk.log', 'x')).rejects.toMatchObject({
      status: 'unimplemented',
    });
  });

  it('serves more while calls are running', async () => {
    await using pair = await openPair();
    pair.far.serve(Desk, deskHandlers());
    await expect(pair.near.call('Late.hello')).rejects.toMatchObject({ status: 'unimplemented' });
    pair.far.serve(service('Late', { hello: unary<void, string>() }), { hello: () => 'hi' });
    expect(await pair.near.call('Late.hello')).toBe('hi');
  });

  it('row 61 keeps __proto__ an own key and prototypes untouched', async () => {
    await using pair = await openPair();
    const seen = defer<unknown>();
    pair.far.serve(
      Desk,
      deskHandlers({
        same: (value) => {
          seen.resolve(value);
          return undefined;
        },
      }),
    );
    const hostile = JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"x":1}}}');
    await pair.near.client(Desk).same(hostile);
    expect(Object.hasOwn((await seen.promise) as object, '__proto__')).toBe(true);
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });

  it('row 62 refuses JSON that is broken, too deep or not UTF-8, within the call', async () => {
    await using pair = await openPair();
    pair.far.serve(Desk, deskHandlers());
    const raw = service('Desk', { same: unary<string, unknown>({ request: textAsIs }) });
    const desk = pair.near.client(raw);
    const deep = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
    await expect(desk.same(deep(64))).resolves.toBeDefined();
    for (const text of ['{', '{"a":}', deep(65), deep(10_000), '\u0000', '"\\']) {
      await expect(desk.same(text)).rejects.toMatchObject({ status: 'invalid_argument' });
    }
    await expect(desk.same(`${JSON.stringify(deep(70))}`)).resolves.toBe(deep(70));
    const bytesAsIs = service('Desk', {
      same: unary<Uint8Array, unknown>({ request: binaryAsIs }),
    });
    const notUtf8 = pair.near.client(bytesAsIs).same(new Uint8Array([0x22, 0xff, 0xfe, 0x22]));
    await expect(notUtf8).rejects.toMatchObject({ status: 'invalid_argument' });
    expect(await pair.near.client(Desk).add({ a: 1, b: 1 }), 'the session lives').toEqual({
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
    pair.far.serve(Desk, deskHandlers({ same: (value) => answers[value as string] }));
    const desk = pair.near.client(Desk);
    for (const name of Object.keys(answers)) {
      await expect(desk.same(answers[name])).rejects.toMatchObject({
        code: 'ERR_SIDECALL_ENCODE',
        delivered: 'no',
      });
      await expect(desk.same(name)).rejects.toMatchObject({ status: 'internal' });
    }
    expect(events).toHaveLength(4);
    expect(await desk.same('none')).toBeUndefined();
  });

  it('DECODE: an answer that cannot be decoded fails that call, without payload in its words', async () => {
    await using pair = await openPair();
    pair.far.serve(Desk, deskHandlers());
    const picky = service('Desk', { same: unary<string, unknown>({ response: neverDecodes }) });
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
    expect(await pair.near.client(Desk).same(1)).toBe(1);
  });

  it('carries metadata, headers and trailers both ways', async () => {
    await using pair = await openPair();
    let context: CallContext | undefined;
    pair.far.serve(
      Desk,
      deskHandlers({
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
    const desk = pair.near.client(Desk);
    await desk.same('x', {
      metadata: { trace: 'ü', 'key-bin': new Uint8Array([0, 255]) },
      onHeaders: (metadata) => heard.push({ ...metadata }),
      onTrailers: (metadata) => heard.push({ ...metadata }),
    });
    expect(heard).toEqual([{ stage: 'begun' }, { rows: '3' }]);
    expect({ ...context?.metadata }).toEqual({ trace: 'ü', 'key-bin': new Uint8Array([0, 255]) });
    expect(context).toMatchObject({
      method: 'Desk.same',
      deadline: undefined,
      peer: pair.far.peer,
    });
    const failed = desk.fail('', { onTrailers: (metadata) => heard.push({ ...metadata }) });
    await expect(failed).rejects.toMatchObject({ metadata: { why: 'because', rows: '0' } });
  });

  it('U17 takes messages of exactly the limit and refuses one byte more, in both roles', async () => {
    await using pair = await openPair({
      near: { receiveMaxBytes: 2048 },
      far: { receiveMaxBytes: 4096 },
    });
    pair.far.serve(
      Desk,
      deskHandlers({ echo: (payload) => payload.subarray(0, payload.length / 2) }),
    );
    const desk = pair.near.client(Desk);
    expect(await desk.echo(new Uint8Array(4096))).toHaveLength(2048);
    await expect(desk.echo(new Uint8Array(4097))).rejects.toMatchObject({
      code: 'ERR_SIDECALL_MESSAGE_TOO_LARGE',
      status: 'resource_exhausted',
      delivered: 'no',
    });
    pair.near.serve(Desk, deskHandlers());
    await expect(pair.far.client(Desk).echo(new Uint8Array(2049))).rejects.toMatchObject({
      code: 'ERR_SIDECALL_MESSAGE_TOO_LARGE',
    });
    const tooLong = service('Big', { answer: unary<void, string>() });
    pair.far.serve(tooLong, { answer: () => 'x'.repeat(5000) });
    await expect(pair.near.client(tooLong).answer()).rejects.toMatchObject({
      code: 'ERR_SIDECALL_RPC',
      status: 'resource_exhausted',
    });
    expect(await desk.add({ a: 1, b: 2 })).toEqual({ sum: 3 });
  });

  it('row 69 bounds metadata by bytes and entries', async () => {
    await using pair = await openPair({ far: { metadataMaxBytes: 100 } });
    pair.far.serve(Desk, deskHandlers());
    const desk = pair.near.client(Desk);
    const tooMuch = { metadata: { key: 'v'.repeat(100) } };
    const failure = { code: 'ERR_SIDECALL_MESSAGE_TOO_LARGE', delivered: 'no' };
    await expect(desk.same(1, tooMuch)).rejects.toMatchObject(failure);
    expect(await desk.same(1, { metadata: { key: 'v'.repeat(80) } })).toBe(1);
    const badKeys = [{ 'UP-per': 'x' }, { ü: 'x' }, { '': 'x' }, { 'a-bin': 'text' }];
    for (const metadata of badKeys) {
      await expect(desk.same(1, { metadata } as never)).rejects.toThrow(TypeError);
    }
  });

  it('rejects misuse of options at once', async () => {
    await using pair = await openPair();
    pair.far.serve(Desk, deskHandlers());
    const desk = pair.near.client(Desk);
    for (const timeoutMs of [-1, Number.NaN, 2 ** 32, 1.5, Number.POSITIVE_INFINITY]) {
      await expect(desk.same(1, { timeoutMs })).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
      await expect(desk.same(1, { timeoutMs })).rejects.toThrow(RangeError);
    }
    await expect(desk.same(1, { timeoutMS: 5 } as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_VALUE',
    });
    await expect(desk.same(1, { signal: 'no' } as never)).rejects.toThrow(TypeError);
    await expect(desk.same(1, { onHeaders: 5 } as never)).rejects.toThrow(TypeError);
    await expect(desk.same(1, { onTrailers: {} } as never)).rejects.toThrow(TypeError);
    await expect(desk.same(1, { timeoutMs: 0 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      delivered: 'no',
    });
    const reason = new Error('enough');
    await expect(desk.same(1, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    await expect(pair.near.call('')).rejects.toThrow(TypeError);
    await expect(pair.near.call('x'.repeat(257))).rejects.toThrow(TypeError);
    expect(pair.near.stats().calls).toEqual({ open: 0, waiting: 0 });
  });

  it('U25 throws for handlers that are missing or served twice, and then serves none of them', async () => {
    await using pair = await openPair();
    expect(() => pair.far.serve(Desk, { add: () => ({ sum: 0 }) } as never)).toThrow(TypeError);
    pair.far.serve(service('Other', { get: unary<void, void>() }), { get: () => undefined });
    await expect(pair.near.client(Desk).add({ a: 1, b: 1 })).rejects.toMatchObject({
      status: 'unimplemented',
    });
    pair.far.serve(Desk, deskHandlers());
    expect(() => pair.far.serve(Desk, deskHandlers())).toThrow(TypeError);
    expect(() => service('', {})).toThrow(TypeError);
    expect(() => service('X', undefined as never)).toThrow(TypeError);
    expect(() => unary({ request: 'json' as never })).toThrow(TypeError);
    expect(() => pair.far.serve(undefined as never, {})).toThrow(TypeError);
    expect(() => pair.far.serve(Desk, undefined as never)).toThrow(TypeError);
    expect(() => pair.near.client({} as never)).toThrow(TypeError);
    expect(() => service('X', { y: {} as never })).toThrow(TypeError);
    expect(() => service('X', { ['y'.repeat(300)]: unary() })).toThrow(TypeError);
  });

  it('notifications arrive in order, and those of unknown methods are events', async () => {
    const events: SidecallEvent[] = [];
    await using pair = await openPair({ onNearEvent: (event) => events.push(event) });
    const lines: string[] = [];
    pair.far.serve(Desk, deskHandlers({ log: (line) => void lines.push(line) }));
    const desk = pair.near.client(Desk);
    for (let at = 0; at < 100; at += 1) await desk.log(String(at));
    await until(() => lines.length === 100);
    expect(lines).toEqual(Array.from({ length: 100 }, (_, at) => String(at)));
    await pair.near.notify('Desk.none', 1);
    await until(() => events.length === 1);
    expect(events[0]).toMatchObject({
      type: 'notification-failed',
      method: 'Desk.none',
      error: { status: 'unimplemented' },
    });
  });

  it('a notification holds its place until its handler settled; await waits for the place', async () => {
    await using pair = await openPair({ far: { streamsMax: 2 } });
    const gate = defer();
    let begun = 0;
    pair.far.serve(
      Desk,
      deskHandlers({
        log: () => {
          begun += 1;
          return gate.promise;
        },
      }),
    );
    const desk = pair.near.client(Desk);
    await Promise.all([desk.log('1'), desk.log('2')]);
    let isAdmitted = false;
    const third = desk.log('3').then(() => {
      isAdmitted = true;
    });
    await until(() => begun === 2);
    await turns(20);
    expect(isAdmitted).toBe(false);
    expect(pair.near.stats().calls).toEqual({ open: 2, waiting: 1 });
    gate.resolve();
    await third;
    await until(() => begun === 3);
  });

  it('row 66 bounds calls in flight by what the peer announced; the others wait, in order', async () => {
    await using pair = await openPair({ far: { streamsMax: 4 } });
    let most = 0;
    let running = 0;
    const order: number[] = [];
    pair.far.serve(
      Desk,
      deskHandlers({
        add: async ({ a }) => {
          running += 1;
          most = Math.max(most, running);
          order.push(a);
          await turns(3);
          running -= 1;
          return { sum: a };
        },
      }),
    );
    const desk = pair.near.client(Desk);
    const calls = Array.from({ length: 64 }, (_, a) => desk.add({ a, b: 0 }));
    await Promise.all(calls);
    expect(most).toBe(4);
    expect(order).toEqual(Array.from({ length: 64 }, (_, a) => a));
  });

  it('a call that waits keeps its deadline and its signal', async () => {
    await using pair = await openPair({ far: { streamsMax: 1 } });
    pair.far.serve(Desk, deskHandlers());
    const desk = pair.near.client(Desk);
    const stop = new AbortController();
    const holder = desk.hang(undefined, { signal: stop.signal });
    const late = desk.add({ a: 1, b: 1 }, { timeoutMs: 20 });
    const aborted = new AbortController();
    const cancelled = desk.add({ a: 1, b: 1 }, { signal: aborted.signal });
    aborted.abort(new Error('mine'));
    await expect(cancelled).rejects.toThrow('mine');
    await expect(late).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      delivered: 'no',
    });
    stop.abort();
    await expect(holder).rejects.toBeDefined();
    expect(await desk.add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  });

  it('the send queue and the windows bound what is under way', async () => {
    const small = {
      receiveMaxBytes: 65_536,
      streamWindowBytes: 16_384,
      sessionWindowBytes: 163_840,
    };
    await using pair = await openPair({
      near: { ...small, sendQueueMaxBytes: 65_536 },
      far: small,
    });
    const gate = defer();
    let got = 0;
    pair.far.serve(
      Desk,
      deskHandlers({
        log: async () => {
          got += 1;
          await gate.promise;
        },
      }),
    );
    const desk = pair.near.client(Desk);
    let admitted = 0;
    const line = 'x'.repeat(10_000);
    const all = Array.from({ length: 200 }, () => desk.log(line).then(() => void (admitted += 1)));
    await until(() => got > 1);
    await turns(50);
    // Notifications are one stream: 16,384 bytes of window, and one message beyond.
    expect(admitted).toBe(2);
    expect(got).toBe(2);
    gate.resolve();
    await Promise.all(all);
    await until(() => got === 200);
  });

  it('row 70 keeps sessions apart', async () => {
    const pairs = await Promise.all(Array.from({ length: 8 }, () => openPair()));
    await Promise.all(
      pairs.map(async (pair, tag) => {
        pair.far.serve(Desk, deskHandlers({ same: (value) => ({ tag, value }) }));
        const desk = pair.near.client(Desk);
        const answers = await Promise.all(Array.from({ length: 300 }, (_, at) => desk.same(at)));
        answers.forEach((answer, value) => expect(answer).toEqual({ tag, value }));
      }),
    );
    await Promise.all(pairs.map((pair) => pair[Symbol.asyncDispose]()));
  });

  it('kinds of a method do not mix', async () => {
    const events: SidecallEvent[] = [];
    await using pair = await openPair({ onNearEvent: (event) => events.push(event) });
    pair.far.serve(service('S', { note: notification<string>() }), { note: () => undefined });
    pair.far.serve(service('T', { call: unary<void, number>() }), { call: () => 1 });
    await expect(pair.near.call('S.note', 'x')).rejects.toMatchObject({ status: 'unimplemented' });
    await pair.near.notify('T.call');
    await until(() => events.length === 1);
    expect(SidecallError.is(events[0]?.error)).toBe(true);
  });
});

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
