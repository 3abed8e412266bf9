// SPDX-License-Identifier: MIT
// Chance that a seed decides: the same numbers on every machine and Node.

/** A sequence of numbers that follows from its seed (algorithm: sfc32 by Chris Doty-Humphrey). */
export class SeededRandom {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  /** @param seed any integer; its low 53 bits count. */
  constructor(seed: number) {
    this.#a = seed >>> 0;
    this.#b = Math.floor(seed / 2 ** 32) >>> 0;
    this.#c = 0;
    for (let round = 0; round < 12; round += 1) this.next(); // mixes neighbouring seeds apart
  }

  /** A whole number from 0 to 2^32 - 1. */
  next(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return sum >>> 0;
  }

  /** A number from 0 up to but not including 1. */
  fraction(): number {
    return this.next() / 2 ** 32;
  }

  /** A whole number from 0 up to but not including `end`. */
  below(end: number): number {
    return Math.floor(this.fraction() * end);
  }

  /** True in `percent` of a hundred cases. */
  chance(percent: number): boolean {
    return this.fraction() * 100 < percent;
  }

  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)] as T;
  }

  /** A sequence of its own: what one part draws does not move what another draws. */
  fork(): SeededRandom {
    return new SeededRandom(this.next() * 2 ** 21 + (this.next() >>> 11));
  }
}
