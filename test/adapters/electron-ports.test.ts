// sidecall/electron under a stub of Electron's main process: ports, sessions that are lost, pages
// that send invalid messages.

import { describe, expect, it } from 'vitest';
import { type ExposeOptions, exposeToRenderer } from '../../src/adapters/electron/main.ts';
import { connectMain } from '../../src/adapters/electron/renderer.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { leased } from '../../src/rpc/contract/leases.ts';
import { clientStream, notification, service, unary } from '../../src/rpc/contract/service.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { until } from '../support/contract.ts';
import {
  MessageChannelMain,
  StubFrame,
  type StubPage,
  StubWebContents,
} from '../support/electron.ts';
import { bench, connected, failureOf, Search } from '../support/electron-bench.ts';
import { programPath } from '../support/programs.ts';

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

describe('ports', () => {
  it('are for the main frame of an allowed origin', async () => {
    await using main = bench({ origins: ['app://my'] });
    for (const origin of ['file://', 'https://evil.example', 'app://my.evil', 'null']) {
      const page = main.contents.navigate(origin);
      const { length } = main.events;
      await page.run(() => failureOf(connectMain({ timeoutMs: 20 })));
      await until(() => main.events.length > length);
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
    await until(() => main.events.length > 0);
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
      hang: unary<void, void>(),
      exit: notification<number>(),
    });
    const contents = new StubWebContents();
    await using helper = await spawnHelper(process.execPath, [programPath('busy.mjs')], {
      restart: { firstMs: 1 },
    });
    using _exposure = exposeToRenderer(contents, helper, { MessageChannelMain, allow: [Busy] });
    const busy = (await connected(contents.navigate())).client(Busy);
    expect(await busy.ping()).toBe('pong');
    const hanging = failureOf(busy.hang());
    expect(await busy.ping()).toBe('pong'); // the one before has begun
    await busy.block(60_000);
    const unseen = busy.ping(); // made again in the next process
    process.kill(helper.pid, 'SIGKILL');
    expect(await hanging).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE', retryable: true });
    expect(await unseen).toBe('pong');
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
      { MessageChannelMain, allow: [service('LeaseCalls', { take: unary({ response: leased }) })] },
    ],
    ['an unknown option', { MessageChannelMain, allow: ['a.b'], sandbox: false }],
  ])('refuses %s', async (_what, options) => {
    const pair = createSessionPair();
    expect(() => exposeToRenderer(contents, pair.near, options as ExposeOptions)).toThrow();
    expect(contents.eventNames()).toEqual([]);
    await pair.close();
  });
});
