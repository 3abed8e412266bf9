// Paths: a foreign file in the place of a socket is left alone, and every path that fits works from
// both sides.
import { once } from 'node:events';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createConnection, Socket } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { NativeAddon } from '../../src/addon/addon-api.ts';
import { requireNative } from '../../src/addon/load-addon.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { BindLock } from '../../src/uds/bind-lock.ts';
import { ownUid } from '../../src/uds/peer-credentials.ts';
import { isAnswered } from '../../src/uds/plain-socket.ts';
import { SocketDirectory } from '../../src/uds/socket-directory.ts';
import { BoundPath } from '../../src/uds/socket-file.ts';
import { Demo, demoHandlers } from '../support/contract.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';

const native = requireNative('the test');

describe('a socket file', () => {
  it('has its mode, owner and group before it listens', () => {
    using scratch = scratchDirectory();
    const calls: string[] = [];
    const names = ['bindSocket', 'changeOwnerAt', 'changeModeAt', 'listenOn'] as const;
    const recording = Object.fromEntries(
      names.map((name) => [
        name,
        (...args: never[]) => {
          calls.push(name);
          return (native[name] as (...given: never[]) => unknown)(...args);
        },
      ]),
    );
    const trust = { owners: [ownUid()], unsafeDirectory: true };
    const addon: NativeAddon = { ...native, ...recording };
    const directory = new SocketDirectory(addon, scratch.file('socket'), trust);
    const options = { mode: 0o660, owner: ownUid() + 1, gid: 61_234, backlog: 1 };
    const bound = new BoundPath(directory, options);
    native.closeDescriptor(bound.listen());
    const { mode, uid, gid } = statSync(scratch.file('socket'));
    expect([mode & 0o777, uid, gid]).toEqual([options.mode, options.owner, options.gid]);
    expect(calls).toEqual(['bindSocket', 'changeOwnerAt', 'changeModeAt', 'listenOn']);
    bound.release();
    directory.close();
  });
});

describe('a socket that is replaced while it is made', () => {
  it.each(['changeModeAt', 'changeOwnerAt'] as const)(
    'before %s: no other file is changed',
    (call) => {
      using scratch = scratchDirectory();
      const path = scratch.file('socket');
      const secret = scratch.file('secret');
      writeFileSync(secret, 'ours alone');
      chmodSync(secret, 0o600);
      const swapping: NativeAddon = {
        ...native,
        // Another process that can write the directory is faster.
        [call]: (...args: never[]) => {
          unlinkSync(path);
          symlinkSync(secret, path);
          (native[call] as (...given: never[]) => void)(...args);
        },
      };
      const trust = { owners: [ownUid()], unsafeDirectory: true };
      const directory = new SocketDirectory(swapping, path, trust);
      const bound = new BoundPath(directory, {
        mode: 0o666,
        owner: undefined,
        gid: 61_234,
        backlog: 1,
      });
      try {
        native.closeDescriptor(bound.listen());
      } finally {
        bound.release();
        directory.close();
      }
      const { mode, gid } = statSync(secret);
      expect([mode & 0o777, gid]).toEqual([0o600, process.getegid?.()]);
    },
  );
});

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
  it('lets nobody in before they are final, whatever the umask', async () => {
    using scratch = scratchDirectory();
    chmodSync(scratch.path, 0o755);
    const path = scratch.file('plain');
    await using listens = startProgram('plain-racer.mjs', [path, '1000000', '000']);
    await listens.next();
    const knock = new URL('attackers/knock.py', import.meta.url).pathname;
    await using stranger = startProgram('', [knock, path, '3'], {
      command: 'python3',
      uid: 61_234,
      gid: 61_234,
    });
    listens.tell('go');
    const counts = await stranger.next();
    console.log(`another user: ${JSON.stringify(counts)}`);
    expect(counts.denied).toBeGreaterThan(0); // it did find the socket
    expect(counts.in).toBe(0);
  });

  const racesOf = 60;
  it(`has one listener after each of ${racesOf} races of four over what a dead one left`, async () => {
    using scratch = scratchDirectory();
    for (let race = 0; race < racesOf; race += 1) {
      const path = scratch.file(`race-${race}`);
      leaveStale(path);
      const starters = Array.from({ length: 4 }, () =>
        startProgram('plain-racer.mjs', [path, '1']),
      );
      try {
        await Promise.all(starters.map((starter) => starter.next()));
        for (const starter of starters) starter.tell('go');
        const outcomes = await Promise.all(starters.map((starter) => starter.next()));
        expect(outcomes.filter(({ listens }) => listens === true)).toHaveLength(1);
        const losers = outcomes.filter(({ code }) => code === 'ERR_SIDECALL_PATH_IN_USE');
        expect(losers).toHaveLength(3);
        // Those that lost end, and remove nothing.
        const winner = outcomes.findIndex(({ listens }) => listens === true);
        for (const [index, starter] of starters.entries()) {
          if (index === winner) continue;
          starter.child.stdin?.end();
          await starter.exited;
        }
        const socket = createConnection({ path });
        await once(socket, 'connect');
        socket.destroy();
        expect(readdirSync(scratch.path)).toEqual([`race-${race}`]);
        starters[winner]?.child.stdin?.end();
        await starters[winner]?.exited;
        expect(readdirSync(scratch.path)).toEqual([]);
      } finally {
        await Promise.all(starters.map((starter) => starter[Symbol.asyncDispose]()));
      }
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
