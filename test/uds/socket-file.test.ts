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
import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { modeOf } from '../support/listening.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';

describe('the path of a listener', () => {
  it('refuses a path that is taken, a file, a link, or too long, and replaces nothing', async () => {
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

  it('does not displace a server that takes no lock', async () => {
    using scratch = scratchDirectory();
    const foreign = createServer((socket) => socket.end());
    await new Promise<void>((done) => foreign.listen(scratch.file('s'), done));
    await expect(listen({ path: scratch.file('s') })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PATH_IN_USE',
    });
    expect(existsSync(scratch.file('s.lock'))).toBe(false);
    await new Promise((done) => foreign.close(done));
  });

  it('replaces the socket of a process that was killed', async () => {
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

  it('an old close never removes the socket of a successor', async () => {
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

  it('names path, bytes and limit of a path that is too long, counted in bytes', async () => {
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

  it('refuses a directory that others can write or own, unless told otherwise', async () => {
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

  it('follows no link to a directory, and none at the path', async () => {
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

  it('gives the socket the mode and group that were asked for', async () => {
    using scratch = scratchDirectory();
    const gid = process.getegid?.() as number;
    await using listener = await listen({ path: scratch.file('s'), mode: '0660', gid });
    expect(modeOf(listener.path)).toBe('660');
    for (const mode of ['rw', 0o10000, -1, '999']) {
      await expect(listen({ mode } as never)).rejects.toThrow(RangeError);
    }
  });

  it('the socket has its mode from the moment it exists', async () => {
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

  it('the client checks type, owner and mode of the file', async () => {
    using scratch = scratchDirectory();
    const path = scratch.file('s');
    const uid = process.geteuid?.() as number;
    await using _listener = await listen({ path, authorize: () => true });
    const failure = { code: 'ERR_SIDECALL_PATH_UNSAFE' };
    const failureOf = (words: string): object => ({
      ...failure,
      message: expect.stringContaining(words),
    });
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
      await expect(attempt(mode, { modes: ['0770'] })).rejects.toMatchObject(
        failureOf(`has mode 0${mode.toString(8)}`),
      );
    }
    await attempt(0o660, { uid, gid: statSync(path).gid });
    await expect(attempt(0o600, { uid: uid + 1 })).rejects.toMatchObject(
      failureOf('has owner uid'),
    );
    await expect(attempt(0o600, { gid: statSync(path).gid + 1 })).rejects.toMatchObject(
      failureOf('has gid'),
    );
    writeFileSync(scratch.file('file'), '');
    await expect(connect({ path: scratch.file('file') })).rejects.toMatchObject(
      failureOf('is a file, not a socket'),
    );
    await expect(connect({ path, expect: { modes: 'x' } as never })).rejects.toThrow(TypeError);
  });
});
