// Clients that break shmipc-go's wire or memory: their session ends, with a typed event, and no
// other.
import { existsSync } from 'node:fs';
import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import type { ShmipcListener } from '../../src/shmipc/main.ts';
import { connectShmipc, listenShmipc } from '../../src/shmipc/main.ts';
import { until } from '../support/contract.ts';
import { Random } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';
import { event, type FileClient, fileClient, named } from '../support/shmipc-files.ts';

const trusting = { trustsPeerMemory: true } as const;
const count = rounds(600, 60);

let listener: ShmipcListener;
let events: SidecallEvent[];
let received: string[];

beforeEach(async () => {
  events = [];
  received = [];
  const onEvent = (one: SidecallEvent): void => void events.push(one);
  listener = await listenShmipc({ ...trusting, onEvent });
  void (async () => {
    for await (const session of listener) {
      void (async () => {
        for await (const stream of session) {
          stream.on('error', () => undefined);
          stream.on('data', (bytes) => received.push(String(bytes)));
          stream.pipe(stream);
        }
      })();
    }
  })();
});

afterEach(() => listener.close());

const closedSocket = (socket: Socket): Promise<void> =>
  new Promise((resolve) => void socket.on('error', () => undefined).once('close', resolve));

/** Another client is served as ever. */
async function expectServed(): Promise<void> {
  await using session = await connectShmipc({ path: listener.path, ...trusting });
  await using stream = session.open();
  stream.write('hello');
  for await (const bytes of stream) {
    expect(String(bytes)).toBe('hello');
    break;
  }
}

async function expectEvent(type: string, code: string): Promise<void> {
  await until(() => events.length > 0);
  expect(events[0]).toMatchObject({ type, error: { code }, peer: { pid: process.pid } });
}

describe('listenShmipc() and a client with memory in files', () => {
  it('serves it, and removes its files at its end', async () => {
    using client = await fileClient(listener.path);
    client.introduce();
    client.send(2, Buffer.from('hello'));
    await until(() => received.length === 1);
    client.send(2, Buffer.alloc(1_000, 'x'));
    await until(() => received.join('').length === 1_005);
    client.close(2);
    client.socket.destroy();
    await until(() => !existsSync(client.queues) && !existsSync(client.buffers));
    expect(events).toEqual([]);
  });

  it('takes what was put before the handshake ended, and after the last wake', async () => {
    using client = await fileClient(listener.path);
    client.socket.cork();
    client.introduce();
    client.send(2, Buffer.from('one'));
    client.send(2, Buffer.from('two'));
    client.socket.end();
    await until(() => received.join('') === 'onetwo');
  });

  it.each<[string, (client: FileClient) => void, string]>([
    ['version 4', ({ socket }) => void socket.write(event(4, undefined, 4)), 'VERSION_MISMATCH'],
    ['version 0', ({ socket }) => void socket.write(event(0, undefined, 0)), 'VERSION_MISMATCH'],
    ['no event at all', ({ socket }) => void socket.write('GET / HTTP/1.1\r\n\r\n'), 'PROTOCOL'],
    ['a wake first', ({ wake }) => wake(), 'PROTOCOL'],
    ['an empty body', ({ socket }) => void socket.write(event(0)), 'PROTOCOL'],
    [
      'a name too long',
      ({ socket }) => void socket.write(event(0, Buffer.alloc(9_000))),
      'PROTOCOL',
    ],
    [
      'names that do not fill the event',
      ({ socket, queues, buffers }) =>
        void socket.write(event(0, Buffer.concat([named(queues, buffers), Buffer.alloc(1)]))),
      'PROTOCOL',
    ],
    ['a file elsewhere', ({ introduce }) => introduce(['/etc/passwd', '/etc/group']), 'PROTOCOL'],
    [
      'a name that leads elsewhere',
      (one) => one.introduce([`/dev/shm/../..${one.queues}`, one.buffers]),
      'PROTOCOL',
    ],
    ['a file that is missing', (one) => one.introduce([`${one.queues}_no`, one.buffers]), 'SYSTEM'],
    ['one file twice', (one) => one.introduce([one.buffers, one.buffers]), 'PROTOCOL'],
    [
      'a queue file that was cut',
      (one) => {
        one.cut('queues', 100);
        one.introduce();
      },
      'PROTOCOL',
    ],
    [
      'an empty queue file',
      (one) => {
        one.cut('queues', 0);
        one.introduce();
      },
      'PROTOCOL',
    ],
    [
      'a buffer file that was cut',
      (one) => {
        one.cut('buffers', 4_000);
        one.introduce();
      },
      'PROTOCOL',
    ],
    [
      'a capacity of 0',
      (one) => {
        one.store('queues', 0, 0);
        one.introduce();
      },
      'PROTOCOL',
    ],
    [
      'slices of an odd size',
      (one) => {
        one.store('buffers', 24, 257);
        one.introduce();
      },
      'PROTOCOL',
    ],
  ])('refuses %s', async (_, spoil, code) => {
    using client = await fileClient(listener.path);
    const closed = closedSocket(client.socket);
    spoil(client);
    await closed;
    await expectEvent('refused', `ERR_SIDECALL_${code}`);
    await expectServed();
  });

  it('refuses a client that says nothing, and one without descriptors', async () => {
    const short = await listenShmipc({
      ...trusting,
      helloTimeoutMs: 100,
      onEvent: (one) => void events.push(one),
    });
    using client = await fileClient(short.path);
    await closedSocket(client.socket);
    await expectEvent('refused', 'ERR_SIDECALL_HELLO_TIMEOUT');
    events.length = 0;
    const socket = await connect({ path: listener.path, protocol: 'plain' });
    socket.resume().write(event(4, undefined, 3));
    socket.write(event(5, named('a', 'b'), 3));
    socket.write(Buffer.alloc(1));
    await closedSocket(socket);
    await expectEvent('refused', 'ERR_SIDECALL_PROTOCOL');
    await short.close();
  });

  it.each<[string, (client: FileClient) => void, string]>([
    ['an event that is none', ({ socket }) => void socket.write(event(5)), 'PROTOCOL'],
    ['a restart', ({ socket }) => void socket.write(event(8, Buffer.alloc(8))), 'PROTOCOL'],
    [
      'a tail that runs away',
      (one) => {
        one.store('queues', 12, 1_000);
        one.wake();
      },
      'RING_CORRUPT',
    ],
    [
      'a tail that goes back',
      (one) => {
        one.store('queues', 12, 0);
        one.wake();
      },
      'RING_CORRUPT',
    ],
    [
      'a message without a slice',
      (one) => {
        one.store('queues', 40, 7);
        one.store('queues', 12, 2);
        one.wake();
      },
      'RING_CORRUPT',
    ],
    [
      'a queue file that is cut',
      (one) => {
        one.cut('queues', 0);
        one.wake();
      },
      'RING_CORRUPT',
    ],
    [
      'a buffer file that is cut',
      (one) => {
        one.cut('buffers', 0);
        one.wake();
      },
      'RING_CORRUPT',
    ],
  ])('ends a session by %s', async (_, spoil, code) => {
    using client = await fileClient(listener.path);
    client.introduce();
    client.send(2, Buffer.from('hello'));
    await until(() => received.length === 1);
    const closed = closedSocket(client.socket);
    spoil(client);
    await closed;
    await expectEvent('adapter-failed', `ERR_SIDECALL_${code}`);
    await expectServed();
  });

  it('survives random stores and random bytes of a client, and serves others', async () => {
    const random = new Random(7);
    for (let round = 0; round < count; round += 1) {
      using client = await fileClient(listener.path);
      client.introduce();
      await until(() => listener.sessionCount === 1);
      for (let step = 0; step < 20; step += 1) {
        const file = random.next(2) === 0 ? 'queues' : 'buffers';
        const words = file === 'queues' ? 390 : 1_100;
        if (random.next(3) === 0)
          client.send(2 + random.next(4), Buffer.alloc(1 + random.next(200)));
        else
          client.store(
            file,
            4 * random.next(words),
            random.next(2) === 0 ? random.next(0x7fff_ffff) : random.next(300),
          );
        if (random.next(10) === 0)
          client.socket.write(Buffer.alloc(1 + random.next(40), random.next(256)));
      }
      client.socket.destroy();
      await until(() => listener.sessionCount === 0);
    }
    await expectServed();
    const codes = new Set(events.map(({ error }) => error.code));
    for (const code of codes)
      expect(code).toMatch(/^ERR_SIDECALL_(PROTOCOL|RING_CORRUPT|PEER_GONE)$/);
  });

  it('refuses misuse', async () => {
    await expect(listenShmipc({} as never)).rejects.toThrow('trustsPeerMemory');
    await expect(listenShmipc(undefined as never)).rejects.toThrow(TypeError);
    await expect(listenShmipc({ ...trusting, directory: 'shm' })).rejects.toThrow('absolute');
    await expect(listenShmipc({ ...trusting, memoryMaxBytes: 5 })).rejects.toThrow(RangeError);
    await expect(listenShmipc({ ...trusting, streamsMax: 0 })).rejects.toThrow(RangeError);
    await expect(listenShmipc({ ...trusting, lane: 'ring' } as never)).rejects.toThrow(TypeError);
    await expect(connectShmipc({ path: listener.path } as never)).rejects.toThrow(
      'trustsPeerMemory',
    );
    await expect(connectShmipc(undefined as never)).rejects.toThrow(TypeError);
    const place = { path: listener.path, ...trusting };
    await expect(connectShmipc({ ...place, bufferBytes: 5 })).rejects.toThrow(RangeError);
    await expect(connectShmipc({ ...place, queueCapacity: 1 })).rejects.toThrow(RangeError);
    await expect(connectShmipc({ ...place, stallTimeoutMs: 1 })).rejects.toThrow(RangeError);
  });
});
