// SPDX-License-Identifier: MIT
// The limit on pings of the peer, each of which we answer.

import { SidecallError } from '../../base/errors.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';

/**
 * The allowance of pings: one a second, with a tolerance of a tenth. Two in a row may come too
 * early; a ping in time resets the count.
 */
export class PingAllowance {
  #lastAt = Number.NEGATIVE_INFINITY;
  #strikes = 0;

  /** @throws {SidecallError} `ERR_SIDECALL_LIMIT_RATE` at the third ping that came too early. */
  take(now: number): void {
    const isEarly = now - this.#lastAt < 0.9 * wireLimits.pingIntervalMs;
    this.#lastAt = now;
    this.#strikes = isEarly ? this.#strikes + 1 : 0;
    if (this.#strikes <= wireLimits.pingStrikes) return;
    throw new SidecallError('ERR_SIDECALL_LIMIT_RATE', 'the peer pings more than once a second');
  }
}
