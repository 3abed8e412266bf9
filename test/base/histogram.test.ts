// A distribution in fixed memory: percentiles close to the true ones, sums, and extremes.
import { expect, test } from 'vitest';
import { Histogram } from '../../src/base/histogram.ts';
import { Random } from '../support/random.ts';

function of(values: readonly number[]): Histogram {
  const histogram = new Histogram();
  for (const value of values) histogram.record(value);
  return histogram;
}

test('has no percentiles without values', () => {
  expect(new Histogram().percentiles()).toEqual({
    count: 0,
    p50: 0,
    p90: 0,
    p99: 0,
    max: 0,
    sum: 0,
  });
});

test.each([1, 2, 3])('is within a sixteenth of the true percentiles, with seed %i', (seed) => {
  const random = new Random(seed);
  // From a tenth of a microsecond to a day, by powers of two.
  const values = Array.from({ length: 20_000 }, () => 2 ** (-13 + 39 * (random.next(1e9) / 1e9)));
  const { count, p50, p90, p99, max } = of(values).percentiles();
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.ceil(share * count) - 1] as number;
  expect(count).toBe(values.length);
  expect(max).toBe(sorted.at(-1));
  for (const [ours, share] of [
    [p50, 0.5],
    [p90, 0.9],
    [p99, 0.99],
  ] as const) {
    expect(Math.abs(ours / at(share) - 1)).toBeLessThanOrEqual(1 / 16);
  }
});

test('counts what is too short, too long or below nothing at its ends', () => {
  const histogram = of([-1, 0, 1e-9, 1e12]);
  expect(histogram.percentiles()).toMatchObject({ count: 4, max: 1e12 });
  const { p50 } = histogram.percentiles();
  expect(p50).toBeLessThan(0.001);
});

test('is the sum of its parts', () => {
  const random = new Random(7);
  const values = Array.from({ length: 1_000 }, () => 100 * (random.next(1e9) / 1e9));
  const sum = of(values.slice(0, 300));
  sum.add(of(values.slice(300)));
  sum.add(new Histogram());
  const whole = of(values).percentiles();
  expect(sum.percentiles()).toEqual({ ...whole, sum: expect.closeTo(whole.sum, 6) });
  const exact = values.reduce((all, value) => all + value, 0);
  expect(whole).toMatchObject({ count: 1_000, sum: expect.closeTo(exact, 6) });
});

test('counts a duration several times at once', () => {
  const histogram = new Histogram();
  histogram.record(3, 5);
  histogram.record(7);
  expect(histogram.percentiles()).toMatchObject({ count: 6, max: 7, sum: 22 });
});
