// SPDX-License-Identifier: MIT
// Traffic of a ring since the last turn of the poller, and whether the ring may sleep.

import { SidecallError } from '../base/errors.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import type { Contention } from './contention.ts';
import { PollBudget } from './poll-budget.ts';
import { corrupt, type Ring, RingResult } from './ring.ts';

/** Traffic since the last turn. */
export interface RingActivity {
  hasRecords: boolean;
  hasWritten: boolean;
  /** The last frame, in either direction, was a piece of a long message. */
  isMidway: boolean;
}

// Polls of a ring that is polled alone, before the event loop goes on: a turn of the loop costs
// as much as several polls.
const polledLooks = 200;
/** Time that an attempt to send an owed doorbell counts for at most. */
const attemptMaxMs = 10;

export class RingSleep implements RingActivity {
  hasRecords = false;
  hasWritten = false;
  isMidway = false;
  readonly #ring: Ring;
  readonly #budget: PollBudget;
  /** undefined: on a loop that is not that of the thread. */
  readonly #contention: Contention | undefined;
  /** Time for which a doorbell is owed, and the last attempt to send it. */
  #owedMs = 0;
  #triedAt: number | undefined;

  constructor(ring: Ring, pollBudgetUs: number, contention: Contention | undefined) {
    this.#ring = ring;
    this.#budget = new PollBudget(pollBudgetUs);
    if (pollBudgetUs > 0) this.#contention = contention;
  }

  /** The number of polls of a ring without records, before the turn goes on. */
  looks(isAlone: boolean): number {
    return isAlone && this.#budget.isOn ? polledLooks : 0;
  }

  /** A doorbell was answered. Returns whether there were records. */
  onDoorbell(now: number): boolean {
    if (!this.hasRecords) return false;
    this.hasRecords = false;
    this.#budget.onRecords(now, false);
    return true;
  }

  /** A turn is over. Returns whether the ring was quiet for as long as it is polled. */
  isDue(now: number): boolean {
    if (this.hasWritten) {
      this.hasWritten = false;
      this.#budget.onWritten(now);
    }
    if (this.hasRecords) {
      this.hasRecords = false;
      this.#budget.onRecords(now, true);
      return false;
    }
    return !this.mayPoll(now) || this.#budget.isSpent(now, this.isMidway);
  }

  /** Is it polled at present, before it sleeps? */
  mayPoll(now: number): boolean {
    return this.#budget.isOn && this.#contention?.isContended(now) !== true;
  }

  /**
   * Announces that the ring sleeps. False: records have come, or the kernel had no memory for a
   * doorbell that is owed.
   * @throws {SidecallError} `ERR_SIDECALL_RING_CORRUPT`; `ERR_SIDECALL_SYSTEM` where a doorbell was
   * owed for too long.
   */
  tryToSleep(now: number): boolean {
    const result = this.#ring.prepareToSleep();
    if (result === RingResult.corrupt) throw corrupt();
    if (result === RingResult.written) {
      this.#triedAt = undefined;
      if (this.#contention?.isContended(now) !== true) this.#budget.onSleep();
      return true;
    }
    this.#checkOwed(now);
    return false;
  }

  /** Only time between attempts counts, at most 10 ms for each: a process may have been stopped. */
  #checkOwed(now: number): void {
    if (!this.#ring.owesDoorbell) {
      this.#triedAt = undefined;
      return;
    }
    this.#owedMs =
      this.#triedAt === undefined ? 0 : this.#owedMs + Math.min(now - this.#triedAt, attemptMaxMs);
    this.#triedAt = now;
    if (this.#owedMs < tuning.doorbellOwedMaxMs) return;
    const text = `the kernel had no memory for a doorbell for ${tuning.doorbellOwedMaxMs} ms`;
    throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { delivered: 'unknown' });
  }
}
