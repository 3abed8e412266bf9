// connect({ protocol: 'plain' }), and what connect() refuses.
import { once } from 'node:events';
import { chmodSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { describe, expect, it } from 'vitest';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { scratchDirectory } from '../support/programs.ts';

/** A server that is none of ours: it sends back what it gets, and counts its connections. */
async function echoServer(): Promise<
  AsyncDisposable & { path: string; connections: () => number; received: () => number }
> {
  const scratch = scratchDirectory();
  const path = scratch.file('s');
  let connections = 0;
  let received = 0;
  const server: Server = createServer((socket) => {
    connections += 1;
    socket.on('data', (bytes) => {
      received += bytes.byteLength;
    });
    socket.on('error', () => undefined).pipe(socket);
  });
  await new Promise<void>((done) => server.listen(path, done));
  chmodSync(path, 0o600);
  return {
    path,
    connections: () => connections,
    received: () => received,
    async [Symbol.asyncDispose]() {
      await new Promise((done) => server.close(done));
      scratch[Symbol.dispose]();
    },
  };
}

describe("connect({ protocol: 'plain' })", () => {
  it.each(['kernel', 'path-permissions'] as const)(
    'is a net.Socket to a program of another kind, with its peer (%s)',
    async (identity) => {
      await using server = await echoServer();
      const socket = await connect({ path: server.path, protocol: 'plain', identity });
      expect(socket.peer).toMatchObject(
        identity === 'kernel'
          ? { origin: 'kernel', capturedAt: 'listen', pid: process.pid, uid: process.geteuid?.() }
          : { origin: 'path', uid: undefined },
      );
      const message = Buffer.alloc(1_000_000, 'sidecall');
      socket.end(message);
      const pieces: Buffer[] = [];
      for await (const piece of socket) pieces.push(piece as Buffer);
      expect(Buffer.concat(pieces).equals(message)).toBe(true);
    },
  );

  it('meets a plain listener, and each knows the other', async () => {
    await using door = await listen({ protocol: 'plain' });
    const socket = await connect({ path: door.path, protocol: 'plain' });
    for await (const accepted of door) {
      expect(accepted.peer.pid).toBe(process.pid);
      accepted.end('hello');
      break;
    }
    expect(String((await once(socket, 'data'))[0])).toBe('hello');
    socket.end();
  });

  it('sends no byte to a process that the policy refuses', async () => {
    await using server = await echoServer();
    for (const expected of [{ pid: 1 }, () => false]) {
      await expect(
        connect({ path: server.path, protocol: 'plain', expect: expected }),
      ).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_DENIED' });
    }
    chmodSync(server.path, 0o666);
    await expect(connect({ path: server.path, protocol: 'plain' })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PATH_UNSAFE',
    });
    expect(server.received()).toBe(0);
  });
});

it.each<[object | string, RegExp]>([
  ['/run/x', /connect\(\) takes an object: connect\(\{ path: '\/run\/x' \}\)/],
  [{ path: '/run/x', protocol: 'http' }, /protocol must be sidecall or plain, got 'http'/],
  [{ path: '/run/x', protocol: 'plain', lane: 'ring' }, /unknown option 'lane'/],
  [{ path: '/run/x', timeoutMS: 1 }, /unknown option 'timeoutMS'; did you mean 'timeoutMs'\?/],
  [{}, /needs a path/],
])('connect(%j) is refused with words', async (options, words) => {
  await expect(connect(options as never)).rejects.toThrow(words);
});
