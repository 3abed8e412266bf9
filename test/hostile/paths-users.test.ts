// Paths whose owner and group change, and other users who try them meanwhile.
import { chmodSync, statSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { NativeAddon } from '../../src/addon/addon-api.ts';
import { requireNative } from '../../src/addon/load-addon.ts';
import { ownUid } from '../../src/uds/peer-credentials.ts';
import { SocketDirectory } from '../../src/uds/socket-directory.ts';
import { BoundPath } from '../../src/uds/socket-file.ts';
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
});
