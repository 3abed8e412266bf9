// SPDX-License-Identifier: MIT
// The time that a frame was under way, by the monotonic clock that all processes of a machine
// share.
import type { Clock } from '../base/clock.ts';
import { FrameType, protocol } from '../wire/frame-header.ts';

/** The `sent_at` of a frame without a send time. */
export const notSaid = 0;

/** Our own instant, for a frame that is about to leave. */
export function sentNow(clock: Clock): number {
  return clock.machineMs() || 1;
}

/**
 * The difference between the peer's clock and ours. It is next to nothing, unless the peer
 * lives in a time namespace of its own: the least difference ever seen counts as zero, so
 * such a peer loses no time.
 */
export class PeerClock {
  readonly #clock: Clock;
  #leastMs: number | undefined;
  /** The peer has sent its clock. */
  isKnown = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for a frame that comes before the clock. */
  checkOrder(type: number): void {
    if (this.#leastMs !== undefined || type === FrameType.clock) return;
    throw protocol('frame before the clock');
  }

  /**
   * Notes the clock of the peer, which sends it in its first frame.
   * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for a second one.
   */
  onClock(peerMs: number): void {
    if (this.#leastMs !== undefined) throw protocol('second clock');
    this.#leastMs = this.#differenceMs(peerMs);
    this.isKnown = true;
  }

  /** Milliseconds that a frame has been under way; 0 where the peer has not said when it left. */
  underWayMs(sentAt: number): number {
    if (sentAt === notSaid || this.#leastMs === undefined) return 0;
    const difference = this.#differenceMs(sentAt);
    this.#leastMs = Math.min(this.#leastMs, difference);
    return difference - this.#leastMs;
  }

  /** Of low 32 bits, which come round every 49 days. */
  #differenceMs(sentAt: number): number {
    return (this.#clock.machineMs() - sentAt) | 0;
  }
}
