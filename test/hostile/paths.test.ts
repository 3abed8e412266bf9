// Paths: a foreign file in the place of a socket is left alone, and every path that fits works from
// both sides.
import { once } from 'node:events';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createConnection, Socket } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { BindLock } from '../../src/uds/bind-lock.ts';
import { isAnswered } from '../../src/uds/plain-socket.ts';
import { Demo, demoHandlers } from '../support/contract.ts';
import { type RunningProgram, scratchDirectory, startProgram } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

const native = requireNative('the test');

describe('a name as long as a path may be', () => {
  it('is listened on, connected to, and replaced when it is stale', async () => {
    const directory = mkdtempSync('/tmp/p');
    try {
      const path = join(directory, 'x'.repeat(107 - directory.length - 1));
      await using killed = startProgram('listener.mjs', [JSON.stringify({ path })]);
      await killed.next();
      await using session = await connect({ path });
      expect(await session.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
      await expect(listen({ path })).rejects.toMatchObject({ code: 'ERR_SIDECALL_PATH_IN_USE' });
      killed.child.kill('SIGKILL');
      await killed.exited;
      await using listener = await listen({ path });
      listener.serve(Demo, demoHandlers());
      await using next = await connect({ path });
      expect(await next.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});

describe('a path whose permissions are all there is', () => {
  it('has one listener after each race of four over what a dead one left', async () => {
    using scratch = scratchDirectory();
    const start = async (): Promise<RunningProgram> => {
      const program = startProgram('listen-racer.mjs', [JSON.stringify(plain)]);
      expect(await program.next()).toEqual({ ready: true });
      return program;
    };
    const programs = await Promise.all(Array.from({ length: 4 }, start));
    try {
      for (let race = 0; race < rounds(1_000, 100); race += 1) {
        const name = `race-${race}`;
        leaveStale(scratch.file(name));
        for (const program of programs) program.tell(scratch.file(name));
        const outcomes = await Promise.all(programs.map((program) => program.next()));
        const losers = outcomes.filter(({ code }) => code === 'ERR_SIDECALL_PATH_IN_USE');
        expect(losers).toHaveLength(3);
        const winner = outcomes.findIndex(({ listens }) => listens === true);
        // Losers that end remove nothing.
        for (const [at, program] of programs.entries()) {
          if (at === winner || race % 20 !== 0) continue;
          program.child.stdin?.end();
          await program.exited;
          programs[at] = await start();
        }
        const socket = createConnection({ path: scratch.file(name) });
        await once(socket, 'connect');
        socket.destroy();
        expect(readdirSync(scratch.path)).toEqual([name]);
        programs[winner]?.tell('close');
        expect(await programs[winner]?.next()).toEqual({ closed: true });
        expect(readdirSync(scratch.path)).toEqual([]);
      }
    } finally {
      await Promise.all(programs.map((program) => program[Symbol.asyncDispose]()));
    }
  });

  it('is not kept by a starter that was killed, whose directory goes after a while', async () => {
    using scratch = scratchDirectory();
    const left = join(scratch.path, '.scal-AbCdEf');
    mkdirSync(left, 0o700);
    leaveStale(join(left, 'l'));
    {
      await using _listener = await listen({ ...plain, path: scratch.file('first') });
      expect(readdirSync(scratch.path)).toContain('.scal-AbCdEf'); // it may be about to listen
    }
    // An entry of others with such a name is no starter's.
    writeFileSync(scratch.file('.scal-a-file'), '');
    writeFileSync(scratch.file('.scal-ZyXwVu'), '');
    mkdirSync(scratch.file('.scal-OpenAl'), 0o755);
    const before = new Date(Date.now() - 120_000);
    for (const name of readdirSync(scratch.path)) utimesSync(scratch.file(name), before, before);
    await using _listener = await listen({ ...plain, path: scratch.file('second') });
    expect(readdirSync(scratch.path).sort()).toEqual([
      '.scal-OpenAl',
      '.scal-ZyXwVu',
      '.scal-a-file',
      'second',
    ]);
  });

  it('is waited for while another starter is at it, and not for ever', async () => {
    using scratch = scratchDirectory();
    const place = await BindLock.take(scratch.path, 1_000, async () => false);
    const second = BindLock.take(scratch.path, 50, async () => false);
    await expect(second).rejects.toMatchObject({ code: 'ERR_SIDECALL_PATH_IN_USE' });
    const third = BindLock.take(scratch.path, 60_000, async () => false);
    place.release();
    (await third).release();
    expect(readdirSync(scratch.path)).toEqual([]);
  });

  it('works with any name and umask, and says where the directory does not allow it', async () => {
    const directory = mkdtempSync('/tmp/p');
    const mask = process.umask(0o777);
    try {
      const inner = join(directory, 'd'.repeat(107 - directory.length - 3));
      mkdirSync(inner);
      chmodSync(inner, 0o700);
      const path = join(inner, 'x'); // 107 bytes, and its name is shorter than any of ours
      await using listener = await listen({ ...plain, path, mode: 0o600 });
      listener.serve(Demo, demoHandlers());
      await using session = await connect({ ...plain, path });
      expect(await session.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
      await expect(listen({ ...plain, path })).rejects.toMatchObject({
        code: 'ERR_SIDECALL_PATH_IN_USE',
      });
    } finally {
      process.umask(mask);
      rmSync(directory, { recursive: true });
    }
    await expect(
      listen({ ...plain, path: '/proc/self/socket', unsafeDirectory: true }),
    ).rejects.toMatchObject({ code: 'ERR_SIDECALL_SYSTEM' });
  });
});

const plain = { identity: 'path-permissions' } as const;

/** A socket file that no process holds any more. */
function leaveStale(path: string): void {
  native.closeDescriptor(native.bindSocket(path));
}

describe('where refusing can mean that a listener is busy (macOS)', () => {
  it.each([
    { platform: 'darwin', refusals: 7, isAnswered: true },
    { platform: 'darwin', refusals: 8, isAnswered: false },
    { platform: 'linux', refusals: 1, isAnswered: false },
    { platform: 'linux', refusals: 0, isAnswered: true },
  ])(
    '$refusals refusals on $platform: $isAnswered',
    async ({ platform, refusals, ...expected }) => {
      let attempts = 0;
      const refuse = (): Socket => {
        attempts += 1;
        const socket = new Socket();
        const code = attempts <= refusals ? 'ECONNREFUSED' : 'EAGAIN';
        queueMicrotask(() => socket.emit('error', Object.assign(new Error(code), { code })));
        return socket;
      };
      expect(await isAnswered('/busy', { connect: refuse, platform })).toBe(expected.isAnswered);
    },
  );
});
