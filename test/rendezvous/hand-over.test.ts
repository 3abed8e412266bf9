// A path that changes hands while it is in use.
import { chmodSync, existsSync, rmSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { connect } from '../../src/rendezvous/connect.ts';
import { type ListenOptions, listen } from '../../src/rendezvous/listen.ts';
import type { Listener } from '../../src/rendezvous/listener.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { defer, until } from '../support/contract.ts';
import { scratchDirectory } from '../support/programs.ts';
import { SteeredClock } from '../support/steered-clock.ts';

const Place = service('Place', {
  name: unary<number, string>(),
  hang: unary<void, void>(),
});

const ignored = (): void => undefined;

function serve(listener: Listener, name: string): Listener {
  listener.serve(Place, {
    name: async (ms) => {
      if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
      return name;
    },
    hang: () => new Promise(() => undefined),
  });
  return listener;
}

const open = async (path: string, name: string, options: ListenOptions = {}) =>
  serve(await listen({ path, ...options }), name);

describe('listener.handOver()', () => {
  it('gives the path to the next listener; calls finish, connections move', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const first = await open(path, 'first');
    const connection = await connect({ path, reconnect: true });
    const plain = await connect({ path });
    const places = connection.client(Place);
    expect(await places.name(0)).toBe('first');
    const slow = places.name(300);
    await plain.ping();
    const handedOver = first.handOver();
    const second = await open(path, 'second', { takeOver: true });
    expect(await connection.client(Place).name(0)).toMatch(/first|second/);
    expect(await slow).toBe('first');
    const result = await handedOver;
    expect(result).toMatchObject({ epoch: 1, moved: 2, forced: 0, cutOff: 0 });
    expect(result.successor.pid).toBe(process.pid);
    await until(() => connection.state.state === 'connected');
    expect(await places.name(0)).toBe('second');
    expect(await plain.closed).toBeUndefined();
    expect(second.epoch).toBe(1);
    await first.close(); // it is closed already
    await expect(first.handOver()).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
    // The path is the second one's: nobody can take it, and a third may follow.
    await expect(listen({ path })).rejects.toMatchObject({ code: 'ERR_SIDECALL_PATH_IN_USE' });
    const again = second.handOver();
    const third = await open(path, 'third', { takeOver: true });
    expect(await again).toMatchObject({ epoch: 2 });
    expect(await places.name(0)).toBe('third');
    await connection.close();
    await third.close();
    const fourth = await open(path, 'fourth'); // nothing is left behind
    await fourth.close();
  });

  it('waits for a connection that was in its hello, and counts it', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const first = await open(path, 'first');
    const gate = defer();
    let isAsked = false;
    // The connection is accepted by the old process, and its policy decides late.
    const connecting = connect({
      path,
      lane: 'socket',
      expect: async () => {
        isAsked = true;
        await gate.promise;
        return true;
      },
    });
    await until(() => isAsked);
    let isOver = false;
    const handedOver = first.handOver().finally(() => {
      isOver = true;
    });
    const second = await open(path, 'second', { takeOver: true });
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(isOver).toBe(false);
    gate.resolve();
    const session = await connecting;
    expect(await handedOver).toMatchObject({ moved: 1, forced: 0 });
    expect(await session.closed).toBeUndefined();
    await second.close();
  });

  it('lets a successor in beyond the limits of sessions, and no other connection', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const limits = { sessionsMax: 2, sessionsPerUidMax: 2, sessionsPerProcessMax: 2 };
    const first = await open(path, 'first', limits);
    const takeOver = { timeoutMs: 3_000 };
    await using one = await connect({ path });
    await using two = await connect({ path });
    const isFull = { code: 'ERR_SIDECALL_LIMIT_CONNECTIONS' };
    // Before handOver() a successor has no more room than others.
    await expect(listen({ path, takeOver })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PATH_IN_USE',
      cause: isFull,
    });
    const handedOver = first.handOver();
    await expect(connect({ path })).rejects.toMatchObject(isFull);
    const gate = defer();
    const opening = open(path, 'second', { takeOver: { ready: () => gate.promise } });
    await until(() => first.sessionCount === 3);
    await expect(connect({ path })).rejects.toMatchObject(isFull);
    gate.resolve();
    const second = await opening;
    expect(await handedOver).toMatchObject({ moved: 2, forced: 0 });
    expect(await one.closed).toBeUndefined();
    expect(await two.closed).toBeUndefined();
    await second.close();
  });

  it('listens as usual where there is no listener; `ready` comes before the first connection', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const gate = defer();
    let isServed = false;
    const opening = listen({
      path,
      takeOver: {
        ready: async (listener) => {
          await gate.promise;
          serve(listener, 'alone');
          isServed = true;
        },
      },
    });
    const connecting = connect({ path, timeoutMs: 30_000 }).catch(async () => connect({ path }));
    await new Promise((resolve) => setTimeout(resolve, 50));
    gate.resolve();
    const listener = await opening;
    expect(isServed).toBe(true);
    const session = await connecting;
    expect(await session.client(Place).name(0)).toBe('alone');
    expect(listener.epoch).toBe(0);
    await session.close();
    await listener.close();
  });

  it('goes on where the successor is not ready, and gives the path to the next one', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const first = await open(path, 'first');
    const session = await connect({ path });
    const handedOver = first.handOver();
    const broken = listen({
      path,
      takeOver: { ready: () => Promise.reject(new Error('no database')) },
    });
    await expect(broken).rejects.toThrow('no database');
    expect(await session.client(Place).name(0)).toBe('first');
    const other = await connect({ path });
    expect(await other.client(Place).name(0)).toBe('first');
    const second = await open(path, 'second', { takeOver: true });
    expect(await handedOver).toMatchObject({ epoch: 1, moved: 2 });
    await second.close();
  });

  it('waits no longer than waitMs or its signal, and the listener goes on', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const first = await open(path, 'first');
    await expect(first.handOver({ waitMs: 30 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
    });
    const stop = new AbortController();
    const stopped = expect(first.handOver({ signal: stop.signal })).rejects.toThrow('mine');
    await expect(first.handOver()).rejects.toThrow('twice');
    // A successor that is still preparing when the wait ends has lost.
    const preparing = listen({
      path,
      takeOver: { timeoutMs: 500, ready: () => new Promise<void>((done) => setTimeout(done, 200)) },
    });
    const refused = expect(preparing).rejects.toMatchObject({ delivered: 'unknown' });
    await new Promise((resolve) => setTimeout(resolve, 100));
    stop.abort(new Error('mine'));
    await stopped;
    await refused.catch(() => undefined);
    await expect(listen({ path, takeOver: { timeoutMs: 100 } })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PATH_IN_USE',
      message: expect.stringContaining('takeOver.timeoutMs'),
    });
    const session = await connect({ path });
    expect(await session.client(Place).name(0)).toBe('first');
    const closed = expect(first.handOver()).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
    await first.close();
    await closed;
  });

  it('refuses a successor that its policy does not name', async () => {
    using directory = scratchDirectory();
    using clock = new SteeredClock();
    const path = directory.file('socket');
    const first = await open(path, 'first');
    const handedOver = first
      .handOver({ to: { uid: 12345 }, waitMs: 60_000 })
      .catch(({ code }) => code);
    await expect(listen({ path, takeOver: true })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_DENIED',
    });
    clock.advance(60_000);
    expect(await handedOver).toBe('ERR_SIDECALL_DEADLINE_EXCEEDED');
    await first.close();
  });

  it('cuts off at the deadline what does not end, and counts it', async () => {
    using directory = scratchDirectory();
    using clock = new SteeredClock();
    const path = directory.file('socket');
    const first = await open(path, 'first');
    const [busy, idle] = [await connect({ path }), await connect({ path })];
    const hung = busy
      .client(Place)
      .hang()
      .catch(({ delivered }) => delivered);
    await busy.ping();
    const handedOver = first.handOver({ deadlineMs: 60_000 });
    const second = await open(path, 'second', { takeOver: true });
    await idle.closed;
    clock.advance(60_000);
    expect(await handedOver).toMatchObject({ moved: 1, forced: 1, cutOff: 1 });
    expect(await hung).toBe('unknown');
    expect(await idle.closed).toBeUndefined();
    await second.close();
  });

  it('passes a socket whose users are a group, in a directory that others can write', async () => {
    using directory = scratchDirectory();
    chmodSync(directory.path, 0o777);
    const path = directory.file('socket');
    const options = { mode: '0660', unsafeDirectory: true, takeOver: true };
    const first = await open(path, 'first', options);
    const handedOver = first.handOver();
    const second = await open(path, 'second', options);
    expect(await handedOver).toMatchObject({ epoch: 1 });
    await second.close();
  });

  it('ends with close() of either side: the successor goes on alone, or the listener does', async () => {
    using directory = scratchDirectory();
    using clock = new SteeredClock();
    const path = directory.file('socket');
    const first = await open(path, 'first');
    const session = await connect({ path });
    const hung = session.client(Place).hang().catch(ignored);
    await session.ping();
    const ended = expect(first.handOver()).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
    const gate = defer();
    const taking = listen({
      path,
      takeOver: { ready: async (held) => void serve(await gate.promise.then(() => held), 'next') },
    });
    await new Promise((resolve) => setTimeout(resolve, 100)); // the successor has the socket
    const closing = first.close({ deadlineMs: 300 });
    gate.resolve();
    await Promise.all([ended, closing, hung]);
    const next = await taking; // the one before has gone, and has removed its file
    await until(() => existsSync(path));
    const moved = await connect({ path });
    expect(await moved.client(Place).name(0)).toBe('next');
    await next.close();
    // And a successor that closes itself while it prepares leaves the path where it is.
    const second = await open(path, 'second');
    const waiting = second.handOver({ waitMs: 60_000 }).catch(({ code }) => code);
    const closed = listen({ path, takeOver: { ready: async (held) => void (await held.close()) } });
    await expect(closed).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
    const third = await connect({ path });
    expect(await third.client(Place).name(0)).toBe('second');
    clock.advance(60_000);
    expect(await waiting).toBe('ERR_SIDECALL_DEADLINE_EXCEEDED');
    await second.close();
  });

  it('is told by a listener whose file was deleted while it prepared', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const listener = await listen({
      path,
      takeOver: {
        ready: async (held) => {
          serve(held, 'alone');
          rmSync(path);
          await new Promise((resolve) => setTimeout(resolve, 300)); // its watcher has looked
        },
      },
    });
    await until(() => existsSync(path)); // it is bound again
    const session = await connect({ path });
    expect(await session.client(Place).name(0)).toBe('alone');
    await listener.close();
  });

  it.each([
    [{ path: undefined, takeOver: true }, TypeError],
    [{ takeOver: 5 }, TypeError],
    [{ takeOver: { redy: 5 } }, TypeError],
    [{ takeOver: { ready: 5 } }, TypeError],
    [{ takeOver: { timeoutMs: 1 } }, RangeError],
    [{ takeOver: true, identity: 'path-permissions' }, TypeError],
  ])('rejects %j, which is misuse', async (options, kind) => {
    using directory = scratchDirectory();
    const all = { path: directory.file('socket'), ...options } as never;
    await expect(listen(all)).rejects.toThrow(kind);
  });
});
