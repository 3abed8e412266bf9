import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { basename, dirname } from 'node:path';
import { describe, expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { HealthService } from '../../src/rpc/serving/health.ts';
import { Desk, defer, deskHandlers, until } from '../support/contract.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';

function modeOf(path: string): string {
  return (statSync(path).mode & 0o7777).toString(8);
}

describe('a listener', () => {
  it('meets a client at a private path, and both know each other', async () => {
    await using listener = await listen();
    listener.serve(Desk, deskHandlers({ same: (_value, { peer }) => peer }));
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
    expect(await session.client(Desk).same(1)).toMatchObject({ ...ids, capturedAt: 'connect' });
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
        session.serve(Desk, deskHandlers({ add: () => ({ sum: taken.length }) }));
        taken.push(session.peer.pid as number);
        if (taken.length === 3) break;
      }
    })();
    const sessions = await Promise.all([1, 2, 3].map(() => connect({ path: listener.path })));
    await loop;
    expect(taken).toEqual([process.pid, process.pid, process.pid]);
    for (const session of sessions) await session.client(Desk).add({ a: 1, b: 1 });
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

  it('R1 refuses a path that is taken, a file, a link, or too long, and replaces nothing', async () => {
    using scratch = scratchDirectory();
    writeFileSync(scratch.file('file'), 'mine');
    symlinkSync(scratch.file('file'), scratch.file('link'));
    mkdirSync(scratch.file('directory'));
    for (const name of ['file', 'link', 'directory']) {
      await expect(listen({ path: scratch.file(name) })).rejects.toMatchObject({
        code: 'ERR_SIDECALL_PATH_UNSAFE',
        message: expect.stringContaining(scratch.file(name)),
      });
    }
    expect(readdirSync(scratch.path).sort()).toEqual(['directory', 'file', 'link']);
    await using listener = await listen({ path: scratch.file('s') });
    await expect(listen({ path: scratch.file('s') })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PATH_IN_USE',
    });
    await using _session = await connect({ path: listener.path });
  });

  it('U11 row 14 does not displace a server that takes no lock', async () => {
    using scratch = scratchDirectory();
    const foreign = createServer((socket) => socket.end());
    await new Promise<void>((done) => foreign.listen(scratch.file('s'), done));
    await expect(listen({ path: scratch.file('s') })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PATH_IN_USE',
    });
    expect(existsSync(scratch.file('s.lock'))).toBe(false);
    await new Promise((done) => foreign.close(done));
  });

  it('U11 G9 row 14 replaces the socket of a process that was killed', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    for (let round = 0; round < 3; round += 1) {
      await using program = startProgram('listener.mjs', [JSON.stringify({ path })]);
      await program.next();
      program.child.kill('SIGKILL');
      await program.exited;
      expect(existsSync(path)).toBe(true);
    }
    await using listener = await listen({ path });
    await using _session = await connect({ path: listener.path });
  });

  it('row 14 an old close never removes the socket of a successor', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    const old = await listen({ path });
    rmSync(path);
    rmSync(`${path}.lock`);
    const next = await listen({ path });
    await old.close();
    await using _session = await connect({ path });
    await next.close();
  });

  it('U10 row 16 names path, bytes and limit of a path that is too long, counted in bytes', async () => {
    using scratch = scratchDirectory();
    const fits = scratch.file('x'.repeat(107 - scratch.path.length - 1));
    expect(Buffer.byteLength(fits)).toBe(107);
    await using listener = await listen({ path: fits });
    await using _session = await connect({ path: listener.path });
    const tooLong = [`${fits}x`, scratch.file('ü'.repeat(60)), `/${'x'.repeat(200)}`];
    for (const path of tooLong) {
      const failure = {
        code: 'ERR_SIDECALL_PATH_TOO_LONG',
        message: expect.stringContaining('107') as unknown,
      };
      await expect(listen({ path })).rejects.toMatchObject(failure);
      await expect(connect({ path })).rejects.toMatchObject(failure);
    }
  });

  it('row 12 refuses a directory that others can write or own, unless told otherwise', async () => {
    using scratch = scratchDirectory();
    await using listener = await listen({ path: scratch.file('s') });
    for (const mode of [0o777, 0o1777, 0o770]) {
      chmodSync(scratch.path, mode);
      const failure = { code: 'ERR_SIDECALL_PATH_UNSAFE' };
      await expect(listen({ path: scratch.file('other') })).rejects.toMatchObject(failure);
      await expect(connect({ path: listener.path })).rejects.toMatchObject(failure);
      await using _open = await connect({ path: listener.path, unsafeDirectory: true });
      await using _other = await listen({ path: scratch.file('other'), unsafeDirectory: true });
    }
    chmodSync(scratch.path, 0o755);
    await using _session = await connect({ path: listener.path });
  });

  it('row 11 follows no link to a directory, and none at the path', async () => {
    using scratch = scratchDirectory();
    mkdirSync(scratch.file('real'), 0o700);
    symlinkSync(scratch.file('real'), scratch.file('linked'));
    await using listener = await listen({ path: scratch.file('real/s') });
    symlinkSync(listener.path, scratch.file('alias'));
    for (const path of [scratch.file('linked/s'), scratch.file('alias')]) {
      await expect(connect({ path })).rejects.toMatchObject({ code: 'ERR_SIDECALL_PATH_UNSAFE' });
    }
    await expect(listen({ path: scratch.file('linked/t') })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PATH_UNSAFE',
    });
  });

  it('NO_LISTENER where nobody listens: no directory, no file, or a dead socket', async () => {
    using scratch = scratchDirectory();
    const kept = await listen({ path: scratch.file('dead'), unlinkOnClose: false });
    await kept.close();
    expect(existsSync(scratch.file('dead'))).toBe(true);
    await expect(listen({ path: scratch.file('no/such') })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_SYSTEM',
      message: expect.stringContaining('no/such'.slice(0, 2)),
    });
    for (const name of ['none', 'no/such', 'dead']) {
      await expect(connect({ path: scratch.file(name) })).rejects.toMatchObject({
        code: 'ERR_SIDECALL_NO_LISTENER',
        retryable: true,
        status: 'unavailable',
      });
    }
  });

  it('U9 gives the socket the mode and group that were asked for', async () => {
    using scratch = scratchDirectory();
    const gid = process.getegid?.() as number;
    await using listener = await listen({ path: scratch.file('s'), mode: '0660', gid });
    expect(modeOf(listener.path)).toBe('660');
    for (const mode of ['rw', 0o10000, -1, '999']) {
      await expect(listen({ mode } as never)).rejects.toThrow(RangeError);
    }
  });

  it('row 13 the socket has its mode from the moment it exists', async () => {
    using scratch = scratchDirectory();
    const before = process.umask(0);
    try {
      const seen = new Set<string>();
      const { watch } = await import('node:fs');
      const watcher = watch(scratch.path, (_event, name) => {
        try {
          if (name === 's') seen.add(modeOf(scratch.file('s')));
        } catch {
          // gone again
        }
      });
      for (let round = 0; round < 50; round += 1) {
        const listener = await listen({ path: scratch.file('s') });
        seen.add(modeOf(listener.path));
        await listener.close();
      }
      watcher.close();
      expect([...seen]).toEqual(['600']);
    } finally {
      process.umask(before);
    }
  });

  it('U7 U8 the client checks type, owner and mode of the file', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    const uid = process.geteuid?.() as number;
    await using _listener = await listen({ path, authorize: () => true });
    const failure = { code: 'ERR_SIDECALL_PATH_UNSAFE' };
    const attempt = async (mode: number, expected: object | undefined): Promise<void> => {
      chmodSync(path, mode);
      await using _session = await connect({ path, expect: expected });
    };
    for (const mode of [0o600, 0o700]) await attempt(mode, undefined);
    for (const mode of [0o777, 0o666, 0o660]) {
      await expect(attempt(mode, undefined)).rejects.toMatchObject(failure);
    }
    await attempt(0o770, { modes: ['0770'] });
    await attempt(0o770, { modes: [0o770, '0600'] });
    for (const mode of [0o700, 0o771]) {
      await expect(attempt(mode, { modes: ['0770'] })).rejects.toMatchObject(failure);
    }
    await attempt(0o660, { uid, gid: statSync(path).gid });
    await expect(attempt(0o600, { uid: uid + 1 })).rejects.toMatchObject(failure);
    await expect(attempt(0o600, { gid: statSync(path).gid + 1 })).rejects.toMatchObject(failure);
    writeFileSync(scratch.file('file'), '');
    await expect(connect({ path: scratch.file('file') })).rejects.toMatchObject({
      ...failure,
      message: expect.stringContaining('file'),
    });
    await expect(connect({ path, expect: { modes: 'x' } as never })).rejects.toThrow(TypeError);
  });

  it('row 2 row 90 refuses by its policy, tells who and why, and serves on', async () => {
    const events: SidecallEvent[] = [];
    let isOpen = false;
    const listener = await listen({
      authorize: (peer) => {
        if (!isOpen) throw new Error(`not you, ${peer.pid}`);
        return true;
      },
      onEvent: (event) => events.push(event),
    });
    listener.serve(Desk, deskHandlers());
    await expect(connect({ path: listener.path })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_GONE',
    });
    await until(() => events.length === 1);
    expect(events[0]).toMatchObject({
      type: 'refused',
      error: { code: 'ERR_SIDECALL_PEER_DENIED' },
      peer: { pid: process.pid },
    });
    isOpen = true;
    await using session = await connect({ path: listener.path });
    expect(await session.client(Desk).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    await listener.close();
  });

  it('row 90 a policy that never settles ends at the deadline', async () => {
    const events: SidecallEvent[] = [];
    await using listener = await listen({
      authorize: () => new Promise(() => undefined),
      helloTimeoutMs: 50,
      onEvent: (event) => events.push(event),
    });
    await expect(connect({ path: listener.path })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_GONE',
    });
    await until(() => events.length === 1);
    expect(events[0]?.error.code).toBe('ERR_SIDECALL_HELLO_TIMEOUT');
  });

  it('the client refuses whoever listens by its own policy', async () => {
    await using listener = await listen();
    for (const expected of [{ pid: 1 }, { uid: process.geteuid?.(), pid: 1 }, () => false]) {
      await expect(
        connect({ path: listener.path, expect: expected as never }),
      ).rejects.toMatchObject({
        code: 'ERR_SIDECALL_PEER_DENIED',
      });
    }
    await using _session = await connect({ path: listener.path, expect: { pid: process.pid } });
  });

  it('row 20 U12 U14 slow and silent hellos end on time and disturb nobody', async () => {
    const events: SidecallEvent[] = [];
    await using listener = await listen({
      helloTimeoutMs: 1000,
      backlog: 2048, // all of them at once: no retry on their side
      onEvent: (event) => events.push(event),
    });
    listener.serve(Desk, deskHandlers());
    const silent = Array.from({ length: 1000 }, () => createConnection(listener.path));
    const closed = silent.map(
      (socket) => new Promise((done) => socket.on('close', done).on('error', done).resume()),
    );
    await using session = await connect({ path: listener.path });
    expect(await session.client(Desk).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    await Promise.all(closed);
    await until(() => events.length === 1000);
    expect(new Set(events.map(({ error }) => error.code))).toEqual(
      new Set(['ERR_SIDECALL_HELLO_TIMEOUT']),
    );
    expect(await session.client(Desk).add({ a: 1, b: 2 })).toEqual({ sum: 3 });
  });

  it('lets 200 in at once by the standard deadlines while each turn of the loop takes 20 ms', async () => {
    await using listener = await listen();
    listener.serve(Desk, deskHandlers());
    let isOver = false;
    const burn = (): void => {
      const until20ms = performance.now() + 20;
      while (performance.now() < until20ms);
      if (!isOver) setImmediate(burn);
    };
    setImmediate(burn);
    const sessions = await Promise.all(
      Array.from({ length: 200 }, () => connect({ path: listener.path, lane: 'socket' })),
    );
    isOver = true;
    expect(await sessions[199]?.client(Desk).add({ a: 1, b: 2 })).toEqual({ sum: 3 });
    await Promise.all(sessions.map((session) => session.close()));
  });

  it('asks its policy nothing about connections of a crowd that never speak', async () => {
    const codes: string[] = [];
    let asked = 0;
    await using listener = await listen({
      helloTimeoutMs: 300,
      authorize: () => {
        asked += 1;
        return true;
      },
      onEvent: ({ error }) => codes.push(error.code),
    });
    const silent = Array.from({ length: 100 }, () => createConnection(listener.path));
    const closed = silent.map(
      (socket) => new Promise((done) => socket.on('close', done).on('error', done).resume()),
    );
    await Promise.all(closed);
    await until(() => codes.length === 100);
    expect(new Set(codes)).toEqual(new Set(['ERR_SIDECALL_HELLO_TIMEOUT']));
    expect(asked).toBe(32); // those that came before it was a crowd
  });

  it('can be closed by whoever is told that one of a crowd was refused', async () => {
    let closing: Promise<void> | undefined;
    const listener = await listen({
      hellosMax: 40,
      helloTimeoutMs: 60_000,
      onEvent: () => {
        closing ??= listener.close();
      },
    });
    const silent = Array.from({ length: 40 }, () => createConnection(listener.path));
    await Promise.all(silent.map((socket) => once(socket, 'connect')));
    await new Promise((done) => setTimeout(done, 150)); // they are silent now
    // Those that came before it was a crowd speak: the one that goes is of the crowd.
    for (const socket of silent.slice(0, 32)) socket.write('s');
    await new Promise((done) => setTimeout(done, 60));
    const last = createConnection(listener.path);
    const all = [...silent, last].map(
      (socket) => new Promise((done) => socket.on('close', done).on('error', done).resume()),
    );
    await Promise.all(all);
    await closing;
    expect(listener.sessionCount).toBe(0);
  });

  it('closes at once with a crowd in its hello', async () => {
    const listener = await listen({ helloTimeoutMs: 60_000 });
    const silent = Array.from({ length: 100 }, () => createConnection(listener.path));
    const closed = silent.map(
      (socket) => new Promise((done) => socket.on('close', done).on('error', () => undefined)),
    );
    await Promise.all(silent.map((socket) => once(socket, 'connect')));
    await listener.close();
    for (const socket of silent) socket.resume();
    await Promise.all(closed);
  });

  it('row 20 with hellosMax reached the silent make room for the honest', async () => {
    const events: SidecallEvent[] = [];
    await using listener = await listen({
      helloTimeoutMs: 60_000,
      hellosMax: 8,
      onEvent: (event) => events.push(event),
    });
    listener.serve(Desk, deskHandlers());
    const silent = Array.from({ length: 8 }, () => createConnection(listener.path));
    const gone = Promise.race(
      silent.map((socket) => new Promise((done) => socket.on('close', done).resume())),
    );
    await new Promise((done) => setTimeout(done, 150));
    await using session = await connect({ path: listener.path });
    expect(await session.client(Desk).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    await gone;
    expect(events[0]).toMatchObject({
      type: 'limit',
      error: { code: 'ERR_SIDECALL_LIMIT_CONNECTIONS' },
    });
    for (const socket of silent) socket.destroy();
  });

  it('row 28 refuses more sessions than it takes, typed, and takes more when some end', async () => {
    const events: SidecallEvent[] = [];
    await using listener = await listen({
      sessionsMax: 3,
      sessionsPerUidMax: 2,
      onEvent: (event) => events.push(event),
    });
    const first = await connect({ path: listener.path });
    await using _second = await connect({ path: listener.path });
    await expect(connect({ path: listener.path })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_LIMIT_CONNECTIONS',
      retryable: true,
    });
    expect(events).toMatchObject([{ type: 'limit', peer: { pid: process.pid } }]);
    await first.close();
    await until(() => listener.sessionCount === 1);
    await using _third = await connect({ path: listener.path });
  });

  it('row 15 binds again when its socket is deleted or replaced, and says so', async () => {
    using scratch = scratchDirectory();
    const events: SidecallEvent[] = [];
    const path = scratch.file('s');
    await using listener = await listen({ path, onEvent: (event) => events.push(event) });
    listener.serve(Desk, deskHandlers());
    await using before = await connect({ path });
    rmSync(path);
    await until(() => events.length === 1);
    expect(events[0]).toMatchObject({
      type: 'path-lost',
      error: { code: 'ERR_SIDECALL_PATH_LOST' },
    });
    await using after = await connect({ path });
    for (const session of [before, after]) {
      expect(await session.client(Desk).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    }
    rmSync(path);
    writeFileSync(path, 'somebody else');
    await until(() => events.length === 2);
    expect(events[1]?.error).toMatchObject({
      code: 'ERR_SIDECALL_PATH_LOST',
      cause: { code: 'ERR_SIDECALL_PATH_UNSAFE' },
    });
    expect(statSync(path).isFile()).toBe(true);
  });

  it('row 14 G24 of many that start at once exactly one listens', async () => {
    using scratch = scratchDirectory();
    for (let round = 0; round < 100; round += 1) {
      const path = scratch.file('s');
      const starters = await Promise.allSettled(Array.from({ length: 32 }, () => listen({ path })));
      const winners = starters.filter(({ status }) => status === 'fulfilled');
      expect(winners).toHaveLength(1);
      for (const starter of starters) {
        if (starter.status === 'rejected') {
          expect(starter.reason).toMatchObject({ code: 'ERR_SIDECALL_PATH_IN_USE' });
        } else await starter.value.close();
      }
    }
  });

  it('row 14 G24 of many processes that start at once exactly one listens, and it can be reached', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    for (let round = 0; round < 4; round += 1) {
      const programs = Array.from({ length: 8 }, () =>
        startProgram('listener.mjs', [JSON.stringify({ path })]),
      );
      const said = await Promise.all(programs.map((program) => program.next()));
      const winners = said.filter((line) => line.path !== undefined);
      expect(winners).toHaveLength(1);
      for (const line of said) {
        if (line.path === undefined) expect(line.failed).toBe('ERR_SIDECALL_PATH_IN_USE');
      }
      const session = await connect({ path });
      expect(session.peer.pid).toBe(winners[0]?.pid);
      await session.close();
      // Killed without a word: the next round starts over its stale socket.
      await Promise.all(programs.map((program) => program[Symbol.asyncDispose]()));
    }
  });

  it('row 76 process.exit and an uncaught exception leave no socket and no lock', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    await using program = startProgram('listener.mjs', [JSON.stringify({ path })]);
    await program.next();
    const session = await connect({ path });
    const exiting = session.call('Desk.exit', 0).catch(() => undefined);
    void session.notify('Desk.exit', 0);
    await program.exited;
    await exiting;
    await session.closed;
    expect(readdirSync(scratch.path)).toEqual([]);
    await using unnamed = startProgram('listener.mjs', ['{}']);
    const { path: made } = (await unnamed.next()) as { path: string };
    unnamed.child.stdin?.end(); // it exits without closing
    await unnamed.exited;
    expect(existsSync(dirname(made))).toBe(false);
  });

  it('U36 a full backlog is retried until the deadline', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    await using program = startProgram('listener.mjs', [
      JSON.stringify({ path, backlog: 1, helloTimeoutMs: 60_000 }),
    ]);
    const { pid } = await program.next();
    process.kill(pid as number, 'SIGSTOP');
    const waiting = Array.from({ length: 20 }, () => connect({ path, timeoutMs: 60_000 }));
    await expect(connect({ path, timeoutMs: 100 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_HELLO_TIMEOUT',
    });
    process.kill(pid as number, 'SIGCONT');
    const sessions = await Promise.all(waiting);
    await Promise.all(sessions.map((session) => session.close()));
  });

  it('U36 2,000 connects at once against a backlog of 16 all succeed', async () => {
    await using listener = await listen({
      backlog: 16,
      hellosMax: 4096,
      sessionsPerUidMax: 4096,
      helloTimeoutMs: 60_000,
    });
    const connecting = Array.from({ length: 2000 }, () =>
      connect({ path: listener.path, timeoutMs: 60_000 }),
    );
    const sessions = await Promise.all(connecting);
    await until(() => listener.sessionCount === 2000);
    await Promise.all(sessions.map((session) => session.close()));
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

  it('row 17 offers no abstract names: they have no permissions', async () => {
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
  ])('S37 throws for options %j', async (options, kind) => {
    await expect(listen(options as never)).rejects.toThrow(kind);
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
    listener.serve(
      Desk,
      deskHandlers({
        add: async ({ a }) => {
          await gate.promise;
          return { sum: a };
        },
      }),
    );
    const sessions = await Promise.all([1, 2, 3].map(() => connect({ path: listener.path })));
    const calls = sessions.map((session, a) => session.client(Desk).add({ a, b: 0 }));
    await new Promise((done) => setTimeout(done, 20));
    const closing = listener.close();
    expect(existsSync(listener.path), basename(listener.path)).toBe(false);
    gate.resolve();
    expect(await Promise.all(calls)).toEqual([{ sum: 0 }, { sum: 1 }, { sum: 2 }]);
    await closing;
    for (const session of sessions) expect(await session.closed).toBeUndefined();
  });

  it('S16 a session that nobody uses is closed after its idleTimeoutMs', async () => {
    await using listener = await listen({ idleTimeoutMs: 80 });
    listener.serve(Desk, deskHandlers());
    const session = await connect({ path: listener.path });
    const desk = session.client(Desk);
    for (let round = 0; round < 6; round += 1) {
      await desk.add({ a: round, b: 1 });
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    const hanging = desk.hang(undefined, { timeoutMs: 300 });
    await expect(hanging).rejects.toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
    expect(session.state).toBe('open'); // busy is not idle
    expect(await session.closed).toBeUndefined();
    await expect(desk.add({ a: 1, b: 1 })).rejects.toMatchObject({ delivered: 'no' });
  });

  it('G5 closing says not_serving to whoever watches, before its sessions drain', async () => {
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
