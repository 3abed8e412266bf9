// Channels of messages over every lane.

import { createHash, randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { SidecallError } from '../../../src/base/errors.ts';
import { wireLimits } from '../../../src/base/limits/wire-limits.ts';
import type { Channel } from '../../../src/rpc/channels/channel.ts';
import { bytes } from '../../../src/rpc/contract/codec.ts';
import { json } from '../../../src/rpc/contract/json.ts';
import { collect, Demo, defer, demoHandlers, turns, until } from '../../support/contract.ts';
import { lanes, type Pair } from '../../support/pairs.ts';
import { rounds } from '../../support/rounds.ts';
import { SteeredClock } from '../../support/steered-clock.ts';

interface Text {
  readonly text: string;
}

function heapBytes(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

/** Both ends of a channel of JSON. */
async function openChannel(pair: Pair): Promise<[Channel<Text>, Channel<Text>]> {
  const accepted = pair.far.channels(json<Text>(), { name: 'texts' });
  const near = pair.near.openChannel(json<Text>(), { name: 'texts', metadata: { from: 'test' } });
  const { value } = await accepted.next();
  await accepted.return?.();
  return [near, value as Channel<Text>];
}

describe.each(lanes)("channels over the '$lane'", ({ openPair }) => {
  it('messages travel both ways at once, and each half ends by itself', async () => {
    await using pair = await openPair();
    const [near, far] = await openChannel(pair);
    expect(far.metadata).toEqual({ from: 'test' });
    expect(far.name).toBe('texts');
    expect(far.peer).toBe(pair.far.peer);
    const texts = (who: string): Text[] => ['1', '2', '3'].map((at) => ({ text: who + at }));
    const sending = Promise.all([
      ...texts('near').map((text) => near.send(text)),
      ...texts('far').map((text) => far.send(text)),
    ]);
    const ends = Promise.all([near.end(), far.end()]);
    const [gotFar, gotNear] = await Promise.all([collect(far), collect(near)]);
    expect(gotFar).toEqual(texts('near'));
    expect(gotNear).toEqual(texts('far'));
    await sending;
    await ends;
    await Promise.all([near.closed, far.closed]);
    await expect(near.send({ text: 'late' })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_END_OF_STREAM',
    });
    expect(pair.near.stats().calls.open).toBe(0);
  });

  it('keeps message boundaries at every size, any number of sends at once', async () => {
    const limits = { receiveMaxBytes: 64 * 1024 * 1024 };
    await using pair = await openPair({ near: limits, far: limits });
    const accepted = pair.far.channels(bytes, { name: 'b' });
    const near = pair.near.openChannel(bytes, { name: 'b' });
    const far = (await accepted.next()).value as Channel<Uint8Array>;
    await accepted.return?.();
    const edge = wireLimits.fragmentBytes;
    const ring = 1024 * 1024;
    const sizes = [0, 1, edge - 1, edge, edge + 1, ring - 1, ring, ring + 1, 64 * ring, 0];
    const hash = (piece: Uint8Array): string => createHash('sha256').update(piece).digest('hex');
    const block = randomBytes(64 * ring);
    const messages = sizes.map((size) => block.subarray(0, size));
    const sent = Promise.all(messages.map((message) => near.send(message)));
    const echoing = (async () => {
      for await (const message of far) await far.send(message);
      await far.end();
    })();
    void sent.then(() => near.end());
    const got: string[] = [];
    for await (const message of near) got.push(`${message.byteLength} ${hash(message)}`);
    expect(got).toEqual(messages.map((message) => `${message.byteLength} ${hash(message)}`));
    await echoing;
  });

  it('A first, B first, both at once: both ends resolve, nothing is left', async () => {
    await using pair = await openPair();
    const count = rounds(30_000, 3_000); // a third of them each
    const accepted = pair.far.channels(json<number>(), { name: 'n' });
    const serving = (async () => {
      for await (const far of accepted) {
        const { value: order } = await far.next();
        if (order === 0) {
          expect(await far.next()).toEqual({ done: true, value: undefined });
          await far.end();
        } else await far.end();
      }
    })();
    let heapBefore = 0;
    for (let round = 0; round < count; round += 1) {
      if (round === 200) heapBefore = heapBytes(); // compiled and warm
      const order = round % 3;
      const near = pair.near.openChannel(json<number>(), { name: 'n' });
      await near.send(order);
      if (order === 1) expect(await near.next()).toEqual({ done: true, value: undefined });
      await near.end();
      await near.closed;
    }
    await accepted.return?.();
    await serving;
    expect(pair.near.stats().calls.open).toBe(0);
    await until(() => pair.far.stats().handlers.running === 0);
    expect(heapBytes() - heapBefore).toBeLessThan(8 * 1024 * 1024); // short streams leave nothing
  });

  it('a name that nobody accepts is refused; 64 wait; names are per kind', async () => {
    await using pair = await openPair();
    const nobody = pair.near.openChannel(json(), { name: 'x' });
    await expect(nobody.next()).rejects.toMatchObject({ status: 'unimplemented' });
    await expect(nobody.send(1)).rejects.toMatchObject({ status: 'unimplemented' });
    await expect(nobody.closed).rejects.toThrow(
      "openChannel(…, { name: 'x' }): nobody accepts it here",
    );
    const accepted = pair.far.channels(json(), { name: 'x' });
    expect(() => pair.far.channels(json(), { name: 'x' })).toThrow('accepted already');
    const duplex = pair.near.openDuplex({ name: 'x' });
    const failure = await new Promise((resolve) => duplex.once('error', resolve));
    expect(failure).toMatchObject({
      status: 'unimplemented',
      message: "openDuplex({ name: 'x' }): nobody accepts it here",
    });
    const waiting = Array.from({ length: 65 }, () => pair.near.openChannel(json(), { name: 'x' }));
    await expect(waiting[64]?.closed).rejects.toMatchObject({ status: 'resource_exhausted' });
    await accepted.return?.(); // those that waited are given up
    await expect(waiting[0]?.closed).rejects.toMatchObject({ code: 'ERR_SIDECALL_CANCELLED' });
  });

  it('a bad message fails its channel alone, with invalid_argument', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const accepted = pair.far.channels(json<unknown>(), { name: 'c' });
    const near = pair.near.openChannel(bytes, { name: 'c' });
    const far = (await accepted.next()).value as Channel<unknown>;
    await accepted.return?.();
    const call = pair.near.client(Demo).add({ a: 1, b: 2 });
    await near.send(Buffer.from('{"good":1}'));
    await near.send(Buffer.from('{bad'));
    expect((await far.next()).value).toEqual({ good: 1 });
    await expect(far.next()).rejects.toMatchObject({ code: 'ERR_SIDECALL_DECODE' });
    await expect(near.closed).rejects.toMatchObject({ status: 'invalid_argument' });
    expect(await call).toEqual({ sum: 3 });
    // And from the accepting side to the opening one.
    const second = pair.far.channels(bytes, { name: 'd' });
    const opened = pair.near.openChannel(json<unknown>(), { name: 'd' });
    const other = (await second.next()).value as Channel<Uint8Array>;
    await second.return?.();
    await other.send(Buffer.from('{bad'));
    await expect(opened.next()).rejects.toMatchObject({ code: 'ERR_SIDECALL_DECODE' });
    await expect(other.closed).rejects.toMatchObject({ status: 'invalid_argument' });
    expect(await pair.near.client(Demo).add({ a: 1, b: 2 })).toEqual({ sum: 3 });
  });

  it('cancel ends both sides at once', async () => {
    await using pair = await openPair();
    for (const side of [0, 1] as const) {
      const ends = await openChannel(pair);
      const [one, other] = side === 0 ? ends : [ends[1], ends[0]];
      const reason = new Error('enough');
      const waiting = other.next().catch((error: unknown) => error);
      one.cancel(reason);
      await expect(one.next()).rejects.toBe(reason);
      await expect(one.send({ text: '' })).rejects.toBe(reason);
      expect(await waiting).toMatchObject({ code: 'ERR_SIDECALL_CANCELLED' });
      await expect(other.closed).rejects.toMatchObject({ code: 'ERR_SIDECALL_CANCELLED' });
    }
    expect(pair.near.stats().calls.open).toBe(0);
  });

  it('each wait has its own time and signal, and loses nothing', async () => {
    await using pair = await openPair({ far: { streamWindowBytes: 16_384 } });
    const accepted = pair.far.channels(bytes, { name: 'w' });
    const near = pair.near.openChannel(bytes, { name: 'w' });
    const far = (await accepted.next()).value as Channel<Uint8Array>;
    await accepted.return?.();
    await expect(near.next({ timeoutMs: 20 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
    });
    const stop = new AbortController();
    const received = near.next({ signal: stop.signal });
    stop.abort(new Error('later'));
    await expect(received).rejects.toThrow('later');
    await far.send(Buffer.from('still here'));
    expect(Buffer.from((await near.next()).value ?? []).toString()).toBe('still here');
    // The window is full after the second; the third waits, and is taken back.
    const piece = (fill: number): Uint8Array => new Uint8Array(10_000).fill(fill);
    await near.send(piece(1));
    await near.send(piece(2));
    await expect(near.send(piece(3), { timeoutMs: 20 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      delivered: 'no',
    });
    const given = new AbortController();
    const sending = near.send(piece(4), { signal: given.signal });
    given.abort(new Error('not this one'));
    await expect(sending).rejects.toThrow('not this one');
    const fifth = near.send(piece(5));
    expect(near.queuedBytes).toBe(10_000);
    const fills: number[] = [];
    for (let at = 0; at < 3; at += 1) fills.push((await far.next()).value?.[0] as number);
    await fifth;
    expect(fills).toEqual([1, 2, 5]);
    await Promise.all([near.end(), far.end()]);
  });

  it('a channel on which nothing moves ends on both sides', async () => {
    using clock = new SteeredClock();
    await using pair = await openPair();
    const accepted = pair.far.channels(json<number>(), { name: 'i' });
    const near = pair.near.openChannel(json<number>(), { name: 'i', idleTimeoutMs: 60_000 });
    const far = (await accepted.next()).value as Channel<number>;
    await accepted.return?.();
    for (let at = 0; at < 4; at += 1) {
      await near.send(at);
      await far.next();
      await clock.pass(25_000);
    }
    expect(pair.near.stats().calls.open).toBe(1);
    let isOver = false;
    void near.closed.catch(() => (isOver = true));
    while (!isOver) {
      await clock.pass(60_000);
    }
    await expect(near.closed).rejects.toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
    await expect(far.closed).rejects.toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
  });

  it('subscribe() gives one message at a time and holds the sender back', async () => {
    await using pair = await openPair({ far: { streamWindowBytes: 16_384 } });
    const [near, far] = await openChannel(pair);
    let running = 0;
    let most = 0;
    const got: string[] = [];
    const ended = defer();
    far.subscribe({
      message: async ({ text }) => {
        running += 1;
        most = Math.max(most, running);
        await new Promise((resolve) => setTimeout(resolve, 50));
        got.push(text.slice(0, 3));
        if (got.length === 50) await far.send({ text: 'half' }); // re-entrant
        running -= 1;
      },
      end: () => ended.resolve(),
    });
    expect(() => far.subscribe({ message: () => undefined })).toThrow('called before');
    const heard: string[] = [];
    near.subscribe({ message: ({ text }) => heard.push(text) });
    let ahead = 0;
    for (let at = 100; at < 200; at += 1) {
      await near.send({ text: `${at}${'x'.repeat(2000)}` });
      ahead = Math.max(ahead, at - 99 - got.length);
    }
    await near.end();
    await ended.promise;
    expect(most).toBe(1);
    // The window holds eight of these messages; the callback has one.
    expect(ahead).toBeGreaterThan(1);
    expect(ahead).toBeLessThanOrEqual(10);
    expect(got).toEqual(Array.from({ length: 100 }, (_, at) => `${at + 100}`));
    expect(heard).toEqual(['half']);
    await far.end();
  });

  it('subscribe() takes no further message while the callback waits, and lets it close', async () => {
    await using pair = await openPair({ far: { streamWindowBytes: 16_384 } });
    const [near, far] = await openChannel(pair);
    const gate = defer();
    const got: string[] = [];
    far.subscribe({
      message: async ({ text }) => {
        got.push(text.slice(0, 1));
        if (got.length === 1) await gate.promise;
        if (got.length === 2) far.cancel(new Error('enough'));
      },
      error: () => undefined,
    });
    let sent = 0;
    const sending = (async () => {
      for (let at = 0; at < 100; at += 1) {
        await near.send({ text: `${at % 10}${'x'.repeat(2000)}` });
        sent += 1;
      }
    })();
    await until(() => got.length === 1 && sent > 0);
    await turns(50);
    // The window, and what the sender may hold itself: far from a hundred messages.
    expect(sent).toBeLessThan(40);
    expect(got).toEqual(['0']);
    gate.resolve();
    await expect(sending).rejects.toMatchObject({ code: 'ERR_SIDECALL_CANCELLED' });
    expect(got).toEqual(['0', '1']);
  });

  it('a death is never a clean end: every message, then PEER_GONE', async () => {
    await using pair = await openPair();
    const [near, far] = await openChannel(pair);
    for (let at = 0; at < 3; at += 1) await near.send({ text: `${at}` });
    await until(() => far.queuedBytes > 20);
    pair.cut();
    const got: string[] = [];
    const failure = await (async () => {
      for await (const { text } of far) got.push(text);
    })().catch((error: unknown) => error);
    expect(got).toEqual(['0', '1', '2']);
    expect(SidecallError.is(failure)).toBe(true);
    await expect(near.next()).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    await expect(near.end()).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
  });
});
