import { describe, expect, it } from 'vitest';
import { SidecallError } from '../../src/base/errors.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { notification, service, unary } from '../../src/rpc/contract/service.ts';
import { Demo, defer, demoHandlers, turns, until } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

describe.each(lanes)('the bounds of a session over the $lane', ({ openPair }) => {
  it('rejects misuse of options at once', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const demo = pair.near.client(Demo);
    for (const timeoutMs of [-1, Number.NaN, 2 ** 32, 1.5, Number.POSITIVE_INFINITY]) {
      await expect(demo.same(1, { timeoutMs })).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
      await expect(demo.same(1, { timeoutMs })).rejects.toThrow(RangeError);
    }
    await expect(demo.same(1, { timeoutMS: 5 } as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_VALUE',
    });
    await expect(demo.same(1, { signal: 'no' } as never)).rejects.toThrow(TypeError);
    await expect(demo.same(1, { onHeaders: 5 } as never)).rejects.toThrow(TypeError);
    await expect(demo.same(1, { onTrailers: {} } as never)).rejects.toThrow(TypeError);
    await expect(demo.same(1, { timeoutMs: 0 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      delivered: 'no',
    });
    const reason = new Error('enough');
    await expect(demo.same(1, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    await expect(pair.near.call('')).rejects.toThrow(TypeError);
    await expect(pair.near.call('x'.repeat(257))).rejects.toThrow(TypeError);
    expect(pair.near.stats().calls).toEqual({ open: 0, waiting: 0 });
  });

  it('throws for handlers that are missing or served twice, and then serves none of them', async () => {
    await using pair = await openPair();
    expect(() => pair.far.serve(Demo, { add: () => ({ sum: 0 }) } as never)).toThrow(TypeError);
    pair.far.serve(service('Other', { get: unary<void, void>() }), { get: () => undefined });
    await expect(pair.near.client(Demo).add({ a: 1, b: 1 })).rejects.toMatchObject({
      status: 'unimplemented',
    });
    pair.far.serve(Demo, demoHandlers());
    expect(() => pair.far.serve(Demo, demoHandlers())).toThrow(TypeError);
    expect(() => service('', {})).toThrow(TypeError);
    expect(() => service('X', undefined as never)).toThrow(TypeError);
    expect(() => unary({ request: 'json' as never })).toThrow(TypeError);
    expect(() => pair.far.serve(undefined as never, {})).toThrow(TypeError);
    expect(() => pair.far.serve(Demo, undefined as never)).toThrow(TypeError);
    expect(() => pair.near.client({} as never)).toThrow(TypeError);
    expect(() => service('X', { y: {} as never })).toThrow(TypeError);
    expect(() => service('X', { ['y'.repeat(300)]: unary() })).toThrow(TypeError);
  });

  it('parses no more parts than jsonMaxBytes says, however long they are, and counts no bytes', async () => {
    await using pair = await openPair({
      near: { jsonMaxBytes: 10_000 },
      far: { jsonMaxBytes: 10_000 },
    });
    pair.far.serve(Demo, demoHandlers({ same: (value) => value }));
    const demo = pair.near.client(Demo);
    // Each item has an object and a key, in 8 bytes.
    const items = (count: number): object[] => Array.from({ length: count }, () => ({ a: 1 }));
    expect(await demo.same(items(1_249))).toHaveLength(1_249);
    await expect(demo.same(items(1_251))).rejects.toMatchObject({
      status: 'invalid_argument',
      message: expect.stringContaining('limits.jsonMaxBytes'),
    });
    const long = [{ text: `"{[:"\\`.repeat(100_000), numbers: Array(15_000).fill(1.5) }];
    expect(await demo.same(long)).toEqual(long);
    const text = 'x'.repeat(10);
    const kinds: Record<string, (count: number) => unknown> = {
      numbers: (count) => Array(16 * count).fill(1),
      strings: (count) => Array(1.75 * count).fill(text),
      keys: (count) => Object.fromEntries(Array.from({ length: count }, (_, at) => [text + at, 1])),
      arrays: (count) => [' '.repeat(10_000), ...Array(count).fill([])],
    };
    for (const [kind, of] of Object.entries(kinds)) {
      const few = of(1_160);
      expect(await demo.same(few), kind).toEqual(few);
      const refused = expect(demo.same(of(1_280)), kind).rejects;
      await refused.toMatchObject({ message: expect.stringContaining('limits.jsonMaxBytes') });
    }
    const image = new Uint8Array(1_000_000);
    expect(await demo.same({ image })).toEqual({ image });
    pair.far.serve(service('Long', { get: unary<void, object[]>() }), { get: () => items(1_251) });
    const answering = pair.near.client(service('Long', { get: unary<void, object[]>() }));
    await expect(answering.get()).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DECODE',
      delivered: 'yes',
      message: expect.stringContaining('limits.jsonMaxBytes'),
    });
    expect(await demo.same(1)).toBe(1);
  });

  it('notifications arrive in order, and those of unknown methods are events', async () => {
    const events: SidecallEvent[] = [];
    await using pair = await openPair({ onNearEvent: (event) => events.push(event) });
    const lines: string[] = [];
    pair.far.serve(Demo, demoHandlers({ log: (line) => void lines.push(line) }));
    const demo = pair.near.client(Demo);
    for (let at = 0; at < 100; at += 1) await demo.log(String(at));
    await until(() => lines.length === 100);
    expect(lines).toEqual(Array.from({ length: 100 }, (_, at) => String(at)));
    await pair.near.notify('Demo.none', 1);
    await until(() => events.length === 1);
    expect(events[0]).toMatchObject({
      type: 'notification-failed',
      method: 'Demo.none',
      error: { status: 'unimplemented' },
    });
  });

  it('a notification holds its place until its handler settled; await waits for the place', async () => {
    await using pair = await openPair({ far: { streamsMax: 2 } });
    const gate = defer();
    let begun = 0;
    pair.far.serve(
      Demo,
      demoHandlers({
        log: () => {
          begun += 1;
          return gate.promise;
        },
      }),
    );
    const demo = pair.near.client(Demo);
    await Promise.all([demo.log('1'), demo.log('2')]);
    let isAdmitted = false;
    const third = demo.log('3').then(() => {
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

  it('bounds calls in flight by what the peer announced; the others wait, in order', async () => {
    await using pair = await openPair({ far: { streamsMax: 4 } });
    let most = 0;
    let running = 0;
    const order: number[] = [];
    pair.far.serve(
      Demo,
      demoHandlers({
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
    const demo = pair.near.client(Demo);
    const calls = Array.from({ length: 64 }, (_, a) => demo.add({ a, b: 0 }));
    await Promise.all(calls);
    expect(most).toBe(4);
    expect(order).toEqual(Array.from({ length: 64 }, (_, a) => a));
  });

  it('a call that waits keeps its deadline and its signal', async () => {
    await using pair = await openPair({ far: { streamsMax: 1 } });
    pair.far.serve(Demo, demoHandlers());
    const demo = pair.near.client(Demo);
    const stop = new AbortController();
    const holder = demo.hang(undefined, { signal: stop.signal });
    const late = demo.add({ a: 1, b: 1 }, { timeoutMs: 20 });
    const aborted = new AbortController();
    const cancelled = demo.add({ a: 1, b: 1 }, { signal: aborted.signal });
    aborted.abort(new Error('mine'));
    await expect(cancelled).rejects.toThrow('mine');
    await expect(late).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      delivered: 'no',
    });
    stop.abort();
    await expect(holder).rejects.toBeDefined();
    expect(await demo.add({ a: 1, b: 1 })).toEqual({ sum: 2 });
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
      Demo,
      demoHandlers({
        log: async () => {
          got += 1;
          await gate.promise;
        },
      }),
    );
    const demo = pair.near.client(Demo);
    let admitted = 0;
    const line = 'x'.repeat(10_000);
    const all = Array.from({ length: 200 }, () => demo.log(line).then(() => void (admitted += 1)));
    await until(() => got > 1);
    await turns(50);
    // Notifications are one stream: 16,384 bytes of window, and one message beyond.
    expect(admitted).toBe(2);
    expect(got).toBe(2);
    gate.resolve();
    await Promise.all(all);
    await until(() => got === 200);
  });

  it('keeps sessions apart', async () => {
    const pairs = await Promise.all(Array.from({ length: 8 }, () => openPair()));
    await Promise.all(
      pairs.map(async (pair, tag) => {
        pair.far.serve(Demo, demoHandlers({ same: (value) => ({ tag, value }) }));
        const demo = pair.near.client(Demo);
        const answers = await Promise.all(Array.from({ length: 300 }, (_, at) => demo.same(at)));
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
