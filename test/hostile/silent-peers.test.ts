// Peers that say nothing, or that the kernel does not name: an honest one beside them is served.
import { once } from 'node:events';
import { createConnection } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { Demo, demoHandlers, until } from '../support/contract.ts';

describe('a listener', () => {
  it('serves an honest peer while 64 are silent, long before their time is over', async () => {
    const events: SidecallEvent[] = [];
    const onEvent = (event: SidecallEvent): unknown => events.push(event);
    const listener = await listen({ helloTimeoutMs: 60_000, onEvent });
    listener.serve(Demo, demoHandlers());
    const silent = Array.from({ length: 64 }, () => createConnection(listener.path));
    await Promise.all(silent.map((socket) => once(socket, 'connect')));
    const session = await connect({ path: listener.path });
    expect(await session.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    expect(events).toEqual([]);
    await session.close();
    for (const socket of silent) socket.on('error', () => undefined).destroy();
    await listener.close();
  });

  it.each(['EACCES', 'EINVAL', 'ENOMEM', 'ENOTCONN', 'ESRCH'])(
    'refuses a peer whose look-up fails with %s, and serves the next one',
    async (code) => {
      const events: SidecallEvent[] = [];
      const onEvent = (event: SidecallEvent): unknown => events.push(event);
      await using listener = await listen({ onEvent });
      listener.serve(Demo, demoHandlers());
      const failing = vi.spyOn(requireNative('the test'), 'peerCredentials');
      try {
        failing.mockImplementation(() => {
          throw Object.assign(new Error(code), { code });
        });
        const socket = createConnection(listener.path)
          .on('error', () => undefined)
          .resume();
        await once(socket, 'close');
        await until(() => events.length > 0);
        const unknown = { code: 'ERR_SIDECALL_CREDENTIALS_UNAVAILABLE' };
        expect(events).toMatchObject([{ type: 'refused', error: unknown, peer: undefined }]);
        await expect(connect({ path: listener.path })).rejects.toMatchObject(unknown);
      } finally {
        failing.mockRestore();
      }
      await using session = await connect({ path: listener.path });
      expect(await session.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    },
  );
});
