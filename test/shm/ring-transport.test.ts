// The transport over a scripted ring, for results that the native one has only when the kernel is
// out of memory.

import { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { SidecallError } from '../../src/base/errors.ts';
import { tuning } from '../../src/base/limits/internal-limits.ts';
import { DrainResult, type Ring, RingResult } from '../../src/shm/ring.ts';
import { RingTransport } from '../../src/shm/ring-transport.ts';
import { FrameType, headerBytes } from '../../src/wire/frame-header.ts';
import { turns, until } from '../support/contract.ts';

function scene(
  overrides: Partial<Ring>,
  pollBudgetUs = 0,
  onFrame: () => void = () => undefined,
): {
  transport: RingTransport;
  ends: (SidecallError | undefined)[];
  calls: string[];
  ring: (bytes: Uint8Array) => void;
} {
  const calls: string[] = [];
  const standard = {
    slab: new Uint8Array(16),
    filledBytes: 0,
    largeBytes: 0,
    records: 0,
    registers: new Float64Array(9),
    seenPosition: 0,
    owesDoorbell: false,
    write: () => RingResult.written,
    publish: () => true,
    drain: () => DrainResult.nothing,
    take: () => undefined,
    hasRoom: () => RingResult.full,
    prepareToSleep: () => RingResult.written,
    wake: () => void calls.push('wake'),
    onDoorbell: () => true,
    freeze: () => true,
    expectLongMessages: () => undefined,
    threadTimes: () => undefined,
    close: () => void calls.push('close'),
  };
  // Getters stay getters.
  const ring = Object.defineProperties(
    standard,
    Object.getOwnPropertyDescriptors(overrides),
  ) as unknown as Ring;
  let onBytes!: (bytes: Uint8Array) => void;
  const transport = new RingTransport({
    ring,
    owner: 1,
    frameMaxBytes: 1000,
    lendsInPlace: false,
    pollBudgetUs,
    open: (callback) => {
      onBytes = callback;
      return { socket: new Socket(), drain: undefined };
    },
  });
  const ends: (SidecallError | undefined)[] = [];
  transport.start({
    onFrame,
    placeFor: () => undefined,
    takeAhead: () => false,
    onRoom: () => void calls.push('room'),
    onEnd: (error) => ends.push(error),
  });
  return { transport, ends, calls, ring: (bytes) => onBytes(bytes) };
}

const header = new Uint8Array(12);

describe('a ring transport', () => {
  it('tries again for a doorbell that it owes while it sleeps, and gives up in the end', async () => {
    let isBroken = false;
    const { transport, ends, calls } = scene({
      publish: () => !isBroken,
      prepareToSleep: () => (isBroken ? RingResult.full : RingResult.written),
      get owesDoorbell() {
        return isBroken;
      },
    });
    await until(() => !transport.isAwake);
    isBroken = true;
    const begun = performance.now();
    transport.trySend(header, undefined, false);
    await turns();
    expect(transport.isAwake).toBe(true);
    expect(calls).toEqual(['wake']);
    await until(() => ends.length > 0);
    expect(performance.now() - begun).toBeGreaterThanOrEqual(tuning.doorbellOwedMaxMs);
    expect(ends).toMatchObject([{ code: 'ERR_SIDECALL_SYSTEM' }]);
    expect(transport.isAwake).toBe(false);
  });

  it('sleeps again when the doorbell went out', async () => {
    let attempts = 0;
    const { transport, ends } = scene({
      publish: () => false,
      prepareToSleep: () => {
        attempts += 1;
        return attempts === 5 ? RingResult.written : RingResult.full;
      },
      get owesDoorbell() {
        return attempts < 5;
      },
    });
    transport.trySend(header, undefined, false);
    await until(() => !transport.isAwake);
    expect(attempts).toBe(5);
    expect(ends).toEqual([]);
    transport.destroy();
  });

  it.each([
    [0, 'sleeps again at once behind a doorbell'],
    [1000, 'stays awake for its poll budget behind a doorbell'],
  ])('with a budget of %i µs %s', async (budgetUs, _) => {
    const { transport, ring } = scene({}, budgetUs);
    await until(() => !transport.isAwake);
    ring(Uint8Array.of(1));
    expect(transport.isAwake).toBe(budgetUs > 0);
    transport.destroy();
  });

  it('a write that met a full ring keeps it looking for room, and tells of it once', async () => {
    let isFull = true;
    const { transport, calls } = scene({
      write: () => (isFull ? RingResult.full : RingResult.written),
      hasRoom: () => (isFull ? RingResult.full : RingResult.written),
    });
    await until(() => !transport.isAwake);
    expect(transport.trySend(header, undefined, false)).toBe(false);
    expect(calls).toEqual(['wake']);
    expect(transport.isAwake).toBe(true);
    isFull = false;
    await turns(3);
    expect(calls).toEqual(['wake', 'room']);
    transport.destroy();
  });

  it('a ring that turns out corrupt in any call ends its session once', async () => {
    for (const broken of [
      { drain: () => DrainResult.corrupt },
      { prepareToSleep: () => RingResult.corrupt },
      { freeze: () => false },
    ]) {
      const { transport, ends, calls } = scene(broken);
      if ('freeze' in broken) transport.drainLast(new Error('gone') as SidecallError);
      await until(() => ends.length > 0);
      await turns(3);
      expect(ends).toMatchObject([{ code: 'ERR_SIDECALL_RING_CORRUPT' }]);
      expect(calls).toEqual(['close']);
      expect(transport.trySend(header, undefined, false)).toBe(true);
    }
  });

  it('looks long where it is polled alone, and only then', () => {
    const looked: (number | undefined)[] = [];
    const drain = (_max: number, looks?: number): number => {
      looked.push(looks);
      return DrainResult.nothing;
    };
    const { transport } = scene({ drain }, 50);
    transport.serve(2, true);
    transport.serve(2, false);
    transport.destroy();
    const { transport: unpolled } = scene({ drain }, 0);
    unpolled.serve(2, true);
    unpolled.destroy();
    expect(looked).toEqual([200, 0, 0]);
  });

  /** Publications while these many frames are written, and once the loop is about to go on. */
  async function publications(frames: number, arrived: number): Promise<number[]> {
    let published = 0;
    const { transport } = scene({
      records: arrived,
      publish: () => {
        published += 1;
        return true;
      },
    });
    transport.serve(2);
    const seen = [];
    for (let turn = 0; turn < 2; turn += 1) {
      for (let frame = 0; frame < frames; frame += 1) transport.trySend(header, undefined, false);
      seen.push(published);
      await new Promise((done) => process.nextTick(done));
      seen.push(published);
      published = 0;
    }
    transport.destroy();
    return seen;
  }

  it('publishes the first frame of each turn at once, a few of the others, and then the rest', async () => {
    expect(await publications(1, 1)).toEqual([1, 1, 1, 1]);
    expect(await publications(10, 1)).toEqual([3, 4, 3, 4]);
    expect(await publications(10, 0)).toEqual([3, 4, 3, 4]);
  });

  it('publishes a few frames at a time where several records came together', async () => {
    expect(await publications(1, 2)).toEqual([0, 1, 0, 1]);
    expect(await publications(10, 2)).toEqual([2, 3, 2, 3]);
  });

  it('publishes the first answer of each turn while it hands out what has arrived', () => {
    const seen: string[] = [];
    const pingBytes = headerBytes(FrameType.ping);
    const frame = Uint8Array.of(
      pingBytes,
      0,
      0,
      0,
      FrameType.ping,
      ...Array(pingBytes - 1).fill(0),
    );
    const { transport } = scene(
      {
        slab: frame,
        records: 1,
        filledBytes: frame.length,
        write: () => {
          seen.push('write');
          return RingResult.written;
        },
        publish: () => {
          seen.push('publish');
          return true;
        },
      },
      0,
      () => {
        transport.trySend(header, undefined, false);
        transport.trySend(header, undefined, false);
      },
    );
    for (let turn = 0; turn < 2; turn += 1) {
      transport.serve(2);
      expect(seen.splice(0)).toEqual(['write', 'publish', 'write', 'publish']);
    }
    transport.destroy();
  });
});
