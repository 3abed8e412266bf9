// SPDX-License-Identifier: MIT
// A limit on actions that cost us more than they cost the peer.

import { nowMs } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import { wireLimits } from '../../base/wire-limits.ts';

/** Pings: one a second, give or take a tenth, and two strikes, which a ping in time forgives. */
export class PingAllowance {
  #lastAt = Number.NEGATIVE_INFINITY;
  #strikes = 0;

  /** @throws {SidecallError} `ERR_SIDECALL_LIMIT_RATE` at the third ping that came too early. */
  take(now = nowMs()): void {
    const isEarly = now - this.#lastAt < 0.9 * wireLimits.pingIntervalMs;
    this.#lastAt = now;
    this.#strikes = isEarly ? this.#strikes + 1 : 0;
    if (this.#strikes <= wireLimits.pingStrikes) return;
    throw new SidecallError('ERR_SIDECALL_LIMIT_RATE', 'the peer pings more than once a second');
  }
}
