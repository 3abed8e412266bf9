// sidecall/electron under a stub of Electron's main process: main and page run their own code, the
// ports are real.
import { describe, expect, it, vi } from 'vitest';
import { connectMain } from '../../src/adapters/electron/renderer.ts';
import { RpcError } from '../../src/base/errors.ts';
import * as browser from '../../src/browser.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import {
  bidi,
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from '../../src/rpc/contract/service.ts';
import { turns, until } from '../support/contract.ts';
import { bench, connected, failureOf, Search } from '../support/electron-bench.ts';

describe('a page', () => {
  it('calls what main allows, of every kind', async () => {
    await using main = bench();
    const connection = await connected(main.page);
    expect(connection.maxInFlight).toBe(16);
    const search = connection.client(Search);
    expect(await search.query({ text: 'four' })).toEqual({ hits: 4 });
    await search.note('a note');
    await until(() => main.noted.notes.length === 1);
    const listed: number[] = [];
    for await (const number of search.list({ to: 100 })) listed.push(number);
    expect(listed).toEqual(Array.from({ length: 100 }, (_, at) => at));
    expect(await search.sum([1, 2, 3])).toBe(6);
    const sum = search.sum();
    for (let at = 0; at < 100; at += 1) await sum.send(at);
    expect(await sum.end()).toBe(4950);
    const seen: unknown[] = [];
    const options = {
      onHeaders: (headers: object) => void seen.push(headers),
      onTrailers: (trailers: object) => void seen.push(trailers),
    };
    const chat = search.chat(options);
    await chat.send('hello');
    expect((await chat.next()).value).toBe('HELLO');
    await chat.end();
    expect((await chat.next()).done).toBe(true);
    expect(seen).toEqual([{ room: 'one' }, { left: 'yes' }]);
    const all: string[] = [];
    for await (const text of search.chat(['a', 'b'])) all.push(text);
    expect(all).toEqual(['A', 'B']);
    connection.close();
    expect(await connection.closed).toBeUndefined();
    await until(() => main.exposure.connections === 0);
    expect((await failureOf(search.query({ text: '' }))).code).toBe('ERR_SIDECALL_CLOSED');
  });

  it('sends and gets bytes, and of memory that it has no part in nothing', async () => {
    await using main = bench();
    const search = (await connected(main.page)).client(Search);
    const { data, parts } = await search.blob({ size: 100 });
    expect(String.fromCharCode(...data)).toBe('x'.repeat(100));
    // Buffers lie in memory of 8 KiB that they share: a clone would show it all.
    for (const each of [data, ...parts]) {
      expect(each).toBeInstanceOf(Uint8Array);
      expect(each.buffer.byteLength).toBe(each.byteLength);
    }
    const raw = await search.raw(new Uint8Array([1, 2]));
    expect([...raw]).toEqual([2, 3]);
    expect(raw.buffer.byteLength).toBe(2);
  });

  it('hears what a handler said, and not what it threw', async () => {
    await using main = bench();
    const search = (await connected(main.page)).client(Search);
    const said = await failureOf(search.fail({ kind: 'rpc' }));
    expect(RpcError.is(said)).toBe(true);
    expect(said).toMatchObject({ status: 'not_found', details: { page: 7 }, metadata: { a: 'b' } });
    expect(said.message).toContain('no such page');
    const thrown = await failureOf(search.fail({ kind: 'other' }));
    expect(thrown.status).toBe('internal');
    expect(thrown.message).not.toContain('secret');
  });

  it('gives up by signal and by time, and the handler hears of it', async () => {
    await using main = bench();
    const search = (await connected(main.page)).client(Search, { timeoutMs: 60_000 });
    const aborter = new AbortController();
    const reason = new Error('the user left');
    const given = failureOf(search.hang(undefined, { signal: aborter.signal }));
    await until(() => main.pair.far.stats().handlers.running === 1);
    aborter.abort(reason);
    expect(await given).toBe(reason);
    await until(() => main.noted.reasons.length === 1);
    await until(() => main.pair.far.stats().handlers.running === 0);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const late = failureOf(search.hang(undefined, { timeoutMs: 30_000 }));
    while (main.pair.far.stats().handlers.running === 0) await turns();
    vi.advanceTimersByTime(30_000);
    vi.useRealTimers();
    expect((await late).code).toBe('ERR_SIDECALL_DEADLINE_EXCEEDED');
    await until(() => main.noted.reasons.length === 2);
    const before = failureOf(search.hang(undefined, { signal: aborter.signal }));
    expect(await before).toBe(reason);
    expect((await search.query({ text: 'abc' })).hits).toBe(3);
  });

  it('that stands still holds the handler back, and leaving the loop ends it', async () => {
    await using main = bench();
    const search = (await connected(main.page)).client(Search);
    const stream = search.list({ to: 1_000_000 });
    await stream.next();
    let before = -1;
    await until(async () => {
      await new Promise((resolve) => setTimeout(resolve, 50));
      const isStill = before === main.noted.listed;
      before = main.noted.listed;
      return isStill;
    });
    expect(main.noted.listed).toBeLessThan(20_000);
    await stream.return?.();
    await until(() => main.noted.reasons.length === 1);
    expect(main.pair.near.stats().calls.open).toBe(0);
  });

  it('sends no faster than the handler takes', async () => {
    await using main = bench();
    const connection = await connected(main.page);
    const Slow = service('Slow', { sum: clientStream<number, number>() });
    main.pair.far.serve(Slow, {
      async sum(numbers) {
        await new Promise((resolve) => setTimeout(resolve, 200));
        let sum = 0;
        for await (const number of numbers) sum += number;
        return sum;
      },
    });
    const refused = await failureOf(connection.client(Slow).sum([1]));
    expect(refused).toMatchObject({ status: 'permission_denied' });
    connection.close();
    const other = bench({ allow: ['Slow.sum'] });
    other.pair.far.serve(Slow, {
      sum: () => new Promise(() => undefined),
    });
    const call = (await connected(other.page)).client(Slow).sum();
    let sent = 0;
    void (async () => {
      for (;;) {
        await call.send(sent);
        sent += 1;
      }
    })().catch(() => undefined);
    await until(() => sent > 0);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(sent).toBeLessThan(20_000); // nobody takes them: windows are all that fills
    other.exposure.close();
    other.pair.cut();
  });

  it('may call nothing else, nor by another kind', async () => {
    await using main = bench({ allow: ['Search.query'] });
    const connection = await connected(main.page);
    const search = connection.client(Search);
    expect(await search.query({ text: 'ok' })).toEqual({ hits: 2 });
    expect((await failureOf(search.fail({ kind: 'rpc' }))).message).toContain('not allowed');
    const Health = service('sidecall.Health', { check: unary() });
    expect((await failureOf(connection.client(Health).check())).status).toBe('permission_denied');
    const Other = service('Search', { query: serverStream<object, object>() });
    const stream = connection.client(Other).query({ text: 'x' });
    expect((await failureOf(stream.next())).status).toBe('unimplemented');
    await using contract = bench();
    const streamed = (await connected(contract.page)).client(Other).query({ text: 'x' });
    expect((await failureOf(streamed.next())).message).toContain('of kind unary');
  });

  it('has so many calls under way, and the others wait', async () => {
    await using main = bench({ maxInFlight: 2 });
    const connection = await connected(main.page);
    const search = connection.client(Search);
    const aborter = new AbortController();
    const hanging = [1, 2].map(() => failureOf(search.hang(undefined, { signal: aborter.signal })));
    await until(() => main.pair.near.stats().calls.open === 2);
    const more = Array.from({ length: 50 }, () => search.query({ text: '' }));
    const sum = search.sum([1, 2, 3]);
    const late = failureOf(search.query({ text: '' }, { timeoutMs: 20 }));
    expect((await late).code).toBe('ERR_SIDECALL_DEADLINE_EXCEEDED');
    expect(main.pair.near.stats().calls.open).toBe(2);
    aborter.abort();
    await Promise.all(hanging);
    expect(await Promise.all(more)).toHaveLength(50);
    expect(await sum).toBe(6);
    await until(() => main.pair.near.stats().calls.open === 0);
    expect(await search.query({ text: 'x' })).toEqual({ hits: 1 });
  });

  it('is told of values that cannot travel', async () => {
    await using main = bench();
    const search = (await connected(main.page)).client(Search);
    const local = await failureOf(search.query({ text: (() => 1) as never }));
    expect(local.code).toBe('ERR_SIDECALL_ENCODE');
    for (const value of [1n, new Map(), /x/, new Error('x'), new ArrayBuffer(8)]) {
      const strange = await failureOf(search.query({ text: value as never }));
      expect(strange.status).toBe('invalid_argument');
    }
    const metadata = { 'Upper Case': 'x' };
    const strange = await failureOf(search.query({ text: '' }, { metadata }));
    expect(strange.status).toBe('invalid_argument');
  });

  it('without the preload script, or of a name that is not exposed, is told what to do', async () => {
    const bare = await failureOf(connectMain());
    expect(bare).toMatchObject({ code: 'ERR_SIDECALL_NO_LISTENER', retryable: false });
    expect(bare.message).toContain('webPreferences.preload');
    await using main = bench();
    const failure = await main.page.run(() =>
      failureOf(connectMain({ name: 'nobody', timeoutMs: 30 })),
    );
    expect(failure.message).toContain("'nobody' within 30 ms");
  });
});

describe('a page that is careless', () => {
  it('is refused what main would take for a lie, and keeps its connection', async () => {
    await using main = bench();
    const connection = await connected(main.page);
    const search = connection.client(Search);
    const hanging = failureOf(search.hang());
    for (const options of [
      ...[12.5, Number.POSITIVE_INFINITY, Number.NaN, -1, '5'].map((timeoutMs) => ({ timeoutMs })),
      ...[{ metadata: 'x' }, { metadata: null }, { signal: {} }, { onHeaders: 1 }, { timeout: 1 }],
    ]) {
      const refused = await failureOf(search.query({ text: '' }, options as never));
      expect(refused, JSON.stringify(options)).toBeInstanceOf(Error);
      expect(refused.code).toMatch(/^ERR_(OUT_OF_RANGE|INVALID_ARG)/);
    }
    expect(await search.query({ text: 'ok' })).toEqual({ hits: 2 });
    expect(main.events).toEqual([]);
    connection.close();
    await hanging;
  });

  it('may end before what it sent has left', async () => {
    await using main = bench();
    const search = (await connected(main.page)).client(Search);
    const sum = search.sum();
    const sends = Array.from({ length: 100 }, () => sum.send(1));
    expect(await sum.end()).toBe(100);
    await Promise.all(sends);
    const late = await failureOf(sum.send(1));
    expect(late.code).toBe('ERR_SIDECALL_END_OF_STREAM');
  });

  it('may leave a stream quietly, and is left by a call that ends', async () => {
    await using main = bench();
    const search = (await connected(main.page)).client(Search);
    const stream = search.list({ to: 1_000_000 });
    await stream.next();
    await stream.return?.();
    expect(await stream.next()).toEqual({ done: true, value: undefined });
    const aborter = new AbortController();
    const chat = search.chat({ signal: aborter.signal });
    const pending = chat.next();
    await chat.return?.();
    expect(await pending).toEqual({ done: true, value: undefined });
    let isLeft = false;
    const endless = {
      next: () => new Promise<IteratorResult<number>>(() => undefined),
      return: async () => {
        isLeft = true;
        return { done: true as const, value: 0 };
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
    const summed = failureOf(search.sum(endless as never, { signal: aborter.signal }));
    aborter.abort();
    await summed;
    await until(() => isLeft);
  });

  it('may go on sending while a handler that has heard enough answers', async () => {
    const Brief = service('Brief', { talk: bidi<number, number>() });
    const other = bench({ allow: [Brief] });
    other.pair.far.serve(Brief, {
      async *talk() {
        for (let at = 0; at < 100; at += 1) yield at;
      },
    });
    const talk = (await connected(other.page)).client(Brief).talk();
    const stopped = failureOf(
      (async () => {
        for (;;) await talk.send(1);
      })(),
    );
    const heard: number[] = [];
    for await (const number of talk) {
      heard.push(number);
      if (heard.length % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(heard).toHaveLength(100);
    expect((await stopped).code).toBe('ERR_SIDECALL_END_OF_STREAM');
    expect(other.events).toEqual([]);
    await other[Symbol.asyncDispose]();
  });
});

describe('sidecall in a browser', () => {
  it('describes the same contracts', () => {
    const make = (from: typeof browser) =>
      from.service('Demo', {
        a: from.unary(),
        b: from.serverStream({ response: from.bytes }),
        c: from.clientStream(),
        d: from.bidi({ priority: 'bulk' }),
        e: from.notification(),
      });
    const page = make(browser);
    const own = make({
      service,
      unary,
      serverStream,
      clientStream,
      bidi,
      notification,
      bytes,
    } as never);
    const kindsOf = (each: typeof page): unknown =>
      Object.entries(each.methods).map(([name, { kind, request }]) => [
        ...[each.wireName(name as 'a'), kind, request.name],
      ]);
    expect(kindsOf(page)).toEqual(kindsOf(own));
    expect(() => page.methods.a.request.encode(1)).toThrow('structured clones');
  });
});
