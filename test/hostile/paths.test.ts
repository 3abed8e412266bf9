// Paths: what somebody puts in the place of a socket is left alone, and every path that fits works from both sides.
import {
  chmodSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { connect } from '../../src/connect.ts';
import { listen } from '../../src/listen.ts';
import { type NativeAddon, requireNative } from '../../src/native.ts';
import { BoundPath } from '../../src/uds/bind.ts';
import { SocketDirectory } from '../../src/uds/directory.ts';
import { ownUid } from '../../src/uds/peer.ts';
import { Desk, deskHandlers } from '../support/contract.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';

const native = requireNative('the test');

describe('a socket that is replaced while it is made', () => {
  it.each(['changeModeAt', 'changeGroupAt'] as const)(
    'before %s: no other file is changed',
    (call) => {
      using scratch = scratchDirectory();
      const path = scratch.file('socket');
      const secret = scratch.file('secret');
      writeFileSync(secret, 'ours alone');
      chmodSync(secret, 0o600);
      const swapping: NativeAddon = {
        ...native,
        // Somebody who can write the directory is faster.
        [call]: (...args: never[]) => {
          unlinkSync(path);
          symlinkSync(secret, path);
          (native[call] as (...given: never[]) => void)(...args);
        },
      };
      const trust = { owners: [ownUid()], unsafeDirectory: true };
      const directory = new SocketDirectory(swapping, path, trust);
      const bound = new BoundPath(directory, { mode: 0o666, gid: 61_234, backlog: 1 });
      try {
        native.closeDescriptor(bound.listen());
      } finally {
        bound.leave();
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
      expect(await session.client(Desk).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
      await expect(listen({ path })).rejects.toMatchObject({ code: 'ERR_SIDECALL_PATH_IN_USE' });
      killed.child.kill('SIGKILL');
      await killed.exited;
      await using listener = await listen({ path });
      listener.serve(Desk, deskHandlers());
      await using next = await connect({ path });
      expect(await next.client(Desk).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
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
});
