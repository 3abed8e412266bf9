// Sessions of shmipc-go with a peer in files that is slow, ends early, or asks for too much.
import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import {
  type ListenShmipcOptions,
  listenShmipc,
  type ShmipcSession,
  type ShmipcStream,
} from '../../src/shmipc/main.ts';
import { encodeData } from '../../src/shmipc/socket-events.ts';
import { until } from '../support/contract.ts';
import { type FileClient, fileClient } from '../support/shmipc-files.ts';

const trusting = { trustsPeerMemory: true } as const;

interface Served extends AsyncDisposable {
  readonly peer: FileClient;
  readonly session: ShmipcSession;
  readonly events: SidecallEvent[];
  next(): Promise<ShmipcStream>;
}

async function served(options: Partial<ListenShmipcOptions> = {}): Promise<Served> {
  const events: SidecallEvent[] = [];
  const onEvent = (event: SidecallEvent): void => void events.push(event);
  const listener = await listenShmipc({ ...trusting, onEvent, ...options });
  const sessions = listener[Symbol.asyncIterator]();
  const peer = await fileClient(listener.path);
  peer.introduce();
  const session = (await sessions.next()).value as ShmipcSession;
  const streams = session[Symbol.asyncIterator]();
  return {
    peer,
    session,
    events,
    next: async () => (await streams.next()).value as ShmipcStream,
    async [Symbol.asyncDispose]() {
      peer[Symbol.dispose]();
      await listener.close({ deadlineMs: 0 });
    },
  };
}

async function textOf(stream: ShmipcStream): Promise<string> {
  let text = '';
  for await (const bytes of stream) text += String(bytes);
  return text;
}

describe('a peer that goes', () => {
  it('ends no process by streams that are piped, or that were not taken', async () => {
    await using both = await served();
    both.peer.send(2, Buffer.from('hello'));
    const stream = await both.next();
    stream.pipe(stream);
    both.peer.send(3, Buffer.from('never taken'));
    await until(() => both.session.stats().streams === 2);
    both.peer.socket.destroy();
    expect(await both.session.closed).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    await until(() => stream.destroyed);
    expect(await textOf(await both.next()).catch((error) => error.code)).toBe(
      'ERR_SIDECALL_PEER_GONE',
    );
  });

  it('has its bytes by the socket read before the close that came by the queue', async () => {
    for (const writes of [false, true]) {
      await using both = await served({ unreadMaxBytes: 64 * 1024 });
      const { peer } = both;
      // The memory has 16 slices: the reader stands still with more bytes than it may hold.
      peer.send(2, Buffer.from('first'));
      const slow = await both.next();
      peer.socket.write(encodeData(2, 2, Buffer.alloc(100_000, 's')));
      await until(() => both.session.stats().unreadBytes > 60_000);
      peer.send(3, Buffer.from('by the queue, '));
      const text = 'by the socket '.repeat(5_000);
      peer.socket.write(encodeData(2, 3, Buffer.from(text)));
      peer.close(3);
      await new Promise((resolve) => setTimeout(resolve, 50));
      if (writes) slow.write('to a peer that has gone');
      peer.socket.end();
      await new Promise((resolve) => setTimeout(resolve, 50));
      slow.resume();
      expect(await textOf(await both.next())).toBe(`by the queue, ${text}`);
    }
  });

  it('calls back each write that was under way', async () => {
    await using both = await served();
    both.peer.send(2, Buffer.from('hello'));
    const stream = await both.next();
    const outcomes: unknown[] = [];
    for (let count = 0; count < 200; count += 1) {
      stream.write('x'.repeat(100), (error) => outcomes.push(error)); // the queue has 64 places
    }
    await until(() => outcomes.length > 0);
    stream.destroy();
    await until(() => outcomes.length === 200);
    expect(outcomes.some((error) => error instanceof Error)).toBe(true);
  });

  it('leaves to its reader what had arrived, with a write under way', async () => {
    await using both = await served();
    both.peer.send(2, Buffer.from('0123456789'));
    const stream = await both.next();
    for (let count = 0; count < 100; count += 1) stream.write('x'); // the queue has 64 places
    for (let count = 0; count < 5; count += 1) both.peer.send(2, Buffer.from('abc'));
    await until(() => both.session.stats().unreadBytes >= 15);
    both.peer.socket.destroy();
    await both.session.closed;
    let text = '';
    const reading = (async () => {
      for await (const bytes of stream) text += String(bytes);
    })();
    await expect(reading).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    expect(text).toBe(`0123456789${'abc'.repeat(5)}`);
  });
});

describe('close() of a stream whose session is over', () => {
  it('ends at once with bytes unread and a write under way', async () => {
    for (const closesFirst of [false, true]) {
      await using both = await served();
      both.peer.send(2, Buffer.from('never read'));
      const stream = await both.next();
      for (let count = 0; count < 100; count += 1) stream.write('x'); // the queue has 64 places
      const closing = closesFirst ? stream.close() : undefined;
      both.peer.socket.destroy();
      await both.session.closed;
      await (closing ?? stream.close());
      expect(stream.destroyed).toBe(true);
    }
  });

  it('ends where the peer had closed the stream, with a write under way', async () => {
    await using both = await served();
    both.peer.send(2, Buffer.from('read'));
    const stream = await both.next();
    both.peer.send(3, Buffer.from('another'));
    const other = await both.next();
    for (let count = 0; count < 100; count += 1) other.write('x'); // the queue has 64 places
    stream.write('x');
    both.peer.close(2);
    await until(() => stream.isClosedByPeer);
    both.peer.socket.destroy();
    await both.session.closed;
    const closed = new Promise((resolve) => stream.once('close', resolve));
    let text = '';
    stream.on('data', (bytes) => {
      text += String(bytes);
    });
    await closed;
    expect(text).toBe('read');
  });
});

describe('a peer that asks for too much', () => {
  it('has small messages held by what they cost, not by their bytes alone', async () => {
    await using both = await served({ unreadMaxBytes: 64 * 1024 });
    for (let count = 0; count < 20; count += 1) {
      const many = Array.from({ length: 500 }, () => encodeData(2, 2, Buffer.from('x')));
      both.peer.socket.write(Buffer.concat(many));
    }
    const stream = await both.next();
    await until(() => both.session.stats().unreadBytes > 100);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(both.session.stats().unreadBytes).toBeLessThan(6_000);
    let bytes = 0;
    for await (const chunk of stream) {
      bytes += chunk.byteLength;
      if (bytes === 10_000) break;
    }
  });

  it('is not received from while it takes no closes, and is told few events', async () => {
    await using both = await served({ streamsMax: 1 });
    let id = 2;
    const open = (): void => {
      const many = Array.from({ length: 1_000 }, () => encodeData(2, id++, Buffer.from('x')));
      both.peer.socket.write(Buffer.concat(many));
    };
    for (let count = 0; count < 40; count += 1) open();
    await until(() => both.events.length > 0);
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(both.events.length).toBeLessThan(5);
    // 40,000 streams of 25 bytes: the rest waits in the kernel or at the peer.
    expect(both.peer.socket.writableLength).toBeGreaterThan(0);
    both.peer.socket.destroy();
    await both.session.closed;
  });

  it('has its memory looked at without an exception for stats()', async () => {
    await using both = await served();
    both.peer.cut('buffers', 0);
    expect(both.session.stats()).toMatchObject({ capacityBytes: 0, freeBytes: 0 });
    expect(await both.session.closed).toMatchObject({ code: 'ERR_SIDECALL_RING_CORRUPT' });
  });

  it('has the event loop only in turns', async () => {
    await using both = await served();
    const bytes = Buffer.concat(
      Array.from({ length: 200_000 }, () => encodeData(2, 2, Buffer.from('abcdefgh'))),
    );
    both.peer.socket.write(bytes);
    const stream = await both.next();
    let turns = 0;
    let isOver = false;
    const count = (): void => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    let got = 0;
    for await (const chunk of stream) {
      got += chunk.byteLength;
      if (got === 1_600_000) break;
    }
    isOver = true;
    expect(turns).toBeGreaterThan(20);
  });
});
