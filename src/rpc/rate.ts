// SPDX-License-Identifier: MIT
// How often a peer may do what costs us more than it. Time is that of `performance.now()`.
import { nowMs } from '../clock.ts';
import { SidecallError } from '../errors.ts';
import { fixed } from '../limits.ts';

/** Cancels of calls that are not answered yet: a bucket that time and well-ended calls refill. */
export class CancelAllowance {
  readonly #capacity: number;
  #tokens: number;
  #filledAt: number;

  constructor(streamsMax: number, now = nowMs()) {
    this.#filledAt = now;
    this.#capacity = 2 * streamsMax;
    this.#tokens = this.#capacity;
  }

  /** A call ended otherwise. */
  refill(): void {
    if (this.#tokens < this.#capacity) this.#tokens += 1;
  }

  /** @throws {SidecallError} `LIMIT_RATE` where the bucket is empty. */
  take(now = nowMs()): void {
    const refilled = ((now - this.#filledAt) / 1000) * fixed.cancelsRefillPerSecond;
    this.#tokens = Math.min(this.#capacity, this.#tokens + refilled);
    this.#filledAt = now;
    if (this.#tokens < 1) {
      throw new SidecallError('ERR_SIDECALL_LIMIT_RATE', 'the peer cancels calls in a flood');
    }
    this.#tokens -= 1;
  }
}

/** Pings: one a second, give or take a tenth, and two strikes, which a ping in time forgives. */
export class PingAllowance {
  #lastAt = Number.NEGATIVE_INFINITY;
  #strikes = 0;

  /** @throws {SidecallError} `LIMIT_RATE` at the third ping that came too early. */
  take(now = nowMs()): void {
    const isEarly = now - this.#lastAt < 0.9 * fixed.pingIntervalMs;
    this.#lastAt = now;
    this.#strikes = isEarly ? this.#strikes + 1 : 0;
    if (this.#strikes <= fixed.pingStrikes) return;
    throw new SidecallError('ERR_SIDECALL_LIMIT_RATE', 'the peer pings more than once a second');
  }
}
