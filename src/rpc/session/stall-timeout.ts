// SPDX-License-Identifier: MIT
// Ends a session whose peer stands still: it takes nothing of what we have sent, or does not finish
// a frame that it has begun.
import type { Clock } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import { tuning } from '../../base/limits/internal-limits.ts';
import {
  armDeadline,
  cancelDeadline,
  deadlineAfter,
  type SharedTimer,
  type Timed,
} from '../deadline.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import type { Pings } from './pings.ts';

/** The parts of a session that a {@link StallTimeout} watches. */
export interface StallParts {
  readonly shared: SessionShared;
  readonly pings: Pings;
  readonly closed: Promise<unknown>;
  /** Ends the session. */
  fail(error: SidecallError): void;
}

/** Looks for each `stallTimeoutMs`: the end is late by at most this part of it. */
const looks = 4;

/**
 * A frame counts as taken once the peer has answered a ping behind it. The peer takes something
 * where a frame that waited leaves, or an answer arrives: the ping lies behind all that the lane
 * holds. While nothing that was sent is untaken, no ping is sent.
 */
export class StallTimeout implements Timed {
  timer: SharedTimer | undefined;
  readonly #clock: Clock;
  readonly #stallTimeoutMs: number;
  readonly #parts: StallParts;
  /** Instant at which the peer was last seen to have taken something. */
  #movedAt = Number.NEGATIVE_INFINITY;
  /** Instant before which this process itself stood still, and has read nothing. */
  #awakeSince: number;
  #departed = 0;
  #taken = 0;
  #lookAt = 0;

  /** Begins, and ends when `closed` settles. */
  constructor(stallTimeoutMs: number, parts: StallParts) {
    this.#clock = parts.shared.clock;
    this.#stallTimeoutMs = stallTimeoutMs;
    this.#parts = parts;
    this.#awakeSince = this.#clock.nowMs();
    this.#arm();
    void parts.closed.then(() => cancelDeadline(this));
  }

  onDeadline(): void {
    const now = this.#clock.nowMs();
    if (now - this.#lookAt > tuning.lateTimerMs) this.#awakeSince = now;
    this.#look(now);
    // Timers run before the bytes of this turn are read: the last word is a turn later.
    if (this.#stallAt(now) === undefined) this.#arm();
    else this.#clock.setImmediate(() => this.#decide());
  }

  #decide(): void {
    const { shared } = this.#parts;
    if (shared.isClosed) return;
    const now = this.#clock.nowMs();
    this.#look(now);
    const text = this.#stallAt(now);
    if (text === undefined) return this.#arm();
    const full = `the peer ${text} for ${this.#stallTimeoutMs} ms (stallTimeoutMs): its event loop stands still, or its process does`;
    this.#parts.fail(new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', full));
  }

  /** Notes what has left, and asks by a ping where the peer may not have all that was sent. */
  #look(now: number): void {
    const { shared, pings } = this.#parts;
    const { sendQueue, transport } = shared;
    const hasMoved = sendQueue.departed.count !== this.#departed || pings.taken !== this.#taken;
    if (hasMoved) this.#movedAt = now;
    this.#departed = sendQueue.departed.count;
    this.#taken = pings.taken;
    const hasAll = sendQueue.isEmpty && transport.sentPosition === pings.answeredPosition;
    if (!hasAll && !sendQueue.isHeld) pings.begin();
  }

  /** The words for a peer whose time is over; undefined: it has time left. */
  #stallAt(now: number): string | undefined {
    const { shared, pings } = this.#parts;
    const { unfinishedSince, isBehind = false } = shared.transport;
    // The answer of the peer may be among what has arrived.
    if (isBehind) return undefined;
    const { outSince } = pings;
    const isOver = (since: number): boolean =>
      now - Math.max(since, this.#awakeSince) >= this.#stallTimeoutMs;
    if (unfinishedSince !== undefined && isOver(unfinishedSince)) {
      return 'has not finished a frame that it began';
    }
    const isUntaken = outSince !== undefined && isOver(Math.max(outSince, this.#movedAt));
    return isUntaken ? 'has taken nothing of what was sent to it' : undefined;
  }

  #arm(): void {
    const lookMs = Math.ceil(this.#stallTimeoutMs / looks);
    this.#lookAt = deadlineAfter(this.#clock, lookMs);
    armDeadline(this.#clock, this, this.#lookAt, false);
  }
}
