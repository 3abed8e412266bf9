// The figures that the bench computes itself.
import { describe, expect, it } from 'vitest';
import { ringPages } from '../../bench/placement.mjs';
import { rankSumP } from '../../bench/rank-sum.mjs';

describe('the comparison of two transports', () => {
  const upTo = (count: number, from = 0): number[] =>
    Array.from({ length: count }, (_, at) => from + at);

  it('gives the exact probabilities of Mann and Whitney', () => {
    expect(rankSumP([1, 2, 3], [4, 5, 6])).toBeCloseTo(2 / 20, 12);
    expect(rankSumP([1, 2, 3, 4], [5, 6, 7, 8])).toBeCloseTo(2 / 70, 12);
    expect(rankSumP([1, 3, 5, 7], [2, 4, 6, 8])).toBeCloseTo(0.685_714_285_7, 9);
    expect(rankSumP(upTo(20), upTo(20, 20))).toBeLessThan(1e-10);
  });

  it('is the same whichever sample comes first, and 1 where they are equal', () => {
    const [a, b] = [
      [5, 9, 1, 7, 3],
      [2, 8, 6, 4, 10],
    ];
    expect(rankSumP(a, b)).toBeCloseTo(rankSumP(b, a), 12);
    expect(rankSumP([1, 1, 1, 1], [1, 1, 1, 1])).toBe(1);
  });
});

describe('the nodes of the rings', () => {
  it('are read from the pages of anonymous files alone', () => {
    const pages = ringPages(
      [
        '7f00 default file=/memfd:sidecall\\040(deleted) dirty=64 mapped=64 mapmax=2 N0=3 N1=61 kernelpagesize_kB=4',
        '7f10 default file=/memfd:sidecall\\040(deleted) mapped=8 N1=8 kernelpagesize_kB=4',
        '7f20 default heap anon=900 dirty=900 N0=900 kernelpagesize_kB=4',
      ].join('\n'),
    );
    expect([...pages]).toEqual([
      [0, 3],
      [1, 69],
    ]);
  });
});
