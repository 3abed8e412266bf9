// SPDX-License-Identifier: MIT
// The poller looks at the rings of one event loop while they are awake, and at the sockets that
// have more than they may hand out in one turn, once per turn of the event loop. A ring that sleeps
// is not in here and costs nothing. If a turn has no time for all, processes take turns, so that a
// thousand busy sessions of one do not hold up the single one of another.

import type { Clock } from '../base/clock.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import type { TurnBudget } from './turn-budget.ts';

/** A transport that the poller serves. */
export interface Polled {
  /** The process at the other end, by `ownerOf()`. */
  readonly owner: number;
  /** Set by the poller while it serves the transport in each turn. */
  isAwake: boolean;
  /**
   * Hands out frames that have arrived, for up to `maxMs` milliseconds, and sends waiting ones.
   * Never throws. `isAlone`: no other ring is polled.
   */
  serve(maxMs: number, isAlone: boolean): void;
  /**
   * Called after all were served. True: the transport sleeps now. `now`: of the clock of the loop.
   * Never throws.
   */
  rest(now: number): boolean;
}

export class Poller {
  readonly #clock: Clock;
  readonly #budget: TurnBudget;
  readonly #awake: Polled[] = [];
  // The rings of the present turn: serving one may end another. The array is kept, so that a turn
  // allocates nothing.
  readonly #serving: Polled[] = [];
  #first = 0;
  /** The last turn had no time for all. */
  #isBehind = false;
  // Rounds of a turn: the first ring of each owner, then the second of each; and the number of
  // rings that an owner has in them. Both are kept for the same reason.
  readonly #rounds: Polled[][] = [];
  readonly #roundsOf = new Map<number, number>();
  #isScheduled = false;

  constructor(clock: Clock, budget: TurnBudget) {
    this.#clock = clock;
    this.#budget = budget;
  }

  /** The ring is looked at in every turn from the next one on, until it rests. */
  activate(ring: Polled): void {
    if (!ring.isAwake) {
      ring.isAwake = true;
      this.#awake.push(ring);
    }
    this.#schedule();
  }

  /** Takes out a ring that sleeps, or whose session is over. */
  deactivate(ring: Polled): void {
    if (!ring.isAwake) return;
    ring.isAwake = false;
    const awake = this.#awake;
    const last = awake.pop() as Polled;
    if (last !== ring) awake[awake.indexOf(ring)] = last;
  }

  /** @internal One turn. */
  turn(): void {
    this.#isScheduled = false;
    const [awake, serving] = [this.#awake, this.#serving];
    const count = awake.length;
    if (count === 0) return;
    if (this.#first >= count) this.#first = 0;
    if (this.#isBehind) this.#inRounds();
    for (let at = 0; at < count; at += 1) {
      serving[at] = awake[(this.#first + at) % count] as Polled;
    }
    const begun = count > 1 ? this.#clock.nowMs() : 0;
    let served = 0;
    try {
      // Many busy rings share what one turn of the loop may take; the next turn goes on behind
      // them.
      for (let maxMs: number = tuning.drainMaxMs; served < count && maxMs > 0; served += 1) {
        (serving[served] as Polled).serve(maxMs, count === 1);
        if (served + 1 < count) maxMs = this.#budget.shareLeftMs(this.#clock.nowMs() - begun);
      }
      // The next turn begins behind the last session served; where all were served, one further,
      // so that no session is always the last.
      this.#isBehind = served < count;
      this.#first = (this.#first + (this.#isBehind ? served : 1)) % count;
      const now = this.#clock.nowMs();
      for (let at = 0; at < served; at += 1) {
        const ring = serving[at] as Polled;
        if (ring.rest(now)) this.deactivate(ring);
      }
    } finally {
      serving.length = 0;
      this.#schedule();
    }
  }

  /** Never unref()'d: libuv would block although this turn is waited for. */
  #schedule(): void {
    if (this.#isScheduled || this.#awake.length === 0) return;
    this.#isScheduled = true;
    this.#clock.setImmediate(turn, this);
  }

  /**
   * Orders those that are awake: from `first` on the first of each owner, then the second of each,
   * and so on.
   */
  #inRounds(): void {
    const [awake, rounds, roundsOf] = [this.#awake, this.#rounds, this.#roundsOf];
    const count = awake.length;
    roundsOf.clear();
    for (let at = 0; at < count; at += 1) {
      const ring = awake[(this.#first + at) % count] as Polled;
      const round = roundsOf.get(ring.owner) ?? 0;
      roundsOf.set(ring.owner, round + 1);
      const others = rounds[round];
      if (others === undefined) rounds[round] = [ring];
      else others.push(ring);
    }
    let filled = 0;
    for (const round of rounds) {
      if (round.length === 0) break;
      for (const ring of round) {
        awake[filled] = ring;
        filled += 1;
      }
      round.length = 0;
    }
    this.#first = 0;
  }
}

function turn(poller: Poller): void {
  poller.turn();
}
