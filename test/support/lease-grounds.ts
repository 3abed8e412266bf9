// Transports for tests of blocks and leases, with and without shared memory below them.
import { expect } from 'vitest';
import type { SessionOptions } from '../../src/open/session-options.ts';
import { until } from './contract.ts';
import { lanes, openRingPair, type Pair } from './pairs.ts';

export const MiB = 1024 * 1024;

const area: SessionOptions = { blockAreaBytes: 16 * MiB, leases: 'copy' };

const inPlace: SessionOptions = { ...area, leases: 'in-place-trusted' };

export interface Ground {
  readonly name: string;
  readonly open: () => Promise<Pair>;
  /** Blocks are in shared memory; leases (`isInPlace`) are the blocks themselves. */
  readonly lends: boolean;
  readonly isInPlace: boolean;
}

export const grounds: Ground[] = [
  ...lanes.map(({ lane, openPair }) => ({
    name: lane,
    open: () => openPair(),
    lends: false,
    isInPlace: false,
  })),
  {
    name: 'ring with block areas, copied',
    open: () => openRingPair(area, area),
    lends: true,
    isInPlace: false,
  },
  {
    name: 'ring with block areas, in place',
    open: () => openRingPair(inPlace, inPlace),
    lends: true,
    isInPlace: true,
  },
  {
    name: 'ring with block areas, switched off by the receiver',
    open: () => openRingPair({ ...area, leases: 'off' }, { ...area, leases: 'off' }),
    lends: false,
    isInPlace: false,
  },
];

/**
 * The reason that a promise rejects with. An error keeps the objects of its frames until its stack
 * was read, and the test runner keeps the errors of `expect().rejects`.
 */
export async function failureOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    void (error as Error).stack;
    return error;
  }
  throw new Error('it did not reject');
}

/** Waits until all blocks of both sides were released. */
export async function expectQuiet(pair: Pair): Promise<void> {
  const used = (): number[] =>
    [pair.near, pair.far].flatMap((one) => {
      const { blocks, leases } = one.stats();
      return [blocks.inUse, leases.held];
    });
  await until(() => used().every((count) => count === 0));
  expect(used()).toEqual([0, 0, 0, 0]);
}
