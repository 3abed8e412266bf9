// Sessions and streams of shmipc-go between two ends of ours: honest load, and its limits.
import { pipeline } from 'node:stream/promises';
import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import {
  type ConnectShmipcOptions,
  connectShmipc,
  type ListenShmipcOptions,
  listenShmipc,
  type ShmipcSession,
  type ShmipcStream,
} from '../../src/shmipc/main.ts';
import { until } from '../support/contract.ts';
import { fileClient } from '../support/shmipc-files.ts';

const trusting = { trustsPeerMemory: true } as const;

interface Ends extends AsyncDisposable {
  readonly client: ShmipcSession;
  readonly server: ShmipcSession;
}

async function ends(
  ofServer: Partial<ListenShmipcOptions> = {},
  ofClient: Partial<ConnectShmipcOptions> = {},
): Promise<Ends> {
  const listener = await listenShmipc({ ...trusting, ...ofServer });
  const sessions = listener[Symbol.asyncIterator]();
  const client = await connectShmipc({ path: listener.path, ...trusting, ...ofClient });
  const { value: server } = await sessions.next();
  return {
    client,
    server: server as ShmipcSession,
    async [Symbol.asyncDispose]() {
      await client.close({ deadlineMs: 0 });
      await listener.close({ deadlineMs: 0 });
    },
  };
}

async function nextStream(session: ShmipcSession): Promise<ShmipcStream> {
  return (await session[Symbol.asyncIterator]().next()).value as ShmipcStream;
}

async function textOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

describe('streams of shmipc-go', () => {
  it('end() leaves the answer time to come; close() ends both directions', async () => {
    await using both = await ends();
    const near = both.client.open();
    near.end('a question');
    const far = await nextStream(both.server);
    const asked = textOf(far);
    far.write('an answer');
    const answers = near.iterator({ destroyOnReturn: false });
    expect(String((await answers.next()).value)).toBe('an answer');
    await near.close();
    expect(await asked).toBe('a question');
    await until(() => far.closed);
    expect(both.client.stats().streams + both.server.stats().streams).toBe(0);
    await near.close(); // a second one has no further effect
  });

  it('carries a large stream through a pipeline, at the pace of its reader', async () => {
    await using both = await ends({}, { bufferBytes: 1024 * 1024 });
    const near = both.client.open();
    const chunk = Buffer.alloc(100_000, 'x');
    async function* source(): AsyncGenerator<Buffer> {
      for (let sent = 0; sent < 300; sent += 1) yield chunk;
    }
    const sending = pipeline(source, async (chunks) => {
      for await (const one of chunks) {
        if (!near.write(one)) await new Promise((resolve) => near.once('drain', resolve));
      }
      await near.close();
    });
    let bytes = 0;
    for await (const one of await nextStream(both.server)) {
      bytes += one.byteLength;
      if (bytes % 7 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await sending;
    expect(bytes).toBe(300 * chunk.byteLength);
  });

  it('a thousand streams are answered, and their server closes first', async () => {
    await using both = await ends();
    void (async () => {
      for await (const stream of both.server) {
        void (async () => {
          for await (const bytes of stream.iterator({ destroyOnReturn: false })) {
            stream.write(bytes);
            await stream.close();
            break;
          }
        })();
      }
    })();
    const answers = await Promise.all(
      Array.from({ length: 1_000 }, async (_, at) => {
        const stream = both.client.open();
        stream.write(`message ${at}`);
        return textOf(stream);
      }),
    );
    expect(answers).toEqual(Array.from({ length: 1_000 }, (_, at) => `message ${at}`));
    await until(() => both.client.stats().streams + both.server.stats().streams === 0);
  });

  it('bytes that were sent before the end of a session reach a reader that comes late', async () => {
    await using both = await ends();
    const first = both.client.open();
    first.write('the first');
    const second = both.client.open();
    second.write('the second');
    await both.client.close();
    await until(() => both.server.stats().capacityBytes === 0);
    const seen: string[] = [];
    for await (const stream of both.server) seen.push(await textOf(stream));
    expect(seen).toEqual(['the first', 'the second']);
    expect(await both.server.closed).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
  });

  it('a peer that goes is told behind the bytes that it had sent', async () => {
    const listener = await listenShmipc(trusting);
    const sessions = listener[Symbol.asyncIterator]();
    using peer = await fileClient(listener.path);
    peer.introduce();
    for (let at = 0; at < 10; at += 1) peer.send(2, Buffer.from(`${at}`));
    const session = (await sessions.next()).value as ShmipcSession;
    const stream = await nextStream(session);
    await until(() => session.stats().unreadBytes === 10 || stream.readableLength > 0);
    peer.socket.destroy();
    expect(await session.closed).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    let text = '';
    const reading = (async () => {
      for await (const bytes of stream) text += String(bytes);
    })();
    await expect(reading).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    expect(text).toBe('0123456789');
    await listener.close();
  });

  it('a stream that nobody reads holds its session at unreadMaxBytes, and loses nothing', async () => {
    await using both = await ends({ unreadMaxBytes: 64 * 1024 });
    const near = both.client.open();
    const message = Buffer.alloc(4_000_000, 'x');
    let isTaken = false;
    near.write(message, () => {
      isTaken = true;
    });
    const other = both.client.open();
    other.write('behind it');
    const far = await nextStream(both.server);
    await until(() => both.server.stats().unreadBytes >= 64 * 1024);
    await new Promise((resolve) => setTimeout(resolve, 50));
    // One turn may receive a mebibyte more.
    expect(both.server.stats().unreadBytes).toBeLessThan(2 * 1024 * 1024);
    let bytes = 0;
    for await (const chunk of far) {
      bytes += chunk.byteLength;
      if (bytes === message.byteLength) break;
    }
    expect(isTaken).toBe(true);
    const behind = await nextStream(both.server);
    other.end();
    expect(String((await behind[Symbol.asyncIterator]().next()).value)).toBe('behind it');
  });

  it('streamsMax closes what comes beyond it, and the rest goes on', async () => {
    const events: SidecallEvent[] = [];
    await using both = await ends({ streamsMax: 2, onEvent: (one) => void events.push(one) });
    const streams = Array.from({ length: 3 }, () => both.client.open());
    for (const stream of streams) stream.write('x');
    expect(await textOf(streams[2] as ShmipcStream)).toBe('');
    expect(events).toMatchObject([
      { type: 'limit', error: { code: 'ERR_SIDECALL_LIMIT_STREAMS' } },
    ]);
    const far = await nextStream(both.server);
    far.write('y');
    const [first] = streams as [ShmipcStream];
    expect(String((await first[Symbol.asyncIterator]().next()).value)).toBe('y');
    await first.close();
    far.resume();
    await until(() => both.server.stats().streams === 1);
    await using limited = await ends({}, { streamsMax: 1 });
    limited.client.open();
    expect(() => limited.client.open()).toThrow('1 streams are open');
  });

  it('a write after the close of the peer fails, as to any socket', async () => {
    await using both = await ends();
    const near = both.client.open();
    near.write('x');
    const far = await nextStream(both.server);
    await near.close();
    await until(() => far.isClosedByPeer);
    const failed = new Promise((resolve) => far.once('error', resolve));
    far.write('late');
    expect(await failed).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
  });

  it('only the client opens streams', async () => {
    await using both = await ends();
    expect(() => both.server.open()).toThrow('only the client');
  });
});

describe('a peer that takes nothing', () => {
  it('gets by the socket what finds no slices, in order, and then its close', async () => {
    const listener = await listenShmipc(trusting);
    const sessions = listener[Symbol.asyncIterator]();
    using peer = await fileClient(listener.path);
    const arrived: Buffer[] = [];
    peer.socket.on('data', (bytes) => arrived.push(bytes));
    peer.introduce();
    peer.send(2, Buffer.from('hello'));
    const session = (await sessions.next()).value as ShmipcSession;
    const stream = await nextStream(session);
    const text = 'abcdefghij'.repeat(1_000); // more than the memory, of which nothing comes back
    stream.write(text);
    stream.write('the end');
    await until(() => Buffer.concat(arrived).includes('the end'));
    const all = Buffer.concat(arrived);
    let at = 0;
    let carried = '';
    while (at < all.byteLength) {
      const length = all.readUInt32BE(at);
      if (all[at + 7] === 3) carried += all.toString('utf8', at + 16, at + length);
      at += length;
    }
    expect(text.concat('the end').endsWith(carried)).toBe(true);
    expect(carried.length).toBeGreaterThan(4_000);
    expect(session.stats().sentBySocket).toBeGreaterThan(0);
    arrived.length = 0;
    await stream.close();
    await until(() => Buffer.concat(arrived).toString('hex').endsWith('0000000c7758020200000002'));
    await listener.close({ deadlineMs: 0 });
  });

  it('is given up after stallTimeoutMs, and waited for without it', async () => {
    for (const stallTimeoutMs of [1_000, undefined]) {
      const listener = await listenShmipc({ ...trusting, stallTimeoutMs });
      const sessions = listener[Symbol.asyncIterator]();
      using peer = await fileClient(listener.path);
      peer.introduce();
      peer.send(2, Buffer.from('hello'));
      const session = (await sessions.next()).value as ShmipcSession;
      const stream = await nextStream(session);
      stream.on('error', () => undefined);
      for (let count = 0; count < 100; count += 1) stream.write('x'); // the queue has 64 places
      const ended = session.closed.then((error) => error?.code);
      const waited = new Promise((resolve) => setTimeout(resolve, 1_500, 'still open'));
      const outcome = await (stallTimeoutMs ? ended : Promise.race([ended, waited]));
      const expected = stallTimeoutMs ? 'ERR_SIDECALL_PEER_UNRESPONSIVE' : 'still open';
      expect(outcome).toBe(expected);
      await listener.close({ deadlineMs: 0 });
    }
  });
});
