import { once } from 'node:events';
import { chmodSync, existsSync, readdirSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { basename, dirname } from 'node:path';
import { describe, expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { HealthService } from '../../src/rpc/serving/health.ts';
import { Demo, defer, demoHandlers, until } from '../support/contract.ts';
import { modeOf } from '../support/listening.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';
import { SteeredClock } from '../support/steered-clock.ts';

describe('a listener', () => {
  it('meets a client at a private path, and both know each other', async () => {
    await using listener = await listen();
    listener.serve(Demo, demoHandlers({ same: (_value, { peer }) => peer }));
    expect(modeOf(listener.path)).toBe('600');
    expect(modeOf(dirname(listener.path))).toBe('700');
    await using session = await connect({ path: listener.path });
    const ids = {
      origin: 'kernel',
      pid: process.pid,
      uid: process.geteuid?.(),
      gid: process.getegid?.(),
    };
    expect(session.peer).toMatchObject({ ...ids, capturedAt: 'listen' });
    expect(await session.client(Demo).same(1)).toMatchObject({ ...ids, capturedAt: 'connect' });
    expect(session.lane).toBe('ring');
    expect(session.laneReason).toBe('both sides have shared memory');
  });

  it('leaves nothing on disk when it closes, and closes twice as once', async () => {
    const listener = await listen();
    const directory = dirname(listener.path);
    expect(readdirSync(directory).sort()).toEqual(['socket', 'socket.lock']);
    await Promise.all([listener.close(), listener.close()]);
    expect(existsSync(directory)).toBe(false);
    await listener.closed;
  });

  it('is an async iterable of sessions that both sides can use', async () => {
    await using listener = await listen();
    const taken: number[] = [];
    const loop = (async () => {
      for await (const session of listener) {
        session.serve(Demo, demoHandlers({ add: () => ({ sum: taken.length }) }));
        taken.push(session.peer.pid as number);
        if (taken.length === 3) break;
      }
    })();
    const sessions = await Promise.all([1, 2, 3].map(() => connect({ path: listener.path })));
    await loop;
    expect(taken).toEqual([process.pid, process.pid, process.pid]);
    for (const session of sessions) await session.client(Demo).add({ a: 1, b: 1 });
    expect(listener.sessionCount).toBe(3);
    await Promise.all(sessions.map((session) => session.close()));
    await until(() => listener.sessionCount === 0);
  });

  it('ends its iterators when it closes', async () => {
    const listener = await listen();
    const ended = (async () => {
      for await (const _session of listener);
      return 'ended';
    })();
    await listener.close();
    expect(await ended).toBe('ended');
  });

  it('backlog is what was asked for: the kernel holds so many and one more', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    await using program = startProgram('listener.mjs', [JSON.stringify({ path, backlog: 3 })]);
    await program.next();
    program.child.kill('SIGSTOP');
    const native = requireNative('the test');
    const held: number[] = [];
    for (let fd = native.connectSocket(path); fd >= 0; fd = native.connectSocket(path))
      held.push(fd);
    for (const fd of held) native.closeDescriptor(fd);
    expect(held).toHaveLength(4);
  });

  it('offers no abstract names: they have no permissions', async () => {
    for (const path of ['\0abstract', '\0']) {
      await expect(listen({ path })).rejects.toThrow(TypeError);
      await expect(connect({ path })).rejects.toThrow(TypeError);
    }
  });

  it('connect gives up with its signal, and leaves nothing', async () => {
    using scratch = scratchDirectory();
    const server = createServer((socket) => socket.resume());
    await new Promise<void>((done) => server.listen(scratch.file('s'), done));
    chmodSync(scratch.file('s'), 0o600);
    const stop = new AbortController();
    const attempt = connect({ path: scratch.file('s'), signal: stop.signal });
    setTimeout(() => stop.abort(new Error('mine')), 20);
    await expect(attempt).rejects.toThrow('mine');
    await expect(
      connect({ path: 'x', signal: AbortSignal.abort(new Error('at once')) }),
    ).rejects.toThrow('at once');
    await new Promise((done) => server.close(done));
  });

  it.each([
    [{ paht: 'x' }, TypeError],
    [{ path: 7 }, TypeError],
    [{ path: '' }, TypeError],
    [{ path: 'a\0b' }, TypeError],
    [{ backlog: 0 }, RangeError],
    [{ helloTimeoutMs: 5 }, RangeError],
    [{ gid: -1 }, RangeError],
    [{ lane: 'fast' }, TypeError],
    [{ onEvent: 1 }, TypeError],
    [{ limits: { receiveMaxBytes: 1 } }, RangeError],
    [{ limits: { nothing: 1 } }, TypeError],
    [{ limits: { sessionWindowBytes: 1_000_000 } }, RangeError],
    [{ authorize: 'everybody' }, TypeError],
    [{ identity: 'none' }, TypeError],
  ])('throws for options %j', async (options, kind) => {
    await expect(listen(options as never)).rejects.toThrow(kind);
  });

  it('closes where it is unused, and goes on where a connection is on its way', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('socket');
    const listener = await listen({ path });
    listener.serve(Demo, demoHandlers());
    const silent = createConnection(path); // it says no hello
    await once(silent, 'connect');
    const coming = connect({ path });
    await until(async () => !(await listener.closeIfUnused()));
    const session = await coming;
    expect(await listener.closeIfUnused()).toBe(false);
    expect(await session.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    silent.destroy();
    await session.close();
    await until(() => listener.closeIfUnused());
    expect(existsSync(path)).toBe(false);
    await expect(connect({ path })).rejects.toMatchObject({ code: 'ERR_SIDECALL_NO_LISTENER' });
  });

  it('SHM_UNAVAILABLE where the ring lane is required', async () => {
    await using listener = await listen({ lane: 'socket' });
    const required = connect({ path: listener.path, lane: 'ring' });
    await expect(required).rejects.toMatchObject({
      code: 'ERR_SIDECALL_SHM_UNAVAILABLE',
      message: expect.stringContaining('the peer offers no shared memory'),
    });
  });

  it('closes in order: calls in flight are answered, waiting sessions are ended', async () => {
    const listener = await listen();
    const gate = defer();
    let begun = 0;
    listener.serve(
      Demo,
      demoHandlers({
        add: async ({ a }) => {
          begun += 1;
          await gate.promise;
          return { sum: a };
        },
      }),
    );
    const sessions = await Promise.all([1, 2, 3].map(() => connect({ path: listener.path })));
    const calls = sessions.map((session, a) => session.client(Demo).add({ a, b: 0 }));
    await until(() => begun === 3);
    const closing = listener.close();
    expect(existsSync(listener.path), basename(listener.path)).toBe(false);
    gate.resolve();
    expect(await Promise.all(calls)).toEqual([{ sum: 0 }, { sum: 1 }, { sum: 2 }]);
    await closing;
    for (const session of sessions) expect(await session.closed).toBeUndefined();
  });

  it('a session that nobody uses is closed after its idleTimeoutMs', async () => {
    using clock = new SteeredClock();
    await using listener = await listen({ idleTimeoutMs: 60_000 });
    const { hang } = demoHandlers();
    let isHanging = false;
    const waits: typeof hang = (request, context) => {
      isHanging = true;
      return hang(request, context);
    };
    listener.serve(Demo, demoHandlers({ hang: waits }));
    const session = await connect({ path: listener.path });
    let isDraining = false;
    void session.draining.then(() => (isDraining = true));
    const demo = session.client(Demo);
    for (let round = 0; round < 6; round += 1) {
      await demo.add({ a: round, b: 1 });
      await clock.pass(25_000);
    }
    const stop = new AbortController();
    const hanging = demo.hang(undefined, { signal: stop.signal }).catch((error: unknown) => error);
    await until(() => isHanging);
    for (let round = 0; round < 6; round += 1) {
      await clock.pass(60_000);
    }
    expect([session.state, isDraining]).toEqual(['open', false]); // busy is not idle
    stop.abort();
    await hanging;
    while (session.state !== 'closed') {
      await clock.pass(60_000);
    }
    expect(await session.closed).toBeUndefined();
    await expect(demo.add({ a: 1, b: 1 })).rejects.toMatchObject({ delivered: 'no' });
  });

  it('closing says not_serving to whoever watches, before its sessions drain', async () => {
    const listener = await listen({});
    listener.health.set('db', 'serving');
    await using session = await connect({ path: listener.path });
    const watch = session.client(HealthService).watch({ service: 'db' });
    expect((await watch.next()).value).toEqual({ status: 'serving' });
    const order: string[] = [];
    void session.draining.then(() => order.push('draining'));
    const next = watch.next().then(({ value }) => order.push(value?.status ?? 'done'));
    await listener.close();
    await next;
    expect(order).toEqual(['not_serving', 'draining']);
  });
});
