import { once } from 'node:events';
import { mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { ownUid } from '../../src/uds/peer-credentials.ts';
import { SocketDirectory } from '../../src/uds/socket-directory.ts';
import { ListeningPath } from '../../src/uds/watched-path.ts';
import { turns, until } from '../support/contract.ts';
import { scratchDirectory } from '../support/programs.ts';

const bind = {
  mode: 0o600,
  owner: undefined,
  gid: undefined,
  backlog: 8,
  unlinkOnClose: true,
};

it('tells that a connection took the last descriptor, though none was refused', async () => {
  using scratch = scratchDirectory();
  const real = requireNative('a listener');
  let left = 1;
  // The first connection takes the only descriptor, and no other connection waits.
  const native = Object.assign(Object.create(real), {
    duplicate: (fd: number) => {
      if (left === 0) throw Object.assign(new Error('dup: EMFILE'), { code: 'EMFILE' });
      left -= 1;
      return real.duplicate(fd);
    },
  });
  const trust = { owners: [ownUid(), 0], unsafeDirectory: false };
  const events: string[] = [];
  let tell: () => void = () => undefined;
  const told = new Promise<void>((done) => {
    tell = done;
  });
  const path = new ListeningPath(
    native,
    new SocketDirectory(native, scratch.file('s'), trust),
    bind,
    {
      keepsSockets: false,
      onConnection: ({ fd }) => {
        events.push('connection');
        real.closeDescriptor(fd);
      },
      onDescriptorsExhausted: (cause) => {
        events.push(String((cause as { code?: string }).code));
        tell();
      },
      onPathLost: () => undefined,
    },
  );
  const socket = createConnection(scratch.file('s')).resume();
  await once(socket, 'close');
  await told;
  path.close();
  expect(events).toEqual(['connection', 'EMFILE']);
});

/** Listens, and gives the events of the path. */
async function watched(path: string) {
  const events: SidecallEvent[] = [];
  const listener = await listen({ path, onEvent: (event) => events.push(event) });
  return { listener, events };
}

const answers = async (path: string): Promise<boolean> => {
  const session = await connect({ path, timeoutMs: 1_000 }).catch(() => undefined);
  await session?.close();
  return session !== undefined;
};

it.each(['removed', 'moved away', 'replaced'])('follows its directory that was %s', async (how) => {
  using scratch = scratchDirectory();
  const directory = scratch.file('run');
  const path = join(directory, 'socket');
  mkdirSync(directory, { mode: 0o700 });
  const { listener, events } = await watched(path);
  if (how === 'removed') rmSync(directory, { recursive: true });
  else renameSync(directory, scratch.file('elsewhere'));
  if (how !== 'replaced') {
    await until(() => events.length > 0);
    expect(events[0]).toMatchObject({
      type: 'path-lost',
      error: { code: 'ERR_SIDECALL_PATH_LOST' },
    });
  }
  mkdirSync(directory, { mode: 0o700 });
  while (!(await answers(path))) await turns(10);
  expect(events.at(-1)?.error.message).toContain('it was bound again');
  await expect(listen({ path })).rejects.toMatchObject({ code: 'ERR_SIDECALL_PATH_IN_USE' });
  await listener.close();
  expect(readdirSync(directory)).toEqual([]);
  if (how !== 'removed') expect(readdirSync(scratch.file('elsewhere'))).toEqual([]);
});

it('leaves a path to the process that has taken it in a new directory', async () => {
  using scratch = scratchDirectory();
  const directory = scratch.file('run');
  const path = join(directory, 'socket');
  mkdirSync(directory, { mode: 0o700 });
  const { listener, events } = await watched(path);
  renameSync(directory, scratch.file('elsewhere'));
  mkdirSync(directory, { mode: 0o700 });
  const other = await listen({ path });
  await until(() => listener.isPathTaken);
  expect(events.at(-1)).toMatchObject({
    type: 'path-lost',
    error: { cause: { code: 'ERR_SIDECALL_PATH_IN_USE' } },
  });
  expect(await answers(other.path)).toBe(true);
  await other.close();
  await until(() => !listener.isPathTaken); // it is bound again
  expect(await answers(path)).toBe(true);
  await listener.close();
});
