// SPDX-License-Identifier: MIT
// Blocks and leases that are collected before their owner gave them back: they are given back then.
import type { Clock, Timer } from '../base/clock.ts';

/** The end of an object that may be collected. It does not refer to the object. */
export interface Ticket {
  /** The object was collected. */
  onCollected(): void;
}

/** The ticket of a block or a lease. */
export interface OwnedTicket extends Ticket {
  /** It was given back, or belongs to the peer. */
  readonly isSettled: boolean;
}

/** A block or a lease; its ticket outlives it. */
interface Watched {
  readonly ticket: OwnedTicket;
}

/** Objects that are kept before they are registered, and how long. */
const youngMax = 64;
const youngMs = 100;

const collected = new FinalizationRegistry<Ticket>((ticket) => ticket.onCollected());

/** Calls back when an object was collected. */
export function watchCollection(object: object, ticket: Ticket): void {
  collected.register(object, ticket, ticket);
}

/**
 * The blocks and leases of one session. Most are given back soon, and to register one costs more
 * than all else that is done for it: so each is kept for a moment, and registered only if it is
 * still held then.
 */
export class CollectionWatch {
  readonly #clock: Clock;
  #young: Watched[] = [];
  #timer: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(watched: Watched): void {
    this.#young.push(watched);
    if (this.#young.length >= youngMax) return this.#registerYoung();
    if (this.#timer !== undefined) return;
    this.#timer = this.#clock.setTimeout(() => this.#onTime(), youngMs);
    this.#timer.unref();
  }

  /** The session is over: what is still held is registered. */
  close(): void {
    this.#clock.clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#registerYoung();
  }

  #onTime(): void {
    this.#timer = undefined;
    this.#registerYoung();
  }

  #registerYoung(): void {
    for (const watched of this.#young) {
      if (!watched.ticket.isSettled) watchCollection(watched, watched.ticket);
    }
    this.#young = [];
  }
}
