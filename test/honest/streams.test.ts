// Streams that are unread, abandoned or ended do not affect other streams.
import { describe, expect, it } from 'vitest';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { Flow, flowHandlers, turns, until } from '../support/contract.ts';
import { lanes, openLoopback, type Pair } from '../support/pairs.ts';

const limits = { receiveMaxBytes: 65_536, streamWindowBytes: 65_536, sessionWindowBytes: 524_288 };

function heldNothing({ near, far }: Pair): void {
  for (const session of [near, far]) {
    for (const { held } of Object.values(session.stats().windows)) expect(held).toBe(0);
    for (const waiting of Object.values(session.stats().waits)) expect(waiting).toBe(0);
  }
}

describe.each(lanes)('streams over the $lane', ({ openPair }) => {
  it('F4 go on beside any number of others that nobody reads', async () => {
    await using pair = await openPair({ near: limits, far: limits });
    pair.far.serve(Flow, flowHandlers());
    const flow = pair.near.client(Flow);
    // Twenty windows of streams, where the session has eight.
    const unread = Array.from({ length: 20 }, () => flow.download({ messages: 1000, bytes: 4000 }));
    await until(() => pair.far.stats().waits['session-window'] > 0);
    let seen = 0;
    for await (const piece of flow.download({ messages: 100, bytes: 16_000 }))
      seen += piece.byteLength;
    expect(seen).toBe(1_600_000);
    // And the other way: requests, channels, byte streams.
    expect(await flow.upload(Array.from({ length: 50 }, () => new Uint8Array(16_000)))).toEqual({
      bytes: 800_000,
    });
    for (const stream of unread) await stream.return();
    await until(() => pair.near.stats().waits['given-up'] === 0);
    heldNothing(pair);
  });

  it('F4 of bytes go on beside channels that nobody reads', async () => {
    await using pair = await openPair({ near: limits, far: limits });
    const accepted = pair.far.channels(bytes, { name: 'unread' });
    const channels = [];
    for (let at = 0; at < 20; at += 1) {
      const channel = pair.near.openChannel(bytes, { name: 'unread' });
      channels.push(channel, (await accepted.next()).value);
      for (let sent = 0; sent < 40; sent += 1) {
        void channel.send(new Uint8Array(4000)).catch(() => undefined);
      }
    }
    await until(() => pair.near.stats().waits['session-window'] > 0);
    const incoming = pair.far.duplexes({ name: 'raw' });
    const ours = pair.near.openDuplex({ name: 'raw' });
    const { value: theirs } = await incoming.next();
    ours.end(Buffer.alloc(1_000_000, 7));
    let got = 0;
    for await (const chunk of theirs as AsyncIterable<Buffer>) got += chunk.byteLength;
    expect(got).toBe(1_000_000);
    for (const channel of channels) channel?.cancel();
    ours.destroy();
    await incoming.return?.();
    await accepted.return?.();
    await until(() => pair.near.stats().windows.streams.held === 0);
  });

  it('F5 that are over are charged to nobody, read or not', async () => {
    await using pair = await openPair();
    pair.far.serve(Flow, flowHandlers());
    const flow = pair.near.client(Flow);
    const abandoned = [];
    for (let at = 0; at < 400; at += 1) {
      const stream = flow.download({ messages: 24, bytes: 4000 });
      await stream.next();
      abandoned.push(stream); // and never touched again
    }
    expect(await flow.sum([1, 2, 3])).toEqual({ sum: 6 });
    await until(() => pair.near.stats().calls.open === 0);
    heldNothing(pair);
    expect(pair.near.stats().windows.streams.held).toBe(0);
    const [first] = abandoned;
    expect((await first?.next())?.value).toHaveLength(4000); // it is still there to be read
  });

  it('F5 of bytes that are destroyed unread are charged to nobody', async () => {
    await using pair = await openPair();
    const incoming = pair.far.duplexes({ name: 'raw' });
    for (let at = 0; at < 150; at += 1) {
      const ours = pair.near.openDuplex({ name: 'raw' });
      const { value: theirs } = await incoming.next();
      theirs?.on('error', () => undefined);
      ours.on('error', () => undefined);
      ours.end(Buffer.alloc(200_000));
      theirs?.end();
      await turns(3);
      theirs?.destroy();
      ours.destroy();
    }
    await incoming.return?.();
    await until(() => pair.far.stats().windows.streams.held === 0);
    pair.far.serve(Flow, flowHandlers());
    const pieces = Array.from({ length: 100 }, () => new Uint8Array(10_000));
    expect(await pair.near.client(Flow).upload(pieces)).toEqual({ bytes: 1_000_000 });
    await until(() => pair.far.stats().windows.streams.held === 0);
    heldNothing(pair);
  });

  it('end a send in time while the peer stands still, and say what it may have', async () => {
    await using pair = await openPair();
    const accepted = pair.far.channels(bytes, { name: 'slow' });
    const channel = pair.near.openChannel(bytes, { name: 'slow' });
    const { value: theirs } = await accepted.next();
    // The window takes some of them; the rest waits, whatever its length.
    const outcomes = await Promise.allSettled(
      Array.from({ length: 20 }, () => channel.send(new Uint8Array(40_000), { timeoutMs: 2_000 })),
    );
    const failed = outcomes.filter(({ status }) => status === 'rejected');
    expect(failed.length).toBeGreaterThan(10);
    for (const outcome of failed) {
      expect((outcome as PromiseRejectedResult).reason).toMatchObject({
        code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
        delivered: 'no',
      });
    }
    const arrived = 20 - failed.length;
    void channel.end();
    let seen = 0;
    for await (const _ of theirs as AsyncIterable<unknown>) seen += 1;
    expect(seen).toBe(arrived);
    await accepted.return?.();
  });
});

describe('a peer whose process stands still', () => {
  it('holds no send beyond its time: what has begun to leave may arrive, what has not does not', async () => {
    const pair = openLoopback();
    const accepted = pair.far.channels(bytes, { name: 'still' });
    const channel = pair.near.openChannel(bytes, { name: 'still', windowBytes: 10_000_000 });
    const { value: theirs } = await accepted.next();
    for (const transport of pair.transports) transport.isHeld = true;
    const memory = new Uint8Array(200_000).fill(1);
    const first = channel.send(memory, { timeoutMs: 20 });
    const stop = new AbortController();
    const second = channel.send(new Uint8Array(50_000).fill(2), { signal: stop.signal });
    await expect(first).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      delivered: 'unknown',
    });
    memory.fill(9); // it is ours again
    stop.abort(new Error('enough'));
    await expect(second).rejects.toThrow('enough');
    const third = channel.send(new Uint8Array(30_000).fill(3), { timeoutMs: 20_000 });
    for (const transport of pair.transports) transport.release();
    await third;
    const seen = [];
    void channel.end();
    for await (const message of theirs as AsyncIterable<Uint8Array>) {
      seen.push([message.byteLength, message[0], message[message.byteLength - 1]]);
    }
    expect(seen).toEqual([
      [200_000, 1, 1],
      [30_000, 3, 3],
    ]);
    await theirs?.end();
    await until(() => pair.far.stats().windows.streams.held === 0);
    await accepted.return?.();
    await Promise.all([pair.near.close(), pair.far.close()]);
  });
});
