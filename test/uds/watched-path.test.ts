import { once } from 'node:events';
import { createConnection } from 'node:net';
import { expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import { ownUid } from '../../src/uds/peer-credentials.ts';
import { SocketDirectory } from '../../src/uds/socket-directory.ts';
import { ListeningPath } from '../../src/uds/watched-path.ts';
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
