// Expectations of programs of a pair of sockets, asked of sockets and of byte streams of a session
// alike.
import { createHash, randomBytes } from 'node:crypto';
import { addAbortSignal, type Duplex, PassThrough } from 'node:stream';
import { finished, pipeline } from 'node:stream/promises';
import { describe, expect, it } from 'vitest';
import { turns, until } from '../support/contract.ts';
import { socketPairs } from '../support/socket-pairs.ts';

/** The events that end a stream, in their order. */
function endsOf(stream: Duplex): string[] {
  const events: string[] = [];
  for (const name of ['end', 'finish', 'error', 'close']) stream.on(name, () => events.push(name));
  return events;
}

/** All that comes, which leaves the stream's other half alone: iterating would destroy it. */
function buffer(stream: Duplex): Promise<Buffer> {
  const parts: Buffer[] = [];
  stream.on('data', (part: Buffer) => parts.push(part));
  return new Promise((resolve, reject) => {
    stream.once('end', () => resolve(Buffer.concat(parts)));
    stream.once('error', reject);
  });
}

const text = async (stream: Duplex): Promise<string> => String(await buffer(stream));

const closed = (stream: Duplex): Promise<unknown> =>
  stream.closed ? Promise.resolve() : new Promise((resolve) => stream.once('close', resolve));

describe.each(socketPairs)('a pair of $kind', ({ open }) => {
  it('carries data both ways', async () => {
    await using pair = await open({ allowHalfOpen: true });
    pair.near.end('ping');
    expect(await text(pair.far)).toBe('ping');
    pair.far.end('pong');
    expect(await text(pair.near)).toBe('pong');
  });

  it('ends at both ends when one ends', async () => {
    await using pair = await open();
    const [near, far] = [endsOf(pair.near), endsOf(pair.far)];
    pair.near.resume().end('x');
    pair.far.resume();
    await Promise.all([closed(pair.near), closed(pair.far)]);
    expect([...near].sort()).toEqual(['close', 'end', 'finish']);
    expect([...far].sort()).toEqual(['close', 'end', 'finish']);
    expect([near.at(-1), far.at(-1)]).toEqual(['close', 'close']);
  });

  it('stays half open where that was asked for', async () => {
    await using pair = await open({ allowHalfOpen: true });
    pair.near.end('question');
    expect(await text(pair.far)).toBe('question');
    expect([pair.far.writable, pair.far.readyState]).toEqual([true, 'writeOnly']);
    for (let at = 0; at < 100; at += 1) pair.far.write(`${at},`);
    pair.far.end();
    expect((await text(pair.near)).split(',')).toHaveLength(101);
  });

  it('is over at the other end without an error when one end is destroyed', async () => {
    await using pair = await open();
    const far = endsOf(pair.far);
    pair.far.resume();
    pair.near.destroy();
    await closed(pair.far);
    expect(far).not.toContain('error');
    expect(far).toContain('end');
  });

  it('delivers what was written before destroy()', async () => {
    await using pair = await open();
    pair.near.write('last words');
    await turns(3);
    pair.near.destroy();
    expect(await text(pair.far)).toBe('last words');
    await closed(pair.far);
  });

  it('is over without an error at the other end when one end is destroyed for one', async () => {
    await using pair = await open();
    const far = endsOf(pair.far);
    pair.far.resume();
    const failed = new Promise((resolve) => pair.near.once('error', resolve));
    pair.near.destroy(new Error('mine'));
    expect(await failed).toMatchObject({ message: 'mine' });
    await closed(pair.far);
    expect(far).not.toContain('error');
  });

  it('holds a writer back, and lets it go on', async () => {
    await using pair = await open();
    const chunk = Buffer.alloc(65_536, 1);
    let sent = 0;
    while (pair.near.write(chunk)) sent += chunk.byteLength;
    for (let at = 0; at < 100; at += 1) pair.near.write(chunk);
    sent += 101 * chunk.byteLength;
    const drained = new Promise((resolve) => pair.near.once('drain', resolve));
    let got = 0;
    pair.far.on('data', (bytes: Buffer) => {
      got += bytes.byteLength;
    });
    await drained;
    await until(() => got === sent);
  });

  it('pauses and resumes', async () => {
    await using pair = await open();
    let got = '';
    pair.far.setEncoding('utf8').on('data', (part: string) => {
      got += part;
    });
    pair.near.write('a');
    await until(() => got === 'a');
    pair.far.pause();
    pair.near.write('ü'); // two bytes
    await turns(10);
    expect(got).toBe('a');
    pair.far.resume();
    await until(() => got === 'aü');
  });

  it('echoes through pipe()', async () => {
    await using pair = await open({ allowHalfOpen: true });
    pair.far.pipe(pair.far);
    pair.near.end('there and back');
    expect(await text(pair.near)).toBe('there and back');
  });

  it('carries megabytes through pipeline(), as they were', async () => {
    await using pair = await open({ allowHalfOpen: true });
    const source = randomBytes(5_000_000);
    const through = new PassThrough();
    through.end(source);
    const sending = pipeline(through, pair.near);
    const hash = createHash('sha256');
    await pipeline(pair.far, hash);
    pair.far.end();
    pair.near.resume();
    await sending;
    expect(hash.digest('hex')).toBe(createHash('sha256').update(source).digest('hex'));
  });

  it('tells finished()', async () => {
    await using pair = await open();
    pair.near.resume();
    pair.far.resume();
    const both = Promise.all([finished(pair.near), finished(pair.far)]);
    pair.near.end('x');
    await both;
  });

  it('is iterated', async () => {
    await using pair = await open();
    pair.near.end('some bytes');
    let got = '';
    for await (const part of pair.far) got += String(part);
    expect(got).toBe('some bytes');
    expect(pair.far.destroyed).toBe(true);
  });

  it('is left by break without an error at the other end', async () => {
    await using pair = await open();
    const near = endsOf(pair.near);
    pair.near.resume().write('one');
    for await (const _ of pair.far) break;
    await closed(pair.near);
    expect(near).not.toContain('error');
  });

  it('keeps the order of writes and of their callbacks, corked or not', async () => {
    await using pair = await open();
    const order: number[] = [];
    pair.near.cork();
    for (let at = 0; at < 10; at += 1) pair.near.write(`${at}`, () => order.push(at));
    pair.near.uncork();
    pair.near.write('');
    pair.near.end('!', () => order.push(99));
    expect(await text(pair.far)).toBe('0123456789!');
    await until(() => order.length === 11);
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 99]);
  });

  it('refuses to write after end()', async () => {
    await using pair = await open();
    const failed = new Promise((resolve) => pair.near.once('error', resolve));
    pair.near.end();
    pair.near.write('too late');
    expect(await failed).toMatchObject({ code: 'ERR_STREAM_WRITE_AFTER_END' });
  });

  it('reads by count, and puts back', async () => {
    await using pair = await open();
    pair.near.write('abcdef');
    await new Promise((resolve) => pair.far.once('readable', resolve));
    await until(() => pair.far.readableLength === 6);
    expect(String(pair.far.read(2))).toBe('ab');
    pair.far.unshift(Buffer.from('xy'));
    expect(String(pair.far.read(6))).toBe('xycdef');
    expect(pair.far.read(1)).toBeNull();
  });

  it('takes one write of megabytes, and thousands of single bytes', async () => {
    await using pair = await open({ allowHalfOpen: true });
    pair.near.end(Buffer.alloc(3_000_000, 7));
    expect((await buffer(pair.far)).every((byte) => byte === 7)).toBe(true);
    for (let at = 0; at < 5_000; at += 1) pair.far.write(Buffer.of(at % 256));
    pair.far.end();
    expect((await buffer(pair.near)).byteLength).toBe(5_000);
  });

  it('counts bytes', async () => {
    await using pair = await open();
    pair.near.write('12345');
    await until(() => pair.far.readableLength === 5);
    expect(pair.far.bytesRead).toBe(5);
    await until(() => pair.near.bytesWritten === 5);
  });

  it('tells when nothing moved for a while, and stays open', async () => {
    await using pair = await open();
    let timeouts = 0;
    pair.near.setTimeout(20, () => {
      timeouts += 1;
    });
    await until(() => timeouts === 1);
    expect(pair.near.destroyed).toBe(false);
    expect(pair.near.setTimeout(0)).toBe(pair.near);
    pair.near.write('still here');
    await until(() => pair.far.readableLength === 10);
  });

  it('has what sockets have beside the stream', async () => {
    await using pair = await open();
    const { near } = pair;
    expect(near.setNoDelay(true).setKeepAlive(true, 1000).unref().ref()).toBe(near);
    expect(pair.far.readyState).toBe('open');
    expect(
      (near as unknown as { remoteAddress?: string }).remoteAddress || undefined,
    ).toBeUndefined();
  });

  it('destroySoon() sends what was written first', async () => {
    await using pair = await open();
    pair.near.write('first');
    pair.near.destroySoon();
    expect(await text(pair.far)).toBe('first');
    await closed(pair.near);
  });

  it('ends a writer whose peer was destroyed', async () => {
    await using pair = await open();
    const near = endsOf(pair.near);
    pair.far.destroy();
    const chunk = Buffer.alloc(65_536);
    await until(() => {
      if (pair.near.writable) pair.near.write(chunk);
      return near.includes('close');
    });
  });

  it('is destroyed by a signal', async () => {
    await using pair = await open();
    const stop = new AbortController();
    const failed = new Promise((resolve) => pair.near.once('error', resolve));
    addAbortSignal(stop.signal, pair.near);
    stop.abort();
    expect(await failed).toMatchObject({ name: 'AbortError' });
    pair.far.resume();
    await closed(pair.far);
  });

  it('may be destroyed at both ends at once, unread', async () => {
    await using pair = await open();
    for (let round = 0; round < 20; round += 1) {
      const { near, far } = await pair.more();
      const events = [...[near, far].map(endsOf)];
      near.write('unread');
      far.write('unread, too');
      await turns(round % 3);
      near.destroy();
      far.destroy();
      await Promise.all([closed(near), closed(far)]);
      expect(events.flat()).not.toContain('error');
    }
  });
});
