// Reproducible random numbers: each run prints its seed, and SIDECALL_SEED replays it.

/** The generator mulberry32: small, fast, and sufficient for tests. */
export class Random {
  readonly seed: number;
  #state: number;

  constructor(seed: number) {
    this.seed = seed;
    this.#state = seed >>> 0;
  }

  /** From the environment, or a new one. */
  static fromEnvironment(): Random {
    const given = Number(process.env.SIDECALL_SEED);
    return new Random(Number.isInteger(given) && given > 0 ? given : Date.now() % 0x7fff_ffff);
  }

  /** 0 to below `below`. */
  next(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.next(items.length)] as T;
  }

  chance(percent: number): boolean {
    return this.next(100) < percent;
  }
}
