// Connections with `reconnect`: real listeners that end, leave, and come back.
import { existsSync, mkdirSync, rmdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import { connectPool } from '../../src/pool/connect-pool.ts';
import type { Pool } from '../../src/pool/pool.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import type { Connection } from '../../src/rendezvous/connection.ts';
import type { ConnectionState } from '../../src/rendezvous/connection-state.ts';
import { type ListenOptions, listen } from '../../src/rendezvous/listen.ts';
import type { Listener } from '../../src/rendezvous/listener.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { serverStream, service, unary } from '../../src/rpc/contract/service.ts';
import { Demo, demoHandlers, until } from '../support/contract.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';

const Ticks = service('Ticks', { from: serverStream<number, number>() });

async function listenAt(path: string, options: ListenOptions = {}): Promise<Listener> {
  const listener = await listen({ path, ...options });
  listener.serve(Demo, demoHandlers());
  return listener;
}

/** The names of the states, as they come, until one of them is final. */
function watch(connection: Connection): { names: string[]; seen: ConnectionState[] } {
  const told = { names: [] as string[], seen: [] as ConnectionState[] };
  void (async () => {
    for await (const state of connection.states()) {
      told.seen.push(state);
      if (told.names.at(-1) !== state.state) told.names.push(state.state);
    }
  })();
  return told;
}

describe('a connection with reconnect', () => {
  it('outlives the death of its listener: calls settle with the truth, new ones wait', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const events: SidecallEvent[] = [];
    const first = startProgram('listener.mjs', [JSON.stringify({ path })]);
    await first.next();
    const onEvent = (event: SidecallEvent): unknown => events.push(event);
    const connection = await connect({ path, reconnect: { maxMs: 100 }, onEvent });
    const told = watch(connection);
    const demo = connection.client(Demo);
    expect(connection.peer.pid).toBe(first.pid);
    const pending = demo.hang();
    const rejected = expect(pending).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_GONE',
      delivered: 'unknown',
    });
    await demo.add({ a: 1, b: 1 }); // the one before has arrived
    first.child.kill('SIGKILL');
    await rejected;
    await until(() => connection.state.state === 'reconnecting');
    await expect(demo.add({ a: 1, b: 1 }, { timeoutMs: 30 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      delivered: 'no',
    });
    const waits = demo.add({ a: 1, b: 2 });
    await using second = startProgram('listener.mjs', [JSON.stringify({ path })]);
    expect(await waits).toEqual({ sum: 3 });
    expect(connection.peer.pid).toBe(second.pid);
    expect(connection.state).toMatchObject({ state: 'connected', reconnects: 1 });
    expect(connection.session.state).toBe('open');
    await connection.close();
    expect(await connection.closed).toBeUndefined();
    expect(told.names).toEqual(['connected', 'reconnecting', 'connected', 'closing', 'closed']);
    const lost = events
      .filter(({ type }) => type === 'reconnecting')
      .map(({ error }) => error.code);
    // Once for the loss, and once for each other reason.
    expect(lost.slice(0, 2)).toEqual(['ERR_SIDECALL_PEER_GONE', 'ERR_SIDECALL_NO_LISTENER']);
    expect(lost.every((code, at) => code !== lost[at + 1])).toBe(true);
  });

  it('moves while the old listener finishes its calls', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    let finish: (() => void) | undefined;
    const old = await listen({ path });
    const waits = new Promise<void>((resolve) => {
      finish = resolve;
    });
    let isRunning = false;
    const hang = (): Promise<void> => {
      isRunning = true;
      return waits;
    };
    old.serve(Demo, demoHandlers({ hang }));
    await using connection = await connect({ path, reconnect: true });
    const demo = connection.client(Demo);
    const pending = demo.hang();
    await until(() => isRunning);
    const closing = old.close();
    await until(() => !existsSync(path));
    await using next = await listenAt(path);
    expect(await demo.add({ a: 2, b: 2 })).toEqual({ sum: 4 });
    expect([old.sessionCount, next.sessionCount]).toEqual([1, 1]);
    finish?.();
    await pending;
    await closing;
  });

  it('serves, accepts channels and opens them on each of its sessions', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    let listener = await listen({ path });
    await using connection = await connect({ path, reconnect: { firstMs: 1, maxMs: 10 } });
    connection.serve(Demo, demoHandlers({ add: ({ a, b }) => ({ sum: a * b }) }));
    const heard: string[] = [];
    const hearing = (async () => {
      for await (const channel of connection.channels(json<string>(), { name: 'news' })) {
        for await (const word of channel) heard.push(word);
      }
    })();
    for (const word of ['one', 'two', 'three']) {
      const [session] = [(await listener[Symbol.asyncIterator]().next()).value];
      if (session === undefined) throw new Error('no session came');
      expect(await session.client(Demo).add({ a: 3, b: 4 })).toEqual({ sum: 12 });
      const channel = session.openChannel(json<string>(), { name: 'news' });
      await channel.send(word);
      await channel.end();
      const accepted = session.channels(json<string>(), { name: 'back' });
      const back = connection.openChannel(json<string>(), { name: 'back' });
      await back.send(word);
      const { value: taken } = await accepted.next();
      expect((await taken?.[Symbol.asyncIterator]().next())?.value).toBe(word);
      await until(() => heard.at(-1) === word);
      const { reconnects } = connection.state;
      await listener.close({ deadlineMs: 0 });
      listener = await listen({ path });
      await until(() => connection.state.reconnects > reconnects);
    }
    await connection.close();
    await hearing;
    expect(heard).toEqual(['one', 'two', 'three']);
    await listener.close();
  });

  it('accepts channels of the next session while the loop works on one of the session before', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const open = async () => {
      const listener = await listen({ path });
      const { value: session } = await listener[Symbol.asyncIterator]().next();
      if (session === undefined) throw new Error('no session came');
      const channel = session.openChannel(json<number>(), { name: 'news' });
      return { listener, channel };
    };
    const opening = open();
    await until(() => existsSync(path));
    await using connection = await connect({ path, reconnect: { firstMs: 1, maxMs: 10 } });
    const channels = connection.channels(json<number>(), { name: 'news' });
    const first = await opening;
    await first.channel.send(1);
    const taken = (await channels.next()).value;
    expect((await taken?.[Symbol.asyncIterator]().next())?.value).toBe(1);
    await first.listener.close({ deadlineMs: 0 });
    const second = await open();
    await second.channel.send(2); // the loop has not come back to next()
    await second.channel.end();
    const following = (await channels.next()).value;
    expect((await following?.[Symbol.asyncIterator]().next())?.value).toBe(2);
    await connection.close();
    expect(await channels.next()).toEqual({ done: true, value: undefined });
    await second.listener.close();
  });

  it('is given up after giveUpMs, and says why', async () => {
    const events: SidecallEvent[] = [];
    const listener = await listen();
    listener.serve(Demo, demoHandlers());
    const connection = await connect({
      path: listener.path,
      reconnect: { firstMs: 5, maxMs: 20, giveUpMs: 200 },
      onEvent: (event) => events.push(event),
    });
    const told = watch(connection);
    await listener.close();
    const waits = expect(connection.client(Demo).add({ a: 1, b: 1 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_NO_LISTENER',
      delivered: 'no',
      retryable: false,
      message: expect.stringMatching(
        /was given up after \d+ tries in 200 ms \(reconnect\.giveUpMs\)/,
      ),
    });
    const why = await connection.closed;
    expect(why?.code).toBe('ERR_SIDECALL_NO_LISTENER');
    await waits;
    expect(connection.state).toMatchObject({ state: 'gave-up', error: why, reconnects: 0 });
    await expect(connection.client(Demo).add({ a: 1, b: 1 })).rejects.toMatchObject({
      delivered: 'no',
    });
    expect(told.names).toEqual(['connected', 'reconnecting', 'gave-up']);
    const pauses = told.seen.flatMap((each) =>
      each.state === 'reconnecting' ? [each.pauseMs] : [],
    );
    expect(Math.max(...pauses)).toBeLessThanOrEqual(20);
    expect(events.at(-1)).toMatchObject({ type: 'reconnecting', error: { retryable: false } });
    await connection.close();
    expect(connection.state.state).toBe('gave-up');
  });

  it('is closed while it is being made again, once for all calls of close()', async () => {
    const listener = await listen();
    const connection = await connect({ path: listener.path, reconnect: true });
    await listener.close();
    const waits = connection.client(Demo).add({ a: 1, b: 1 });
    const rejected = expect(waits).rejects.toMatchObject({
      code: 'ERR_SIDECALL_CLOSED',
      delivered: 'no',
    });
    await Promise.all([connection.close(), connection.close({ deadlineMs: 0 })]);
    await rejected;
    expect(connection.state).toEqual({ state: 'closed', reconnects: 0 });
    await connection.close();
  });

  it('is not made at all where the first session cannot be opened', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    await expect(connect({ path, reconnect: true })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_NO_LISTENER',
    });
  });

  it.each<[string, object, typeof TypeError | typeof RangeError]>([
    ['an unknown option', { reconnect: { first: 1 } }, TypeError],
    ['no object', { reconnect: 'yes' }, TypeError],
    ['a pause out of range', { reconnect: { firstMs: 0 } }, RangeError],
    ['a first pause above the longest', { reconnect: { firstMs: 50, maxMs: 10 } }, RangeError],
    ['an idle time-out, which it would undo', { reconnect: true, idleTimeoutMs: 10 }, TypeError],
    ['another protocol', { reconnect: true, protocol: 'plain' }, TypeError],
  ])('rejects %s', async (_what, options, kind) => {
    await expect(connect({ path: '/nowhere', ...options } as never)).rejects.toThrow(kind);
  });
});

describe('a subscription over a connection with reconnect', () => {
  async function ticking(path: string): Promise<Listener> {
    const listener = await listen({ path });
    listener.serve(Ticks, {
      async *from(first, { signal }) {
        for (let at = first; !signal.aborted; at += 1) yield at;
      },
    });
    return listener;
  }

  it('ends with a retryable error by default', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const listener = await ticking(path);
    await using connection = await connect({ path, reconnect: true });
    const numbers = connection.client(Ticks).from(5);
    expect((await numbers.next()).value).toBe(5);
    await listener.close({ deadlineMs: 0 });
    const read = async (): Promise<void> => {
      for await (const _number of numbers);
    };
    await expect(read()).rejects.toMatchObject({ retryable: true });
  });

  it('with resubscribe it is opened again, and tells the gap', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    let listener = await ticking(path);
    await using connection = await connect({ path, reconnect: { firstMs: 1, maxMs: 10 } });
    const seen: (number | string)[] = [];
    const onGap = ({ code }: { code: string }): unknown => seen.push(code);
    const numbers = connection.client(Ticks).from(7, { resubscribe: { onGap } });
    for (let gaps = 0; gaps < 3; gaps += 1) {
      const before = seen.length;
      while (typeof seen.at(-1) !== 'number' || seen.length < before + 3) {
        seen.push((await numbers.next()).value as number);
      }
      await listener.close({ deadlineMs: 0 });
      listener = await ticking(path);
      while (seen.at(-1) !== 7 || seen.length < before + 4) {
        seen.push((await numbers.next()).value as number);
      }
    }
    await numbers.return?.();
    expect(await numbers.next()).toEqual({ done: true, value: undefined });
    const starts = seen.flatMap((each, at) => (typeof each === 'string' ? [seen[at + 1]] : []));
    expect(starts).toEqual([7, 7, 7]);
    await listener.close();
  });

  it('refuses resubscribe where there is nothing to subscribe to again', async () => {
    await using listener = await listen();
    listener.serve(Demo, demoHandlers());
    const resubscribe = { onGap: () => undefined };
    await using session = await connect({ path: listener.path });
    await expect(session.client(Ticks).from(1, { resubscribe }).next()).rejects.toThrow(
      'outlives its sessions',
    );
    await using connection = await connect({ path: listener.path, reconnect: true });
    await expect(connection.client(Demo).add({ a: 1, b: 1 }, { resubscribe })).rejects.toThrow(
      TypeError,
    );
    const wrong = { resubscribe: { onGap: 1 } } as never;
    await expect(connection.client(Ticks).from(1, wrong).next()).rejects.toThrow(
      'resubscribe.onGap must be a function',
    );
  });
});

/** A folder that is the working directory while a connection is made. */
async function inFolder<T>(folder: string, act: () => Promise<T>): Promise<T> {
  const before = process.cwd();
  process.chdir(folder);
  try {
    return await act();
  } finally {
    process.chdir(before);
  }
}

describe('a relative path', () => {
  type Open = (path: string) => Promise<Connection | Pool<Connection>>;
  const reconnect = { maxMs: 50 };
  it.each<[string, Open]>([
    ['connect()', (path) => connect({ path, reconnect })],
    ['connectPool()', (path) => connectPool({ path, size: 1, reconnect })],
  ])('of %s means the same listener after a chdir()', async (_what, open) => {
    using own = scratchDirectory();
    using other = scratchDirectory();
    const listener = await listenAt(own.file('s'));
    await using _ = await listenAt(other.file('s'));
    const connected = await inFolder(own.path, () => open('s'));
    await inFolder(other.path, async () => {
      await listener.close({ deadlineMs: 0 });
      await using again = await listenAt(own.file('s'));
      const Place = service('Place', { where: unary<void, string>() });
      again.serve(Place, { where: () => 'own' });
      expect(await connected.client(Place).where()).toBe('own');
      await ('stop' in connected ? connected.stop() : connected.close());
    });
  });
});

it('a relative path has no meaning once the working directory is removed', async () => {
  using own = scratchDirectory();
  const folder = own.file('gone');
  mkdirSync(folder);
  await inFolder(folder, async () => {
    rmdirSync(folder);
    const error = { code: 'ERR_SIDECALL_SYSTEM', message: expect.stringContaining('relative') };
    await expect(connect({ path: 's' })).rejects.toMatchObject(error);
    await expect(listen({ path: 's' })).rejects.toMatchObject(error);
    const absent = { code: 'ERR_SIDECALL_NO_LISTENER' };
    await expect(connect({ path: own.file('s') })).rejects.toMatchObject(absent);
  });
});
