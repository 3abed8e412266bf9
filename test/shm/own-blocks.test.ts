// Blocks of the sender in shared memory, bytes that are freed while they wait, options of leases.

import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import type { Lease } from '../../src/rpc/contract/leases.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { Demo, demoHandlers, until } from '../support/contract.ts';
import { fill, LeaseCalls, leaseHandlers, sumOf } from '../support/lease-calls.ts';
import { openRingPair } from '../support/pairs.ts';
import { addonWith, collectUntil, inPlace, KiB, MiB, native } from '../support/ring-leases.ts';

describe('blocks of the sender', () => {
  it('are sent without a copy: what goes through the ring does not grow with them', async () => {
    const moved: number[] = [];
    const count = (of: number): void => void moved.push(of);
    const counting = addonWith({
      ringWriteStaged: (ring, size, bulk) => {
        count(size);
        return native.ringWriteStaged(ring, size, bulk);
      },
      ringWriteBytes: (ring, header, payload, bulk) => {
        count(header + payload.byteLength);
        return native.ringWriteBytes(ring, header, payload, bulk);
      },
      ringWriteBlock: (ring, staged, offset, size) => {
        count(staged);
        return native.ringWriteBlock(ring, staged, offset, size);
      },
    });
    const options = { ...inPlace, blockAreaBytes: 4 * MiB };
    await using pair = await openRingPair(options, options, counting);
    pair.far.serve(LeaseCalls, leaseHandlers());
    const { take } = pair.near.client(LeaseCalls);
    await take(pair.near.allocate(1)); // announces the method
    for (const size of [64, 64 * KiB, MiB, 4 * MiB]) {
      moved.length = 0;
      const block = pair.near.allocate(size);
      expect(block.inPlace).toBe(true);
      const sum = fill(block.bytes, size);
      expect(await take(block)).toEqual({ sum, copied: false });
      expect(moved.reduce((all, one) => all + one, 0)).toBeLessThan(200);
    }
  });

  it('are ordinary memory where none is free, and counted; a peer that keeps them hurts nobody else', async () => {
    await using pair = await openRingPair(inPlace, inPlace);
    const held: Lease[] = [];
    pair.far.serve(
      LeaseCalls,
      leaseHandlers({
        take: (lease) => {
          held.push(lease.keep());
          return { sum: sumOf(lease.bytes), copied: lease.copied };
        },
      }),
    );
    pair.far.serve(Demo, demoHandlers());
    const { take } = pair.near.client(LeaseCalls);
    const outcomes: boolean[] = [];
    for (let at = 0; at < 24; at += 1) {
      const block = pair.near.allocate(100 * KiB); // 128 KiB each, of 1 MiB
      outcomes.push(block.inPlace);
      const sum = fill(block.bytes, at);
      expect(await take(block)).toEqual({ sum, copied: !block.inPlace });
    }
    expect(outcomes.filter(Boolean)).toHaveLength(8);
    expect(pair.near.stats().blocks).toEqual({ inUse: 8, inPlace: 8, ordinary: 16 });
    expect(pair.far.stats().leases).toMatchObject({ held: 8 });
    const demo = pair.near.client(Demo);
    const sums = await Promise.all(
      Array.from({ length: 1000 }, (_, a) => demo.add({ a, b: 1 }).then(({ sum }) => sum - a)),
    );
    expect(sums.every((one) => one === 1)).toBe(true);
    for (const lease of held) lease.release();
    await until(() => pair.near.stats().blocks.inUse === 0);
    expect(pair.near.allocate(900 * KiB).inPlace).toBe(true);
  });

  it('as many as there may be go at once, and wait their turn in the queue', async () => {
    const area = { ...inPlace, blockAreaBytes: 8 * MiB, ringBytes: 64 * KiB };
    await using pair = await openRingPair(area, area);
    pair.far.serve(LeaseCalls, leaseHandlers());
    const { take } = pair.near.client(LeaseCalls);
    let inPlaceCount = 0;
    const answers = await Promise.all(
      Array.from({ length: 3000 }, async (_, at) => {
        const block = pair.near.allocate(100 + at);
        if (block.inPlace) inPlaceCount += 1;
        const sum = fill(block.bytes, at);
        return (await take(block)).sum === sum;
      }),
    );
    expect(answers.every(Boolean)).toBe(true);
    expect(inPlaceCount).toBe(1024);
    await until(() => pair.near.stats().blocks.inUse === 0);
  });

  it('that nobody sends or frees are free again when they were collected', async () => {
    await using pair = await openRingPair(inPlace, inPlace);
    const view = (() => {
      for (let at = 0; at < 7; at += 1) pair.near.allocate(128 * KiB);
      return pair.near.allocate(128 * KiB).bytes;
    })();
    view.fill(9);
    expect(pair.near.stats().blocks.inUse).toBe(8);
    await collectUntil(() => pair.near.stats().blocks.inUse === 1);
    expect(view[100]).toBe(9); // its block is gone, its view is not
    expect(pair.near.allocate(128 * KiB).inPlace).toBe(true);
  });

  it('that wait to be sent are not free because nobody looks at them', async () => {
    const small = { ...inPlace, ringBytes: 64 * KiB };
    await using pair = await openRingPair(small, small);
    pair.far.serve(LeaseCalls, leaseHandlers());
    pair.far.serve(Demo, demoHandlers());
    // Long messages fill the ring; the blocks wait behind small ones.
    const load = Array.from({ length: 20 }, () =>
      pair.near.client(Demo).echo(new Uint8Array(60_000)),
    );
    const wanted: number[] = [];
    const answers = Array.from({ length: 100 }, (_, at) => {
      const block = pair.near.allocate(4096);
      wanted.push(fill(block.bytes, at));
      return pair.near.client(LeaseCalls).take(block);
    });
    for (let round = 0; round < 5; round += 1) {
      globalThis.gc?.();
      await sleep(1);
    }
    const sums = (await Promise.all(answers)).map(({ sum }) => sum);
    expect(sums).toEqual(wanted);
    await Promise.all(load);
  });

  it('of a cancelled call that was never written are freed', async () => {
    const small = { ...inPlace, limits: { streamsMax: 1 } };
    await using pair = await openRingPair(small, small);
    pair.far.serve(Demo, demoHandlers());
    pair.far.serve(LeaseCalls, leaseHandlers());
    const first = new AbortController();
    const hanging = pair.near.client(Demo).hang(undefined, { signal: first.signal });
    const second = new AbortController();
    const waiting = pair.near
      .client(LeaseCalls)
      .take(pair.near.allocate(5000), { signal: second.signal })
      .catch((error: Error) => error.message);
    expect(pair.near.stats().blocks.inUse).toBe(1);
    second.abort(new Error('enough'));
    expect(await waiting).toBe('enough');
    expect(pair.near.stats().blocks.inUse).toBe(0);
    first.abort(new Error('enough'));
    await hanging.catch((error: Error) => error.stack);
  });
});

describe('bytes that go away while they wait', () => {
  it('end their call, and neither the session nor the process', async () => {
    await using pair = await openRingPair({}, {});
    pair.far.serve(Demo, demoHandlers());
    const payload = new Uint8Array(3 * MiB);
    const echo = pair.near.client(Demo).echo(payload);
    structuredClone(payload.buffer, { transfer: [payload.buffer] });
    expect(await echo.catch((error: unknown) => error)).toMatchObject({
      code: 'ERR_SIDECALL_LEASE_RELEASED',
      message: expect.stringContaining('detached'),
    });
    expect(await pair.near.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    expect(pair.near.state).toBe('open');
  });
});

describe('options', () => {
  it('are checked', async () => {
    await expect(listen({ leases: 'on' as never })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_VALUE',
    });
    for (const blockAreaBytes of [-1, 0.5, 2 ** 31]) {
      await expect(listen({ blockAreaBytes })).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
    }
  });

  it('an area that the process has no memory left for leaves the socket lane, and says why', async () => {
    const Plain = service('Plain', { echo: unary({ request: bytes, response: bytes }) });
    const wanted = { lane: 'auto' as const, blockAreaBytes: 1024 * MiB, leases: 'copy' as const };
    const events: SidecallEvent[] = [];
    await using pair = await openRingPair(
      { ...wanted, onEvent: (event) => events.push(event) },
      { lane: 'auto' },
    );
    expect(pair.near.lane).toBe('socket');
    expect(pair.near.laneReason).toContain('ringMemoryMaxBytes');
    expect(pair.near.allocate(100).inPlace).toBe(false);
    pair.far.serve(Plain, { echo: (payload) => payload });
    expect(await pair.near.client(Plain).echo(new Uint8Array(3))).toEqual(Buffer.alloc(3));
  });
});
