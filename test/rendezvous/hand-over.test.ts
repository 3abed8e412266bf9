// A path that changes hands while it is in use.
import { describe, expect, it } from 'vitest';
import { connect } from '../../src/rendezvous/connect.ts';
import { type ListenOptions, listen } from '../../src/rendezvous/listen.ts';
import type { Listener } from '../../src/rendezvous/listener.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { defer, until } from '../support/contract.ts';
import { scratchDirectory } from '../support/programs.ts';

const Place = service('Place', {
  name: unary<number, string>(),
  hang: unary<void, void>(),
});

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
    await expect(first.handOver()).rejects.toThrow('already');
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
    const path = directory.file('socket');
    const first = await open(path, 'first');
    const handedOver = first
      .handOver({ to: { uid: 12345 }, waitMs: 1_000 })
      .catch(({ code }) => code);
    await expect(listen({ path, takeOver: true })).rejects.toMatchObject({
      status: 'permission_denied',
    });
    expect(await handedOver).toBe('ERR_SIDECALL_DEADLINE_EXCEEDED');
    await first.close();
  });

  it('cuts off at the deadline what does not end, and counts it', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const first = await open(path, 'first');
    const [busy, idle] = [await connect({ path }), await connect({ path })];
    const hung = busy
      .client(Place)
      .hang()
      .catch(({ delivered }) => delivered);
    await busy.ping();
    const handedOver = first.handOver({ deadlineMs: 100 });
    const second = await open(path, 'second', { takeOver: true });
    expect(await handedOver).toMatchObject({ moved: 1, forced: 1, cutOff: 1 });
    expect(await hung).toBe('unknown');
    expect(await idle.closed).toBeUndefined();
    await second.close();
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
