// The socket of the listener before, from one that ends in the middle, or sends something else.
import { createServer, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import { listenerBefore } from '../../src/rendezvous/listener-before.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { descriptorOf } from '../../src/uds/net-socket.ts';
import { scratchDirectory } from '../support/programs.ts';

const native = requireNative('the test');
const never = new AbortController().signal;

/** Ends of the process before, which has the connection at its place. */
const endings: Record<string, (socket: Socket) => void> = {
  'before it has read': (socket) => void setImmediate(() => socket.destroy()),
  'after it has read': (socket) => void socket.once('data', () => socket.destroy()),
  'in order': (socket) => void socket.once('data', () => socket.end()),
};

async function receive(act: (socket: Socket) => void): Promise<number> {
  using directory = scratchDirectory();
  const place = directory.file('s');
  const server = createServer(act).listen(place);
  await new Promise((done) => server.once('listening', done));
  const session = { peer: { pid: process.pid, uid: process.getuid?.() } } as unknown as Session;
  try {
    return await listenerBefore(native, place, undefined, false).receive(place, session, never);
  } finally {
    server.close();
  }
}

describe('a listener before', () => {
  it.each(Object.entries(endings))(
    'that ends %s is told as gone, so that it is asked again',
    async (_, act) => {
      await expect(receive(act)).rejects.toMatchObject({
        code: 'ERR_SIDECALL_PEER_GONE',
        retryable: true,
      });
    },
  );

  it('that sends no socket, or another descriptor, breaks the protocol', async () => {
    let open: Socket | undefined;
    for (const descriptor of [-1, 0]) {
      const sent = receive((socket) => {
        open = socket;
        socket.once('data', () =>
          native.send(descriptorOf(socket), Uint8Array.of(0), 0, descriptor),
        );
      });
      await expect(sent).rejects.toMatchObject({ code: 'ERR_SIDECALL_PROTOCOL' });
      open?.destroy();
    }
  });
});
