// Byte streams over every lane.

import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { describe, expect, it } from 'vitest';
import { byteReader, byteWriter } from '../../../src/rpc/channels/byte-stream.ts';
import { openDuplex } from '../../support/channels.ts';
import { collect, turns, until } from '../../support/contract.ts';
import { lanes } from '../../support/pairs.ts';
import { spawnOnTerminal } from '../../support/terminal.ts';

/** By events: Node's iterator destroys a Duplex at the end of its readable half. */
async function readAll(stream: Readable, take: (chunk: Buffer) => unknown): Promise<void> {
  stream.on('data', take);
  await once(stream, 'end');
}

describe.each(lanes)("byte streams over the '$lane'", ({ openPair }) => {
  it('ten JSON values as raw bytes, each answered, and three bytes do not wait for more', async () => {
    await using pair = await openPair();
    const [near, far] = await openDuplex(pair);
    far.on('data', (chunk: Buffer) => {
      for (const line of chunk.toString().split('\n').filter(Boolean)) {
        far.write(`ack ${JSON.parse(line).n}\n`);
      }
    });
    far.on('end', () => far.end());
    const heard: string[] = [];
    near.on('data', (chunk: Buffer) => heard.push(chunk.toString()));
    for (let n = 0; n < 10; n += 1) {
      near.write(`${JSON.stringify({ n })}\n`);
      await until(() => heard.join('').split('\n').length === n + 2);
    }
    expect(heard.join('')).toBe(Array.from({ length: 10 }, (_, n) => `ack ${n}\n`).join(''));
    heard.length = 0;
    far.write('abc');
    await until(() => heard.length > 0);
    expect(heard).toEqual(['abc']);
    near.end();
    await new Promise((resolve) => near.once('close', resolve));
  });

  it('64 MiB go through pipeline() with the same SHA-256, both ways at once', async () => {
    await using pair = await openPair();
    const [near, far] = await openDuplex(pair, undefined, true);
    const block = randomBytes(1024 * 1024);
    const source = (): Readable =>
      Readable.from(
        (function* () {
          for (let at = 0; at < 64; at += 1) yield block;
        })(),
        { objectMode: false },
      );
    const wanted = createHash('sha256');
    for (let at = 0; at < 64; at += 1) wanted.update(block);
    const digest = wanted.digest('hex');
    const sum = async (stream: Readable): Promise<string> => {
      const hash = createHash('sha256');
      await readAll(stream, (chunk) => hash.update(chunk));
      return hash.digest('hex');
    };
    const [, , there, back] = await Promise.all([
      pipeline(source(), near, { end: true }),
      pipeline(source(), far, { end: true }),
      sum(far),
      sum(near),
    ]);
    expect(there).toBe(digest);
    expect(back).toBe(digest);
  });

  it('half close: the answer of 1,000 messages comes on the half that is still open', async () => {
    await using pair = await openPair();
    const [near, far] = await openDuplex(pair, undefined, true);
    near.end('request');
    let asked = '';
    await readAll(far, (chunk) => (asked += chunk));
    expect(asked).toBe('request');
    for (let at = 0; at < 1000; at += 1) far.write(`${at},`);
    far.end();
    let answered = '';
    await readAll(near, (chunk) => (answered += chunk));
    expect(answered.split(',')).toHaveLength(1001);
  });

  it('an HTTP/1.1 exchange runs over one unmodified', async () => {
    await using pair = await openPair();
    const server = createServer((request, response) => {
      void collect(request as AsyncIterable<Buffer>).then((chunks) => {
        response.setHeader('x-seen', request.url ?? '');
        response.end(`you sent ${Buffer.concat(chunks).byteLength}`);
      });
    });
    const accepted = pair.far.duplexes({ name: 'http' });
    const accepting = (async () => {
      for await (const duplex of accepted) server.emit('connection', duplex);
    })();
    for (const size of [10, 300_000]) {
      const text = await new Promise<string>((resolve, reject) => {
        const request = httpRequest(
          {
            createConnection: () => pair.near.openDuplex({ name: 'http' }) as never,
            method: 'POST',
            path: `/p${size}`,
            headers: { connection: 'close' },
          },
          (response) => {
            expect(response.headers['x-seen']).toBe(`/p${size}`);
            void collect(response as AsyncIterable<Buffer>).then((chunks) =>
              resolve(Buffer.concat(chunks).toString()),
            );
          },
        );
        request.on('error', reject);
        request.end(Buffer.alloc(size));
      });
      expect(text).toBe(`you sent ${size}`);
    }
    await accepted.return?.();
    await accepting;
    server.close();
  });

  it('a terminal at the other end', async () => {
    await using pair = await openPair();
    const [near, far] = await openDuplex(pair);
    // A terminal echoes what is typed, and cat says it again.
    const terminal = spawnOnTerminal('cat');
    far.pipe(terminal.stdin);
    terminal.stdout.pipe(far);
    let shown = '';
    near.on('data', (chunk: Buffer) => {
      shown += chunk;
    });
    near.write('typed\n');
    await until(() => shown.split('typed').length === 3);
    expect(shown).toBe('typed\r\ntyped\r\n');
    near.end('\u0004');
    await once(near, 'end');
    await until(() => terminal.exitCode !== null);
  });

  it('destroy() gives both halves up; the other end is over', async () => {
    await using pair = await openPair();
    const [near, far] = await openDuplex(pair);
    near.destroy();
    await new Promise((resolve) => far.resume().once('close', resolve));
    await until(() => pair.near.stats().calls.open === 0);
    const [second, other] = await openDuplex(pair);
    second.on('error', () => undefined);
    other.on('error', () => undefined);
    pair.cut();
    await until(() => second.destroyed && other.destroyed);
  });

  it('a writer waits for whoever reads at the other end', async () => {
    await using pair = await openPair({ far: { streamWindowBytes: 65_536 } });
    const [near, far] = await openDuplex(pair);
    let written = 0;
    const chunk = Buffer.alloc(65_536);
    const writing = (async () => {
      for (let at = 0; at < 64; at += 1) {
        await new Promise<void>((resolve) => near.write(chunk, () => resolve()));
        written += 1;
      }
      near.end();
    })();
    await turns(100);
    expect(written).toBeLessThan(8);
    let read = 0;
    for await (const part of far as AsyncIterable<Buffer>) read += part.byteLength;
    expect(read).toBe(64 * 65_536);
    await writing;
    far.end();
    near.resume();
  });

  it('bytes are read and written by count', async () => {
    await using pair = await openPair();
    const [near, far] = await openDuplex(pair);
    const writer = byteWriter(near);
    const reader = byteReader(far);
    const all = randomBytes(200_000);
    writer.writeByte(7);
    writer.writeString('héllo');
    writer.reserve(4).writeUInt32BE(0xdead_beef);
    writer.write(all);
    expect(writer.length).toBe(1 + 6 + 4 + 200_000);
    await turns(5);
    expect(reader.length).toBe(0); // nothing is visible before the flush
    await writer.flush();
    expect(await reader.readByte()).toBe(7);
    expect(await reader.readString(6)).toBe('héllo');
    expect((await reader.peek(4)).readUInt32BE()).toBe(0xdead_beef);
    expect((await reader.read(4)).readUInt32BE()).toBe(0xdead_beef);
    expect(await reader.read(0)).toHaveLength(0);
    await expect(reader.read(-1)).rejects.toBeInstanceOf(RangeError);
    await reader.discard(1000);
    let at = 1000;
    for (const size of [1, 2, 70_000, 3, 60_000]) {
      const peeked = Buffer.from(await reader.peek(Math.min(size, 10)));
      const got = await reader.read(size);
      expect(got.equals(all.subarray(at, at + size))).toBe(true);
      expect(got.subarray(0, peeked.byteLength).equals(peeked)).toBe(true);
      at += size;
    }
    await writer.flush({ end: true });
    const left = all.byteLength - at;
    await expect(reader.read(left + 1)).rejects.toMatchObject({
      code: 'ERR_SIDECALL_END_OF_STREAM',
    });
    expect((await reader.read(left)).equals(all.subarray(at))).toBe(true);
    far.end();
    near.resume();
  });
});
