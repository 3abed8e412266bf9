// SPDX-License-Identifier: MIT
// Ends channels and sessions that are not used.
import type { Clock } from '../base/clock.ts';
import {
  armDeadline,
  cancelDeadline,
  deadlineAfter,
  type SharedTimer,
  type Timed,
} from './deadline.ts';

/** An object that ends after a time without progress. */
export interface Watched {
  /** Grows whenever something happens. */
  readonly moved: number;
  /** Something is under way, however long it takes. */
  readonly isBusy: boolean;
  /** Settles when there is nothing to watch any more. */
  readonly closed: Promise<unknown>;
  onIdle(timeoutMs: number): void;
}

/**
 * The timer checks at its expiry whether anything has moved, so the object ends after once to twice
 * the time without progress. The timer keeps no process alive.
 */
export class IdleTimeout implements Timed {
  timer: SharedTimer | undefined;
  readonly #clock: Clock;
  readonly #watched: Watched;
  readonly #timeoutMs: number;
  #seen: number;

  constructor(clock: Clock, watched: Watched, timeoutMs: number) {
    this.#clock = clock;
    this.#watched = watched;
    this.#timeoutMs = timeoutMs;
    this.#seen = watched.moved;
    this.#arm();
    const stop = (): void => cancelDeadline(this);
    watched.closed.then(stop, stop);
  }

  onDeadline(): void {
    const { moved, isBusy } = this.#watched;
    if (moved === this.#seen && !isBusy) return this.#watched.onIdle(this.#timeoutMs);
    this.#seen = moved;
    this.#arm();
  }

  #arm(): void {
    armDeadline(this.#clock, this, deadlineAfter(this.#clock, this.#timeoutMs), false);
  }
}
