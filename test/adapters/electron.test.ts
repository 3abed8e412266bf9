// sidecall/electron under a stub of Electron's main process: main and page run their own code, the
// ports are real.
import { describe, expect, it } from 'vitest';
import {
  type ExposeOptions,
  type Exposure,
  exposeToRenderer,
} from '../../src/adapters/electron/main.ts';
import { connectMain, type MainConnection } from '../../src/adapters/electron/renderer.ts';
import { RpcError, type SidecallError } from '../../src/base/errors.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import * as browser from '../../src/browser.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { leased } from '../../src/rpc/contract/leases.ts';
import type { Handlers } from '../../src/rpc/contract/method-types.ts';
import {
  bidi,
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from '../../src/rpc/contract/service.ts';
import { createSessionPair, type SessionPair } from '../../src/testing/session-pair.ts';
import { until } from '../support/contract.ts';
import {
  MessageChannelMain,
  StubFrame,
  type StubPage,
  StubWebContents,
} from '../support/electron.ts';
import { programPath } from '../support/programs.ts';

const Search = service('Search', {
  query: unary<{ text: string }, { hits: number }>(),
  blob: unary<{ size: number }, { data: Uint8Array; parts: Uint8Array[] }>(),
  raw: unary<Uint8Array, Uint8Array>({ request: bytes, response: bytes }),
  note: notification<string>(),
  list: serverStream<{ to: number }, number>(),
  sum: clientStream<number, number>(),
  chat: bidi<string, string>(),
  hang: unary<void, void>(),
  fail: unary<{ kind: string }, void>(),
});

interface Noted {
  readonly notes: string[];
  readonly reasons: unknown[];
  listed: number;
}

function handlersNoting(noted: Noted): Handlers<typeof Search.methods> {
  return {
    query: ({ text }) => ({ hits: text.length }),
    blob: ({ size }) => ({ data: Buffer.from('x'.repeat(size)), parts: [Buffer.from('part')] }),
    raw: (payload) => payload.map((byte) => byte + 1),
    note: (text) => void noted.notes.push(text),
    async *list({ to }, { signal }) {
      try {
        for (let at = 0; at < to; at += 1) {
          noted.listed += 1;
          yield at;
        }
      } finally {
        if (signal.aborted) noted.reasons.push(signal.reason);
      }
    },
    async sum(numbers) {
      let sum = 0;
      for await (const number of numbers) sum += number;
      return sum;
    },
    async *chat(texts, ctx) {
      ctx.sendHeaders({ room: 'one' });
      ctx.trailers = { left: 'yes' };
      for await (const text of texts) yield text.toUpperCase();
    },
    hang: (_, { signal }) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          noted.reasons.push((signal.reason as SidecallError).code);
          resolve();
        });
      }),
    fail: ({ kind }) => {
      if (kind === 'rpc') {
        throw new RpcError('not_found', 'no such page', {
          details: { page: 7 },
          metadata: { a: 'b' },
        });
      }
      throw new Error('/etc/secret');
    },
  };
}

interface Bench extends AsyncDisposable {
  readonly contents: StubWebContents;
  readonly pair: SessionPair;
  readonly exposure: Exposure;
  readonly events: SidecallEvent[];
  readonly noted: Noted;
  readonly page: StubPage;
}

function bench(options: Partial<ExposeOptions> = {}): Bench {
  const contents = new StubWebContents();
  const pair = createSessionPair();
  const noted: Noted = { notes: [], reasons: [], listed: 0 };
  pair.far.serve(Search, handlersNoting(noted));
  const events: SidecallEvent[] = [];
  const exposure = exposeToRenderer(contents, pair.near, {
    MessageChannelMain,
    allow: [Search],
    onEvent: (event) => void events.push(event),
    ...options,
  });
  const page = contents.navigate();
  const dispose = async (): Promise<void> => {
    exposure.close();
    await pair.close();
  };
  return { contents, pair, exposure, events, noted, page, [Symbol.asyncDispose]: dispose };
}

function connected(page: StubPage, name?: string): Promise<MainConnection> {
  return page.run(() => connectMain({ name, timeoutMs: 5_000 }));
}

async function failureOf(promise: Promise<unknown>): Promise<SidecallError> {
  try {
    await promise;
  } catch (error) {
    return error as SidecallError;
  }
  throw new Error('it did not fail');
}

/** The page's own end of a port, for pages that say what they like. */
async function rawPort(
  page: StubPage,
): Promise<{ post: (message: unknown) => void; heard: Record<string, unknown>[] }> {
  type Port = { onmessage: unknown; postMessage: (message: unknown) => void };
  const port = await new Promise<Port>((resolve) => {
    const add = page.window.addEventListener as (type: string, listener: object) => void;
    add('message', ({ ports }: { ports: Port[] }) => resolve(ports[0] as Port));
    page.window.sidecall?.connect('main', 'token');
  });
  const heard: Record<string, unknown>[] = [];
  port.onmessage = ({ data }: { data: Record<string, unknown> }) => void heard.push(data);
  return { post: (message) => port.postMessage(message), heard };
}

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
    const late = await failureOf(search.hang(undefined, { timeoutMs: 30 }));
    expect(late.code).toBe('ERR_SIDECALL_DEADLINE_EXCEEDED');
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
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(sent).toBeGreaterThan(0);
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

describe('ports', () => {
  it('are for the main frame of an allowed origin', async () => {
    await using main = bench({ origins: ['app://my'] });
    for (const origin of ['file://', 'https://evil.example', 'app://my.evil', 'null']) {
      const page = main.contents.navigate(origin);
      await page.run(() => failureOf(connectMain({ timeoutMs: 20 })));
    }
    expect(main.events.map(({ error }) => error.code)).toEqual(
      Array(4).fill('ERR_SIDECALL_PEER_DENIED'),
    );
    expect(main.events[1]?.error.message).toContain("'https://evil.example', allowed are app://my");
    const page = main.contents.navigate('app://my');
    const child = new StubFrame('app://my', main.contents.mainFrame);
    main.contents.ipc.emit('sidecall:connect', { senderFrame: child }, 'main', 'token');
    main.contents.ipc.emit('sidecall:connect', { senderFrame: null }, 'main', 'token');
    const stale = new StubFrame('app://my');
    main.contents.ipc.emit('sidecall:connect', { senderFrame: stale }, 'main', 'token');
    expect(main.events.slice(4).map(({ error }) => error.message)).toEqual([
      expect.stringContaining('not the main frame'),
      expect.stringContaining('frame is gone'),
      expect.stringContaining('not the main frame'),
    ]);
    expect(main.exposure.connections).toBe(0);
    const search = (await connected(page)).client(Search);
    expect(await search.query({ text: 'in' })).toEqual({ hits: 2 });
  });

  it('are new for each document: a navigation cancels what is under way', async () => {
    await using main = bench();
    const first = await connected(main.page);
    const hanging = failureOf(first.client(Search).hang());
    await until(() => main.pair.far.stats().handlers.running === 1);
    const second = await connected(main.contents.navigate());
    expect((await hanging).code).toBe('ERR_SIDECALL_PEER_GONE');
    expect((await first.closed)?.code).toBe('ERR_SIDECALL_PEER_GONE');
    await until(() => main.noted.reasons.length === 1);
    expect(await second.client(Search).query({ text: 'new' })).toEqual({ hits: 3 });
    expect(main.exposure.connections).toBe(1);
  });

  it.each(['render-process-gone', 'destroyed'])('end with %s', async (event) => {
    await using main = bench();
    const connection = await connected(main.page);
    const hanging = failureOf(connection.client(Search).hang());
    await until(() => main.pair.far.stats().handlers.running === 1);
    main.contents.emit(event);
    await hanging;
    await until(() => main.noted.reasons.length === 1);
    expect(main.exposure.connections).toBe(0);
  });

  it('for a page that goes in this very moment are closed', async () => {
    await using main = bench();
    const frame = Object.assign(main.contents.mainFrame, {
      postMessage: () => {
        throw new Error('Render frame was disposed');
      },
    });
    main.contents.ipc.emit('sidecall:connect', { senderFrame: frame }, 'main', 'token');
    expect(main.exposure.connections).toBe(0);
  });

  it('end with the exposure, which leaves no listener', async () => {
    const main = bench();
    const connection = await connected(main.page);
    const hanging = failureOf(connection.client(Search).hang());
    main.exposure.close();
    main.exposure[Symbol.dispose]();
    expect((await hanging).code).toBe('ERR_SIDECALL_CLOSED');
    expect((await connection.closed)?.message).toContain('main has closed');
    for (const emitter of [main.contents, main.contents.ipc]) {
      expect(emitter.eventNames()).toEqual([]);
    }
    await main.pair.close();
  });

  it('are so many for one document', async () => {
    await using main = bench();
    for (let at = 0; at < 8; at += 1) await connected(main.page);
    await main.page.run(() => failureOf(connectMain({ timeoutMs: 20 })));
    expect(main.events[0]?.error.message).toContain('8 ports');
    expect(main.exposure.connections).toBe(8);
  });

  it('several exposures of one window are told apart by name', async () => {
    await using main = bench();
    const pair = createSessionPair();
    const Files = service('Files', { count: unary<void, number>() });
    pair.far.serve(Files, { count: () => 3 });
    const second = exposeToRenderer(main.contents, pair.near, {
      MessageChannelMain,
      allow: ['Files.count'],
      name: 'files',
    });
    const files = (await connected(main.page, 'files')).client(Files);
    const search = (await connected(main.page)).client(Search);
    expect(await files.count()).toBe(3);
    expect(await search.query({ text: 'x' })).toEqual({ hits: 1 });
    second.close();
    await pair.close();
  });
});

describe('a session that is lost', () => {
  it('ends calls typed; a helper that is started again is called again', async () => {
    const Busy = service('Busy', {
      block: notification<number>(),
      ping: unary<void, string>(),
      exit: notification<number>(),
    });
    const contents = new StubWebContents();
    await using helper = await spawnHelper(process.execPath, [programPath('busy.mjs')], {
      restart: { firstMs: 1 },
    });
    using _exposure = exposeToRenderer(contents, helper, { MessageChannelMain, allow: [Busy] });
    const busy = (await connected(contents.navigate())).client(Busy);
    expect(await busy.ping()).toBe('pong');
    await busy.block(60_000);
    const pending = failureOf(busy.ping());
    process.kill(helper.pid, 'SIGKILL');
    expect(await pending).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE', retryable: true });
    await until(() => helper.state.state === 'running' && helper.state.restarts === 1);
    expect(await busy.ping()).toBe('pong');
  });

  it('without a restart, calls reject with why', async () => {
    const main = bench();
    const search = (await connected(main.page)).client(Search);
    const hanging = failureOf(search.hang());
    await until(() => main.pair.far.stats().handlers.running === 1);
    main.pair.cut();
    expect((await hanging).code).toBe('ERR_SIDECALL_PEER_GONE');
    expect((await failureOf(search.query({ text: '' }))).code).toMatch(/PEER_GONE|CLOSED/);
    main.exposure.close();
  });
});

describe('a page that lies', () => {
  const open = { t: 'open', id: 1, method: 'Search.hang', kind: 'unary' };
  const stream = { t: 'open', id: 1, method: 'Search.sum', kind: 'clientStream' };

  it.each<[string, unknown[]]>([
    ['nothing', [null]],
    ['a text', ['open']],
    ['no id', [{ t: 'cancel' }]],
    ['a strange id', [{ ...open, id: 1.5 }]],
    ['a negative id', [{ ...open, id: -1 }]],
    ['no method', [{ ...open, method: 7 }]],
    ['a long method', [{ ...open, method: 'x'.repeat(257) }]],
    ['a strange kind', [{ ...open, kind: 'toString' }]],
    ['a strange time-out', [{ ...open, timeoutMs: -1 }]],
    ['metadata that is none', [{ ...open, metadata: 'x' }]],
    ['an unknown message', [{ t: 'bye', id: 1 }]],
    ['an id twice', [open, open]],
    ['credit of nothing', [open, { t: 'credit', id: 1, count: 0 }]],
    ['credit of much', [open, { t: 'credit', id: 1, count: 1e9 }]],
    ['credit for nothing', [open, { t: 'credit', id: 1, count: 1 }]],
    [
      'requests beyond the window',
      [stream, ...Array(5_000).fill({ t: 'message', id: 1, value: 1 })],
    ],
    ['requests behind the end', [stream, { t: 'end', id: 1 }, { t: 'message', id: 1, value: 1 }]],
  ])('by %s loses its port, and nobody else anything', async (_what, messages) => {
    await using main = bench();
    main.pair.far.serve(service('Slow', { x: unary() }), { x: () => 1 });
    const other = (await connected(main.page)).client(Search);
    const { post, heard } = await rawPort(main.page);
    await until(() => heard.length === 1);
    expect(heard[0]).toMatchObject({ t: 'ready', version: 1, maxInFlight: 16 });
    for (const message of messages) post(message);
    await until(() => heard.at(-1)?.t === 'bye');
    expect(heard.at(-1)).toMatchObject({ error: { code: 'ERR_SIDECALL_PROTOCOL', rpc: false } });
    expect(main.events).toMatchObject([
      { type: 'refused', error: { code: 'ERR_SIDECALL_PROTOCOL' } },
    ]);
    await until(() => main.exposure.connections === 1);
    expect(await other.query({ text: 'still here' })).toEqual({ hits: 10 });
    await until(() => main.pair.near.stats().calls.open === 0);
  });

  it('by values that unfold to more than there is memory is refused, at once', async () => {
    await using main = bench();
    const { post, heard } = await rawPort(main.page);
    let shared: unknown = ['x'];
    for (let at = 0; at < 60; at += 1) shared = [shared, shared];
    const sparse: unknown[] = [];
    sparse.length = 100_000_000;
    let deep: unknown = {};
    for (let at = 0; at < 100; at += 1) deep = { deep };
    const metadata = Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`k${at}`, '']));
    const part = new Uint8Array(new ArrayBuffer(70_000_000), 0, 1); // its clone has all of it
    const values = [shared, sparse, deep, 'x'.repeat(70_000_000), part];
    for (const [id, value] of values.entries()) {
      post({ t: 'open', id, method: 'Search.query', kind: 'unary', value: { text: value } });
    }
    await until(() => heard.filter(({ t }) => t === 'error').length === 5);
    expect(heard.slice(1).map(({ error }) => (error as { status: string }).status)).toEqual([
      ...['resource_exhausted', 'resource_exhausted', 'invalid_argument'],
      ...['resource_exhausted', 'resource_exhausted'],
    ]);
    post({ ...open, id: 50, metadata });
    await until(() => heard.at(-1)?.t === 'bye');
  });

  it('by sending what nobody takes holds no more than so much', async () => {
    await using main = bench({ allow: ['Slow.sum'] });
    const Slow = service('Slow', { sum: clientStream<string, number>() });
    main.pair.far.serve(Slow, { sum: () => new Promise(() => undefined) });
    const { post, heard } = await rawPort(main.page);
    for (let id = 0; id < 8; id += 1) {
      post({ t: 'open', id, method: 'Slow.sum', kind: 'clientStream' });
      for (let at = 0; at < 10; at += 1) {
        post({ t: 'message', id, value: 'x'.repeat(3_000_000) });
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    }
    await until(() => heard.some(({ t }) => t === 'error'));
    expect(heard.find(({ t }) => t === 'error')).toMatchObject({
      error: { code: 'ERR_SIDECALL_LIMIT_BYTES' },
    });
    main.pair.cut();
  });

  it('by giving calls up in a flood is slowed down; the session that others share lives', async () => {
    await using main = bench();
    const other = (await connected(main.page)).client(Search);
    const { post, heard } = await rawPort(main.page);
    const listing = { t: 'open', method: 'Search.list', kind: 'serverStream', value: { to: 1e6 } };
    for (let id = 0; id < 20_000; id += 1) {
      post({ ...(id % 2 === 0 ? open : listing), id });
      post({ t: 'cancel', id });
      if (id % 16 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    // Few of them reach the session: places of calls that were given up come free slowly.
    expect(main.pair.near.stats().calls.open).toBeLessThan(20);
    expect(heard.filter(({ t }) => t === 'error')).toEqual([]);
    expect(await other.query({ text: 'still here' })).toEqual({ hits: 10 });
    expect(main.pair.near.state).toBe('open');
    expect(main.events).toEqual([]);
  });

  it('about calls that have ended says nothing', async () => {
    await using main = bench();
    const { post, heard } = await rawPort(main.page);
    for (const t of ['message', 'end', 'cancel']) post({ t, id: 99 });
    post({ t: 'credit', id: 99, count: 1 });
    post({ t: 'open', id: 5, method: 'Search.query', kind: 'unary', value: { text: 'x' } });
    await until(() => heard.some(({ t }) => t === 'result'));
    expect(heard.at(-1)).toEqual({ t: 'result', id: 5, value: { hits: 1 } });
    expect(main.events).toEqual([]);
  });
});

describe('exposeToRenderer()', () => {
  const contents = new StubWebContents();

  it.each<[string, object]>([
    ['no MessageChannelMain', { allow: ['a.b'] }],
    ['no list', { MessageChannelMain }],
    ['an empty list', { MessageChannelMain, allow: [] }],
    ['a strange entry', { MessageChannelMain, allow: [7] }],
    ['a range', { MessageChannelMain, allow: ['a.b'], maxInFlight: 0 }],
    ['a wild card', { MessageChannelMain, allow: ['a.b'], origins: ['*'] }],
    ['the origin of anything', { MessageChannelMain, allow: ['a.b'], origins: ['null'] }],
    ['no name', { MessageChannelMain, allow: ['a.b'], name: '' }],
    [
      'leases',
      { MessageChannelMain, allow: [service('Vat', { take: unary({ response: leased }) })] },
    ],
    ['an unknown option', { MessageChannelMain, allow: ['a.b'], sandbox: false }],
  ])('refuses %s', async (_what, options) => {
    const pair = createSessionPair();
    expect(() => exposeToRenderer(contents, pair.near, options as ExposeOptions)).toThrow();
    expect(contents.eventNames()).toEqual([]);
    await pair.close();
  });
});

describe('sidecall in a browser', () => {
  it('describes the same contracts', () => {
    const make = (from: typeof browser) =>
      from.service('Desk', {
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
