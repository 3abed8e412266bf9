// SPDX-License-Identifier: MIT
// A distribution of durations in fixed memory: eight buckets for each power of two, so that a
// percentile is at most a sixteenth away from the true one. HdrHistogram divides its range in the
// same way.

/** Percentiles of durations, in milliseconds. All 0 where nothing was measured. */
export interface Percentiles {
  /** Durations that were measured. */
  readonly count: number;
  /** Half of them were at most this long; at most a sixteenth away from the true value. */
  readonly p50: number;
  /** Nine tenths of them were at most this long. */
  readonly p90: number;
  /** 99 of 100 were at most this long. */
  readonly p99: number;
  /** The longest one. It is not rounded to a bucket, unlike the percentiles. */
  readonly max: number;
  /** All of them together. */
  readonly sum: number;
}

// The upper half of a double holds its exponent and its first fraction bits: shifted, it is the
// number of the bucket. A logarithm would cost more than all the rest.
const double = new Float64Array(1);
const halves = new Uint32Array(double.buffer);
const upper = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1 ? 1 : 0;
const fractionBits = 3;
const shift = 20 - fractionBits;

/** Shortest and longest durations with buckets of their own: 0.12 µs and 37 hours. */
const first = numberOf(2 ** -13);
const last = numberOf(2 ** 27);
const buckets = last - first + 1;

function numberOf(ms: number): number {
  double[0] = ms;
  return (halves[upper] as number) >>> shift;
}

/** The middle of a bucket. */
function middleOf(bucket: number): number {
  halves[1 - upper] = 0;
  halves[upper] = (bucket + first) << shift;
  const from = double[0] as number;
  halves[upper] = (bucket + first + 1) << shift;
  return (from + (double[0] as number)) / 2;
}

// The numbers of a histogram are in one array, since a further object would be memory to fetch for
// each duration: the counts of its buckets, then these.
const sumAt = buckets;
const maxAt = buckets + 1;
const numbers = buckets + 2;

/** Counts durations. Takes 2.5 KiB from the first one on. */
export class Histogram {
  #numbers: Float64Array | undefined;

  /** Adds a duration in milliseconds, `times` times; one below 0 counts as 0. */
  record(ms: number, times = 1): void {
    const all = this.#numbers ?? this.#allocate();
    const longMs = Math.max(ms, 0);
    const bucket = numberOf(longMs) - first;
    (all[bucket < 0 ? 0 : bucket >= buckets ? buckets - 1 : bucket] as number) += times;
    (all[sumAt] as number) += longMs * times;
    if (longMs > (all[maxAt] as number)) all[maxAt] = longMs;
  }

  /** Adds everything that another one has counted. */
  add(other: Histogram): void {
    const added = other.#numbers;
    if (added === undefined) return;
    const all = this.#numbers ?? this.#allocate();
    for (let at = 0; at < maxAt; at += 1) (all[at] as number) += added[at] as number;
    all[maxAt] = Math.max(all[maxAt] as number, added[maxAt] as number);
  }

  /** The percentiles of what was counted. */
  percentiles(): Percentiles {
    const all = this.#numbers;
    if (all === undefined) return { count: 0, p50: 0, p90: 0, p99: 0, max: 0, sum: 0 };
    let count = 0;
    for (let at = 0; at < buckets; at += 1) count += all[at] as number;
    const max = all[maxAt] as number;
    let [bucket, seen] = [0, all[0] as number];
    const [p50, p90, p99] = [0.5, 0.9, 0.99].map((share) => {
      const wanted = Math.ceil(share * count);
      while (seen < wanted) {
        bucket += 1;
        seen += all[bucket] as number;
      }
      return Math.min(middleOf(bucket), max);
    }) as [number, number, number];
    return { count, p50, p90, p99, max, sum: all[sumAt] as number };
  }

  #allocate(): Float64Array {
    this.#numbers = new Float64Array(numbers);
    return this.#numbers;
  }
}
