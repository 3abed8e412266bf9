import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { withResolvers } from '../support/jsonrpc.ts';
import { fill, LeaseCalls, leaseHandlers, sumOf } from '../support/lease-calls.ts';
import { openRingPair } from '../support/pairs.ts';
import { collectUntil, inPlace, native } from '../support/ring-leases.ts';

describe('views of the areas of a trusted peer', () => {
  it('have one array buffer for each area, however many blocks and leases there are', async () => {
    await using pair = await openRingPair(inPlace, inPlace);
    pair.far.serve(LeaseCalls, leaseHandlers());
    const buffers = { own: new Set<unknown>(), peers: new Set<unknown>() };
    for (let round = 0; round < 200; round += 1) {
      const block = pair.near.allocate(1 + round * 20);
      buffers.own.add(block.bytes.buffer);
      using lease = await pair.near.client(LeaseCalls).raise(block);
      buffers.peers.add((lease.bytes as unknown as Uint8Array).buffer);
    }
    expect([buffers.own.size, buffers.peers.size]).toEqual([1, 1]);
  });

  it('show newer messages once their lease was released, and are never a fault', async () => {
    const stale = await (async () => {
      await using pair = await openRingPair(inPlace, inPlace);
      pair.far.serve(LeaseCalls, leaseHandlers());
      const { raise } = pair.near.client(LeaseCalls);
      const views: Uint8Array[] = [];
      for (let round = 0; round < 50; round += 1) {
        const block = pair.near.allocate(4096);
        block.bytes.fill(round);
        using lease = await raise(block);
        expect(lease.bytes[0]).toBe(round + 1);
        views.push((lease.bytes as unknown as Uint8Array).subarray(0, 4096));
      }
      const last = views.at(-1) as Uint8Array;
      // The same place was used again and again: the oldest view shows what came last.
      const first = views.find((view) => view.byteOffset === last.byteOffset) as Uint8Array;
      expect(first).not.toBe(last);
      expect(first[0]).toBe(50);
      return views;
    })();
    for (let round = 0; round < 3; round += 1) {
      globalThis.gc?.();
      await sleep(5);
    }
    // The session is over, and its views alone keep the memory.
    expect(new Set(stale.map((view) => view.byteLength))).toEqual(new Set([4096]));
    expect(stale.every((view) => sumOf(view) >= 0)).toBe(true);
  });

  it('of what was sent can still be written: the peer trusts the program not to', async () => {
    await using pair = await openRingPair(inPlace, inPlace);
    const seen: number[][] = [];
    const { promise: written, resolve: write } = withResolvers<void>();
    pair.far.serve(
      LeaseCalls,
      leaseHandlers({
        take: async (lease) => {
          const before = lease.bytes[0] as number;
          write();
          await sleep(5);
          seen.push([before, lease.bytes[0] as number]);
          return { sum: 0, copied: lease.copied };
        },
      }),
    );
    const block = pair.near.allocate(100);
    const { bytes: view } = block;
    view.fill(1);
    const taking = pair.near.client(LeaseCalls).take(block);
    await written;
    view.fill(2);
    await taking;
    expect(seen).toEqual([[1, 2]]);
  });

  it('are made anew where the program has transferred their array buffer', async () => {
    await using pair = await openRingPair(inPlace, inPlace);
    pair.far.serve(LeaseCalls, leaseHandlers());
    const { raise } = pair.near.client(LeaseCalls);
    for (let round = 0; round < 3; round += 1) {
      const block = pair.near.allocate(1000);
      const sum = fill(block.bytes, round);
      using lease = await raise(block);
      expect(lease.copied).toBe(false);
      expect(sumOf(lease.bytes)).not.toBe(sum);
      for (const { buffer } of [
        pair.near.allocate(10).bytes,
        lease.bytes as unknown as Uint8Array,
      ]) {
        native.detach(buffer as ArrayBuffer); // as a transfer does where the host allows one
      }
    }
    await collectUntil(() => pair.near.stats().blocks.inUse === 0);
  });
});
