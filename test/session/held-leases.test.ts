// A lease that is held for long does not hold up the other streams of its session.
import { describe, expect, it } from 'vitest';
import { Demo, demoHandlers } from '../support/contract.ts';
import { fill, LeaseCalls, leaseHandlers, sumOf } from '../support/lease-calls.ts';
import { openRingPair } from '../support/pairs.ts';
import { inPlace } from '../support/ring-leases.ts';

const windows = 5;
const windowMs = 250;

describe('a lease that is held for ten seconds', () => {
  it('keeps its bytes, and other calls of the session keep their rate', async () => {
    await using pair = await openRingPair(inPlace, inPlace);
    pair.far.serve(LeaseCalls, leaseHandlers());
    pair.far.serve(Demo, demoHandlers());
    const { echo } = pair.near.client(Demo);
    const { raise } = pair.near.client(LeaseCalls);
    const payload = Buffer.alloc(1_000, 7);
    /** Echoes of one window, 16 at once. */
    const echoes = async (): Promise<number> => {
      // By the time that we compute, since other processes may have the processors.
      const begun = process.cpuUsage();
      const isOver = (): boolean => process.cpuUsage(begun).user >= windowMs * 1_000;
      let count = 0;
      const caller = async (): Promise<void> => {
        for (; !isOver(); count += 1) {
          expect((await echo(payload)).byteLength).toBe(1_000);
        }
      };
      await Promise.all(Array.from({ length: 16 }, caller));
      return count;
    };
    const rates = { free: 0, held: 0 };
    await echoes();
    for (let window = 0; window < windows; window += 1) {
      rates.free += await echoes();
      const block = pair.near.allocate(100_000);
      fill(block.bytes, window);
      using lease = await raise(block);
      expect(lease.copied).toBe(false);
      const sum = sumOf(lease.bytes);
      rates.held += await echoes();
      expect(sumOf(lease.bytes)).toBe(sum);
    }
    const held = pair.near.allocate(100_000);
    fill(held.bytes, 99);
    using lease = await raise(held);
    const sum = sumOf(lease.bytes);
    let others = 0;
    for (let window = 0; window < 20; window += 1) others += await echoes();
    expect(sumOf(lease.bytes)).toBe(sum);
    // The outbox of 1 MiB was used many times over while the lease was held.
    expect(others * payload.byteLength).toBeGreaterThan(10 * 1_048_576);
    // The two rates are of interleaved windows; half is far below what their spread explains.
    expect(rates.held / rates.free).toBeGreaterThan(0.5);
  });
});
