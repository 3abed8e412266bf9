// A listener with `protocol: 'plain'`: the policy, then plain byte streams.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import { listen, type PlainListenOptions } from '../../src/rendezvous/listen.ts';
import type { PlainListener } from '../../src/rendezvous/plain-listener.ts';
import { until } from '../support/contract.ts';
import { scratchDirectory } from '../support/programs.ts';

/** Echoes what each connection sends, and ends when it does. */
async function echoing(
  options: Omit<PlainListenOptions, 'protocol'> = {},
): Promise<PlainListener & { heard: () => number }> {
  const listener = await listen({ protocol: 'plain', ...options });
  let heard = 0;
  void (async () => {
    for await (const connection of listener) {
      connection.on('data', (chunk: Buffer) => {
        heard += chunk.length;
      });
      connection.pipe(connection);
    }
  })();
  return Object.assign(listener, { heard: () => heard });
}

describe('a plain listener', () => {
  it('gives a socket whose first byte is the application’s, and says who is there', async () => {
    await using listener = await listen({ protocol: 'plain' });
    const socket = createConnection(listener.path);
    socket.end('first');
    for await (const connection of listener) {
      expect(connection.peer).toMatchObject({
        origin: 'kernel',
        capturedAt: 'connect',
        pid: process.pid,
        uid: process.geteuid?.(),
      });
      connection.end('welcome');
      expect(await text(connection.setEncoding('utf8'))).toBe('first');
      break;
    }
    expect(await text(socket.setEncoding('utf8'))).toBe('welcome');
    await until(() => listener.connectionCount === 0);
  });

  it('gives up the place of a peer that has gone, also before it was taken', async () => {
    await using listener = await listen({ protocol: 'plain', sessionsMax: 3 });
    for (let round = 0; round < 10; round += 1) {
      const sockets = [1, 2, 3].map(() => createConnection(listener.path));
      await Promise.all(sockets.map((socket) => once(socket, 'connect')));
      await until(() => listener.connectionCount === 3);
      for (const socket of sockets) socket.destroy();
      await until(() => listener.connectionCount === 0);
    }
  });

  it('serves a peer that ended its half before it was accepted', async () => {
    await using listener = await listen({ protocol: 'plain' });
    using scratch = scratchDirectory();
    const file = scratch.file('received');
    const script = `
import os, socket, sys
ready, done = os.pipe()
if os.fork() == 0:
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    s.shutdown(socket.SHUT_WR)
    os.write(done, b"x")
    open(sys.argv[2], "wb").write(s.recv(100))
else:
    os.read(ready, 1)
`;
    // The loop stands still until the half has ended; a child of the program stays and reads.
    const { status } = spawnSync('python3', ['-c', script, listener.path, file], {
      stdio: 'ignore',
    });
    expect(status).toBe(0);
    for await (const connection of listener) {
      connection.end('welcome');
      break;
    }
    await until(() => existsSync(file) && readFileSync(file, 'utf8') === 'welcome');
  });

  it('serves a program in another language', async () => {
    await using listener = await echoing();
    const script = `
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"x")
assert s.recv(1) == b"x"
s.shutdown(socket.SHUT_WR)
assert s.recv(1) == b""
`;
    const child = spawn('python3', ['-c', script, listener.path], { stdio: 'inherit' });
    const [code] = await once(child, 'exit');
    expect(code).toBe(0);
    expect(listener.heard()).toBe(1);
  });

  it('refuses who the policy does not accept, before a byte is read', async () => {
    const events: SidecallEvent[] = [];
    await using listener = await echoing({
      authorize: async () => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        return false;
      },
      onEvent: (event) => events.push(event),
    });
    const socket = createConnection(listener.path);
    socket.on('error', () => undefined).write(Buffer.alloc(100_000));
    await new Promise((resolve) => socket.once('close', resolve)); // an error may come first
    expect(listener.heard()).toBe(0);
    expect(events).toMatchObject([
      { type: 'refused', error: { code: 'ERR_SIDECALL_PEER_DENIED' }, peer: { pid: process.pid } },
    ]);
  });

  it('refuses more connections than it may have, and goes on', async () => {
    const events: SidecallEvent[] = [];
    const onEvent = (event: SidecallEvent): void => void events.push(event);
    await using listener = await echoing({ sessionsMax: 2, onEvent });
    const open = async (): Promise<ReturnType<typeof createConnection>> => {
      const socket = createConnection(listener.path);
      await once(socket, 'connect');
      return socket.on('error', () => undefined);
    };
    const first = await open();
    const second = await open();
    await until(() => listener.connectionCount === 2);
    const third = await open();
    await once(third, 'close');
    expect(events).toMatchObject([
      { type: 'limit', error: { code: 'ERR_SIDECALL_LIMIT_CONNECTIONS' } },
    ]);
    first.end();
    first.resume();
    await once(first, 'close');
    await until(() => listener.connectionCount === 1);
    const fourth = await open();
    fourth.write('still here');
    const [chunk] = await once(fourth, 'data');
    expect(String(chunk)).toBe('still here');
    for (const socket of [second, fourth]) socket.destroy();
  });

  it('ends its connections when it closes, and destroys those that do not end', async () => {
    const listener = await listen({ protocol: 'plain' });
    const socket = createConnection({ path: listener.path, allowHalfOpen: true });
    socket.resume();
    await until(() => listener.connectionCount === 1);
    const ended = once(socket, 'end');
    const closing = listener.close({ deadlineMs: 30 });
    await ended;
    await closing;
    await listener.close();
    expect(listener.connectionCount).toBe(0);
    socket.destroy();
    expect((await listener[Symbol.asyncIterator]().next()).done).toBe(true);
  });

  it('works without the kernel’s word where that was asked for', async () => {
    await using listener = await echoing({ identity: 'path-permissions' });
    const socket = createConnection(listener.path);
    socket.end('x');
    expect(await text(socket.setEncoding('utf8'))).toBe('x');
  });

  it('knows no option of sessions', async () => {
    await expect(listen({ protocol: 'plain', lane: 'ring' } as never)).rejects.toThrow(/lane/);
    await expect(listen({ protocol: 'http' as never })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_VALUE',
    });
  });
});
