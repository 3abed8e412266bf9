import { describe, expect, it } from 'vitest';
import { RpcError } from '../../src/base/errors.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { ReceiveCredit } from '../../src/rpc/sending/credit.ts';
import { PingAllowance } from '../../src/rpc/session/ping-allowance.ts';
import { nextGeneration, OpenedStreams } from '../../src/rpc/streams/stream-table.ts';
import { FrameFlag, ResetReason } from '../../src/wire/frame-header.ts';
import { Demo, defer, demoHandlers, turns, until } from '../support/contract.ts';
import { hostilePeer } from '../support/hostile.ts';
import { lanes } from '../support/pairs.ts';

const tight = {
  receiveMaxBytes: 262_144,
  streamWindowBytes: 16_384,
  sessionWindowBytes: 557_056,
  sendQueueMaxBytes: 67_108_864,
};

describe.each(lanes)('flow over the $lane', ({ openPair }) => {
  it('never stands still when both sides call with windows full of requests', async () => {
    await using pair = await openPair({ near: tight, far: tight });
    for (const session of [pair.near, pair.far]) session.serve(Demo, demoHandlers());
    const payload = new Uint8Array(200_000);
    const calls = [pair.near, pair.far].flatMap((session) =>
      Array.from({ length: 128 }, () => session.client(Demo).echo(payload)),
    );
    for (const answer of await Promise.all(calls)) expect(answer).toHaveLength(200_000);
  });

  it('answers while the window of requests is held by handlers that wait for an answer', async () => {
    await using pair = await openPair({ near: tight, far: tight });
    let called = 0;
    pair.near.serve(Demo, demoHandlers());
    pair.far.serve(
      Demo,
      demoHandlers({
        log: async () => {
          await turns(5);
          await pair.far.client(Demo).add({ a: 1, b: 1 });
          called += 1;
        },
      }),
    );
    const line = 'x'.repeat(60_000);
    await Promise.all(Array.from({ length: 40 }, () => pair.near.client(Demo).log(line)));
    await until(() => called === 40);
  });

  it('many calls of one side do not count as answers that nobody reads', async () => {
    await using pair = await openPair({ near: { streamsMax: 1 }, far: { streamsMax: 65_536 } });
    pair.far.serve(Demo, demoHandlers());
    const demo = pair.near.client(Demo);
    const calls = Array.from({ length: 30_000 }, (_, a) => demo.add({ a, b: 0 }));
    expect(await Promise.all(calls)).toHaveLength(30_000);
  });

  it('large answers under way at once all arrive', async () => {
    await using pair = await openPair();
    const gate = defer();
    pair.far.serve(
      Demo,
      demoHandlers({
        echo: async (payload) => {
          await gate.promise;
          return new Uint8Array(300_000).fill(payload[0] as number);
        },
      }),
    );
    const demo = pair.near.client(Demo);
    const calls = Array.from({ length: 150 }, (_, at) => demo.echo(Uint8Array.of(at)));
    await until(() => pair.far.stats().handlers.running === 150);
    gate.resolve();
    const answers = await Promise.all(calls);
    answers.forEach((answer, at) => expect(answer[299_999]).toBe(at));
  });

  it('an orderly close under load refuses what was not begun and loses nothing', async () => {
    const events: SidecallEvent[] = [];
    const pair = await openPair({ onNearEvent: (event) => events.push(event) });
    let served = 0;
    pair.far.serve(
      Demo,
      demoHandlers({
        echo: (payload) => {
          served += 1;
          return payload.subarray(0, 10);
        },
      }),
    );
    const demo = pair.near.client(Demo);
    const payload = new Uint8Array(20_000);
    const calls = Promise.allSettled(Array.from({ length: 3000 }, () => demo.echo(payload)));
    await until(() => served > 10);
    await pair.far.close();
    let answered = 0;
    for (const outcome of await calls) {
      if (outcome.status === 'fulfilled') answered += 1;
      else {
        expect(outcome.reason).toMatchObject({
          code: 'ERR_SIDECALL_GOING_AWAY',
          delivered: 'no',
          retryable: true,
        });
      }
    }
    expect(answered).toBe(served);
    expect(await pair.near.closed).toBeUndefined();
    expect(events).toEqual([]);
  });

  it('a listener for trailers that aborts the call ends it once, and its slot stays whole', async () => {
    await using pair = await openPair();
    pair.far.serve(
      Demo,
      demoHandlers({
        same: (value, ctx) => {
          ctx.trailers = { t: '1' };
          return value;
        },
      }),
    );
    const demo = pair.near.client(Demo);
    const stop = new AbortController();
    const call = demo.same(1, {
      signal: stop.signal,
      onTrailers: () => stop.abort(new Error('mine')),
    });
    await expect(call).rejects.toThrow('mine');
    expect(await Promise.all([demo.same(2), demo.same(3), demo.add({ a: 1, b: 1 })])).toEqual([
      2,
      3,
      { sum: 2 },
    ]);
    expect(pair.near.stats().calls).toEqual({ open: 0, waiting: 0 });
  });

  it('whatever a handler throws or returns ends its call alone, once', async () => {
    await using pair = await openPair();
    const noWords = Object.create(null);
    const odd: Record<string, () => unknown> = {
      noWords: () => {
        throw noWords;
      },
      rejects: () => Promise.reject(noWords),
      throwingThen: () => ({
        // biome-ignore lint/suspicious/noThenProperty: a thenable is what is tested
        get then() {
          throw new Error('from then');
        },
      }),
      twice: () => ({
        // biome-ignore lint/suspicious/noThenProperty: a thenable is what is tested
        then(yes: (value: number) => void, no: (error: unknown) => void) {
          yes(1);
          no(new Error('again'));
          yes(2);
        },
      }),
    };
    pair.far.serve(Demo, demoHandlers({ same: (how) => odd[how as string]?.() }));
    const demo = pair.near.client(Demo);
    for (const how of ['noWords', 'rejects', 'throwingThen']) {
      await expect(demo.same(how)).rejects.toMatchObject({ status: 'internal' });
    }
    expect(await demo.same('twice')).toBe(1);
    expect(pair.far.stats().handlers.running).toBe(0);
    expect(await demo.add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  });

  it('a call refused in the middle of its message sends the rest of it to nobody', async () => {
    await using pair = await openPair();
    pair.far.serve(service('Other', { get: unary() }), { get: () => 1 });
    const demo = pair.near.client(Demo);
    const huge = new Uint8Array(4_000_000);
    const outcomes = await Promise.allSettled(Array.from({ length: 40 }, () => demo.echo(huge)));
    for (const outcome of outcomes) {
      const { reason } = outcome as PromiseRejectedResult;
      expect(RpcError.is(reason)).toBe(true);
      expect(reason.status).toBe('unimplemented');
    }
    expect(pair.near.stats()).toMatchObject({ queuedBytes: 0, calls: { open: 0, waiting: 0 } });
  });
});

describe('a peer that does not read', () => {
  it('gets no memory of ours by opening and cancelling: a slot is free once its handler has settled', async () => {
    const peer = hostilePeer({ streamsMax: 16 });
    peer.session.serve(Demo, demoHandlers({ same: () => 'y'.repeat(3_000_000) }));
    peer.raw.isHeld = true;
    peer.announce('Demo.same');
    for (let round = 1; round < 3000 && peer.session.state !== 'closed'; round += 1) {
      for (let slot = 0; slot < 16; slot += 1) {
        peer.open({ slot, generation: round });
        peer.send(peer.write.reset(FrameFlag.fromOpener, slot, round, ResetReason.cancelled));
      }
      await turns(2);
    }
    const code = (await peer.session.closed)?.code;
    expect(['ERR_SIDECALL_PROTOCOL', 'ERR_SIDECALL_LIMIT_BYTES']).toContain(code);
  });

  it('has few handlers started whose answers are large, and none while answers wait', async () => {
    const peer = hostilePeer({ streamsMax: 2000 });
    let started = 0;
    peer.session.serve(
      Demo,
      demoHandlers({
        same: async () => {
          started += 1;
          await turns(2);
          return 'y'.repeat(1_000_000);
        },
      }),
    );
    peer.raw.isHeld = true;
    peer.announce('Demo.same');
    for (let slot = 0; slot < 2000; slot += 1) peer.open({ slot });
    await until(() => started >= 16 && peer.session.stats().handlers.running === 0);
    // Sixteen of a method of which nothing is known, and as many while the first of them had not
    // answered.
    const before = started;
    expect(before).toBeLessThan(64 + 16);
    expect(peer.session.stats().queuedBytes).toBeLessThan(before * 1_100_000);
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(started).toBe(before);
    expect(peer.session.stats().waits['answers-expected']).toBe(2000 - before);
    peer.raw.destroy();
  });
});

describe('a window', () => {
  it('is given back in batches, and sooner where the peer would run dry', () => {
    const window = new ReceiveCredit(1000, 1000);
    for (let at = 0; at < 10; at += 1) window.take(80);
    expect(window.release(80)).toBe(0);
    expect(window.release(80)).toBe(0);
    // 200 are left to the peer, 240 are owed: less than a quarter, but it is nearly dry.
    expect(window.release(80)).toBe(240);
    const busy = new ReceiveCredit(10_000, 10_000);
    busy.take(100);
    expect(busy.release(100)).toBe(0);
    busy.take(3000);
    expect(busy.release(3000)).toBe(3100);
  });
});

describe('stream ids', () => {
  it('never run out: the generation comes round and skips 0', () => {
    expect(nextGeneration(0)).toBe(1);
    expect(nextGeneration(0xffff_fffe)).toBe(0xffff_ffff);
    expect(nextGeneration(0xffff_ffff)).toBe(1);
    const streams = new OpenedStreams<{ slot: number; generation: number }>(4);
    const stream = { slot: -1, generation: 0 };
    const slots = new Set<number>();
    for (let round = 0; round < 1_000_000; round += 1) {
      streams.add(stream);
      slots.add(stream.slot);
      streams.remove(stream, true, 'peer');
    }
    expect([...slots]).toEqual([0]);
    expect(stream.generation).toBe(1_000_000);
    streams.add(stream);
    expect(streams.find(0, 999_999)).toBeUndefined();
    expect(streams.find(0, 1_000_001)).toBe(stream);
    expect(() => streams.find(0, 1_000_002)).toThrow();
    expect(() => streams.find(1, 1)).toThrow();
  });

  it('a late answer is known as late across the wrap of the generation', () => {
    const streams = new OpenedStreams<{ slot: number; generation: number }>(4);
    const stream = { slot: -1, generation: 0 };
    streams.add(stream);
    stream.generation = 0xffff_ffff; // as after 2^32 - 2 streams of this slot
    streams.remove(stream, false, 'us');
    streams.add(stream);
    expect(stream.generation).toBe(0xffff_ffff);
    expect(streams.find(0, 0xffff_fffe)).toBeUndefined();
    streams.remove(stream, true, 'peer');
    streams.add(stream);
    expect(stream.generation).toBe(1);
    expect(streams.find(0, 0xffff_ffff)).toBeUndefined();
    expect(streams.find(0, 1)).toBe(stream);
    expect(() => streams.find(0, 2)).toThrow();
    streams.remove(stream, false, 'us'); // never sent: the slot is as it was before
    expect(streams.find(0, 0xffff_ffff)).toBeUndefined();
    streams.add(stream);
    expect(stream.generation).toBe(1);
  });

  it('a stream that was never sent gives its generation back', () => {
    const streams = new OpenedStreams<{ slot: number; generation: number }>(1);
    const stream = { slot: -1, generation: 0 };
    streams.add(stream);
    streams.remove(stream, false, 'us');
    for (const generation of [0, 1, 0xffff_ffff])
      expect(() => streams.find(0, generation)).toThrow();
    streams.add(stream);
    expect(stream.generation).toBe(1);
  });
});

describe('allowances', () => {
  it('forgive early pings when one comes in time', () => {
    const pings = new PingAllowance();
    let now = 1_000_000;
    for (let round = 0; round < 20; round += 1) {
      pings.take(now);
      now += round % 3 === 2 ? 1000 : 500;
    }
    for (let round = 0; round < 100; round += 1) {
      pings.take(now);
      now += 950; // an honest timer that comes a little early
    }
    for (let round = 0; round < 3; round += 1) pings.take(now);
    expect(() => pings.take(now)).toThrow();
  });
});
