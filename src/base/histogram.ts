// SPDX-License-Identifier: MIT
// A distribution of durations in fixed memory: eight buckets for each power of two, so that a
// percentile is at most a sixteenth away from the true one. HdrHistogram divides its range in the
// same way.

/** Percentiles of durations, in milliseconds. All 0 where nothing was measured. */
export interface Percentiles {
  /** Durations that were measured. */
  readonly count: number;
  /** Half of them were at most this long. */
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  /** The longest one, exactly. */
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

/** Counts durations. Takes 2.5 KiB from the first one on. */
export class Histogram {
  #counts: Float64Array | undefined;
  #count = 0;
  #max = 0;
  #sum = 0;

  /** Adds a duration in milliseconds, `times` times; one below 0 counts as 0. */
  record(ms: number, times = 1): void {
    const bucket = ms > 0 ? numberOf(ms) - first : 0;
    this.#counts ??= new Float64Array(buckets);
    const at = bucket < 0 ? 0 : bucket >= buckets ? buckets - 1 : bucket;
    (this.#counts[at] as number) += times;
    this.#count += times;
    if (ms > 0) this.#sum += ms * times;
    if (ms > this.#max) this.#max = ms;
  }

  /** Adds everything that another one has counted. */
  add(other: Histogram): void {
    if (other.#counts === undefined) return;
    this.#counts ??= new Float64Array(buckets);
    for (let at = 0; at < buckets; at += 1) {
      (this.#counts[at] as number) += other.#counts[at] as number;
    }
    this.#count += other.#count;
    this.#sum += other.#sum;
    this.#max = Math.max(this.#max, other.#max);
  }

  /** The percentiles of what was counted. */
  percentiles(): Percentiles {
    const [p50, p90, p99] = this.#at([0.5, 0.9, 0.99]) as [number, number, number];
    return { count: this.#count, p50, p90, p99, max: this.#max, sum: this.#sum };
  }

  #at(shares: readonly number[]): number[] {
    const counts = this.#counts;
    if (counts === undefined) return shares.map(() => 0);
    let [bucket, seen] = [0, counts[0] as number];
    return shares.map((share) => {
      const wanted = Math.ceil(share * this.#count);
      while (seen < wanted) {
        bucket += 1;
        seen += counts[bucket] as number;
      }
      return Math.min(middleOf(bucket), this.#max);
    });
  }
}
