import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { dirname } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { checkLimits, ranges } from '../../src/base/limits/option-limits.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { encodeHello, HelloFlag } from '../../src/uds/hello-bytes.ts';
import { Demo, demoHandlers, turns, until } from '../support/contract.ts';
import { type RunningProgram, scratchDirectory, startProgram } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';
import { SteeredClock } from '../support/steered-clock.ts';

describe('connections of a listener', () => {
  it('refuses by its policy, tells who and why, and serves on', async () => {
    const events: SidecallEvent[] = [];
    let isOpen = false;
    const listener = await listen({
      authorize: (peer) => {
        if (!isOpen) throw new Error(`not you, ${peer.pid}`);
        return true;
      },
      onEvent: (event) => events.push(event),
    });
    listener.serve(Demo, demoHandlers());
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
    expect(await session.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    await listener.close();
  });

  it('a policy that never settles ends at the deadline', async () => {
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

  it('does not count the time in which it makes memory, which takes long where it is much', async () => {
    using clock = new SteeredClock();
    const events: SidecallEvent[] = [];
    const onEvent = (event: SidecallEvent): unknown => events.push(event);
    await using listener = await listen({ helloTimeoutMs: 5_000, ringBytes: 131_072, onEvent });
    const native = requireNative('the test');
    const { createOutbox } = native;
    using making = vi.spyOn(native, 'createOutbox').mockImplementation((...args) => {
      const begun = createOutbox(...args); // on a thread: the hello goes on when it is done
      // That of the listener, whose work has begun when this turn is over.
      if (args[1] === 131_072) queueMicrotask(() => clock.advance(10_000));
      return begun;
    });
    await using session = await connect({ path: listener.path, timeoutMs: 60_000 });
    expect([session.lane, events]).toEqual(['ring', []]);
    expect(making).toHaveBeenCalled();
  });

  it('ends the hello of a peer that is silent once memory was made for it', async () => {
    using clock = new SteeredClock();
    const events: SidecallEvent[] = [];
    const blockAreaBytes = 2 ** 26;
    const onEvent = (event: SidecallEvent): unknown => events.push(event);
    await using listener = await listen({ helloTimeoutMs: 60_000, blockAreaBytes, onEvent });
    const shape = { capacity: 65_536, blockArea: 0, nonce: Buffer.alloc(16, 1) };
    const hello = encodeHello(checkLimits({}), { shape, features: 0 }, HelloFlag.descriptorFollows);
    const socket = createConnection(listener.path);
    socket.on('error', () => undefined).write(hello);
    await once(socket, 'data');
    clock.advance(60_000);
    await until(() => events.length === 1);
    expect(events[0]?.error.code).toBe('ERR_SIDECALL_HELLO_TIMEOUT');
  });

  it('slow and silent hellos end on time and disturb nobody', async () => {
    using clock = new SteeredClock();
    const events: SidecallEvent[] = [];
    await using listener = await listen({
      helloTimeoutMs: 60_000,
      backlog: 2048, // all of them at once: no retry on their side
      onEvent: (event) => events.push(event),
    });
    listener.serve(Demo, demoHandlers());
    const silent = Array.from({ length: 1000 }, () => createConnection(listener.path));
    const closed = silent.map(
      (socket) => new Promise((done) => socket.on('close', done).on('error', done).resume()),
    );
    await using session = await connect({ path: listener.path, timeoutMs: 60_000 });
    expect(await session.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    clock.advance(60_000);
    await Promise.all(closed);
    await until(() => events.length === 1000);
    expect(new Set(events.map(({ error }) => error.code))).toEqual(
      new Set(['ERR_SIDECALL_HELLO_TIMEOUT']),
    );
    expect(await session.client(Demo).add({ a: 1, b: 2 })).toEqual({ sum: 3 });
  });

  it('lets 200 in at once by the standard deadlines while each turn of the loop takes 20 ms', async () => {
    await using listener = await listen({ helloTimeoutMs: 60_000 });
    listener.serve(Demo, demoHandlers());
    let isOver = false;
    let turnsOf20ms = 0;
    const burn = (): void => {
      turnsOf20ms += 1;
      for (const until20ms = performance.now() + 20; performance.now() < until20ms; );
      if (!isOver) setImmediate(burn);
    };
    setImmediate(burn);
    const options = { path: listener.path, lane: 'socket', timeoutMs: 60_000 } as const;
    const sessions = await Promise.all(Array.from({ length: 200 }, () => connect(options)));
    isOver = true;
    expect(turnsOf20ms).toBeLessThan(ranges.connectTimeoutMs.standard / 20);
    expect(await sessions[199]?.client(Demo).add({ a: 1, b: 2 })).toEqual({ sum: 3 });
    await Promise.all(sessions.map((session) => session.close()));
  });

  it('asks its policy nothing about connections of a crowd that never speak', async () => {
    using clock = new SteeredClock();
    const codes: string[] = [];
    let asked = 0;
    await using listener = await listen({
      helloTimeoutMs: 60_000,
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
    await Promise.all(silent.map((socket) => once(socket, 'connect')));
    await until(() => asked === 32);
    await turns(20); // each was accepted
    clock.advance(60_000);
    await Promise.all(closed);
    await until(() => codes.length === 100);
    expect(new Set(codes)).toEqual(new Set(['ERR_SIDECALL_HELLO_TIMEOUT']));
    expect(asked).toBe(32); // those that came before it was a crowd
  });

  it('gives no place and no time to connections that have left', async () => {
    const events: SidecallEvent[] = [];
    let asked = 0;
    await using listener = await listen({
      hellosMax: 1,
      backlog: 512,
      authorize: () => {
        asked += 1;
        return true;
      },
      onEvent: (event) => events.push(event),
    });
    listener.serve(Demo, demoHandlers());
    const waiting = createConnection(listener.path); // has the one place
    await until(() => asked === 1);
    const program = [
      'import socket, sys',
      'for _ in range(300):',
      '    with socket.socket(socket.AF_UNIX) as s: s.connect(sys.argv[1])',
    ].join('\n');
    // The loop stands still meanwhile: all of them have left when it looks.
    const { status } = spawnSync('python3', ['-c', program, listener.path]);
    expect(status).toBe(0);
    await until(() => events.length === 300);
    for (const { type, error } of events) {
      expect([type, error.code]).toEqual(['refused', 'ERR_SIDECALL_PEER_GONE']);
      expect(error.message).toMatch(/^process \d+ of uid \d+ connected and left without a byte$/);
    }
    expect([asked, waiting.destroyed]).toEqual([1, false]);
    waiting.destroy();
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

  it('with hellosMax reached the silent make room for the honest', async () => {
    using clock = new SteeredClock();
    const events: SidecallEvent[] = [];
    await using listener = await listen({
      helloTimeoutMs: 60_000,
      hellosMax: 8,
      onEvent: (event) => events.push(event),
    });
    listener.serve(Demo, demoHandlers());
    const silent = Array.from({ length: 8 }, () => createConnection(listener.path));
    const gone = Promise.race(
      silent.map((socket) => new Promise((done) => socket.on('close', done).resume())),
    );
    await Promise.all(silent.map((socket) => once(socket, 'connect')));
    await turns(50);
    clock.advance(150); // they are accepted, and silent now
    await using session = await connect({ path: listener.path });
    expect(await session.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    await gone;
    expect(events[0]).toMatchObject({
      type: 'limit',
      error: { code: 'ERR_SIDECALL_LIMIT_CONNECTIONS' },
    });
    for (const socket of silent) socket.destroy();
  });

  it('refuses more sessions than it takes, typed, and takes more when some end', async () => {
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

  it('binds again when its socket is deleted or replaced, and says so', async () => {
    using scratch = scratchDirectory();
    const events: SidecallEvent[] = [];
    const path = scratch.file('s');
    await using listener = await listen({ path, onEvent: (event) => events.push(event) });
    listener.serve(Demo, demoHandlers());
    await using before = await connect({ path });
    rmSync(path);
    await until(() => events.length === 1);
    expect(events[0]).toMatchObject({
      type: 'path-lost',
      error: { code: 'ERR_SIDECALL_PATH_LOST' },
    });
    await using after = await connect({ path });
    for (const session of [before, after]) {
      expect(await session.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
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

  it('of many that start at once exactly one listens', async () => {
    using scratch = scratchDirectory();
    for (let round = 0; round < rounds(500, 40); round += 1) {
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

  it('of 32 processes that race again and again exactly one listens each time, and it can be reached', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    const start = async (): Promise<RunningProgram> => {
      const program = startProgram('listen-racer.mjs');
      expect(await program.next()).toEqual({ ready: true });
      return program;
    };
    const programs = await Promise.all(Array.from({ length: 32 }, start));
    try {
      for (let race = 0; race < rounds(500, 25); race += 1) {
        for (const program of programs) program.tell(path);
        const outcomes = await Promise.all(programs.map((program) => program.next()));
        const losers = outcomes.filter(({ code }) => code === 'ERR_SIDECALL_PATH_IN_USE');
        expect(losers).toHaveLength(31);
        const at = outcomes.findIndex(({ listens }) => listens === true);
        const winner = programs[at] as RunningProgram;
        const session = await connect({ path });
        expect(session.peer.pid).toBe(winner.pid);
        await session.close();
        if (race % 20 === 19) {
          // Killed without a word: the next race is over its stale socket.
          await winner[Symbol.asyncDispose]();
          programs[at] = await start();
        } else {
          winner.tell('close');
          expect(await winner.next()).toEqual({ closed: true });
        }
      }
    } finally {
      await Promise.all(programs.map((program) => program[Symbol.asyncDispose]()));
    }
  });

  it('process.exit and an uncaught exception leave no socket and no lock', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    await using program = startProgram('listener.mjs', [JSON.stringify({ path })]);
    await program.next();
    const session = await connect({ path });
    const exiting = session.call('Demo.exit', 0).catch(() => undefined);
    void session.notify('Demo.exit', 0);
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

  it('a full backlog is retried until the deadline', async () => {
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
});
