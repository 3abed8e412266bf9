// The figures that the bench computes itself.
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type ComparedRow, comparisonsOf, comparisonText } from '../../bench/comparisons.mjs';
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

describe('rows of two transports', () => {
  function row(peer: string, rounds: readonly number[], more: Partial<ComparedRow> = {}) {
    const callsPerSecond = rounds.toSorted((a, b) => a - b)[rounds.length >> 1] ?? 0;
    const cell = { scenario: 'health100k', size: 0, inFlight: 1 };
    return { ...cell, peer, rounds, callsPerSecond, ...more };
  }
  const unix = row('grpc-go-uds', [1_000, 1_010, 1_020, 1_030, 1_040]);
  const tcp = row('grpc-go-tcp', [800, 810, 816, 820, 830]);

  it('are compared by the ratio of their medians and the probability of chance', () => {
    const compared = comparisonsOf([unix, tcp, row('sidecall', [9, 9, 9, 9])]);
    expect(compared).toEqual([
      expect.objectContaining({ first: 'grpc-go-uds', second: 'grpc-go-tcp', ratio: 1.25 }),
    ]);
    expect(compared[0]?.p).toBeCloseTo(2 / 252, 12);
    expect(compared.map(comparisonText)).toEqual([
      'grpc-go-tcp takes 1.25 times as long as grpc-go-uds (p = 0.008, n = 5 + 5)',
    ]);
  });

  it('that overlap show no difference', () => {
    const other = row('grpc-go-tcp', [1_001, 1_011, 1_019, 1_031, 1_039]);
    expect(comparisonsOf([unix, other]).map(comparisonText)).toEqual([
      expect.stringMatching(
        /^no difference of grpc-go-tcp and grpc-go-uds is shown \(p = [\d.]+, /,
      ),
    ]);
  });

  it('are not compared with fewer than four rounds, in other cells, or where one was skipped', () => {
    const [few, elsewhere] = [row('grpc-go-tcp', [1, 2, 3]), { ...tcp, inFlight: 16 }];
    for (const other of [few, elsewhere, { ...tcp, skipped: 'not installed' }]) {
      expect(comparisonsOf([{ ...unix, rounds: other.rounds }, other])).toEqual([]);
    }
  });

  it('are published with both transports and at least four rounds', () => {
    const folder = new URL('../../bench/results/', import.meta.url);
    const published = readdirSync(folder).flatMap(
      (name) => JSON.parse(readFileSync(new URL(name, folder), 'utf8')).rows as ComparedRow[],
    );
    const compared = comparisonsOf(published);
    for (const scenario of ['health100k', 'connect-rate']) {
      expect(compared.map((one) => one.scenario)).toContain(scenario);
    }
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
