// SPDX-License-Identifier: MIT
// The numbers of several sessions together, those that are over included: of a listener, a helper,
// a connection, a pool or a thread.
import type { SidecallErrorCode } from '../../base/error-codes.ts';
import type { SidecallError } from '../../base/errors.ts';
import { SessionCounters } from '../counting/session-counters.ts';
import { emptyStats, methodStats, type SessionStats } from './session-stats.ts';

/**
 * The result of `stats()` of what has several sessions. Numbers that say "ever" count the sessions
 * that are over, too; the others are sums over the sessions that are open.
 * `memoryUse.receiveMax` is the sum of their maxima, which they may have had at different instants.
 */
export interface TotalStats extends Omit<SessionStats, 'windows'> {
  readonly sessions: {
    /** Sessions that are open, or that are closing. */
    readonly open: number;
    /** Sessions that are over. */
    readonly ended: number;
    /** Sessions that did not end in order, by the code of their error. */
    readonly failed: { readonly [Code in SidecallErrorCode]?: number };
  };
}

/** A session, as far as it is added up. */
export interface CountedSession {
  readonly counters: SessionCounters;
  readonly closed: Promise<SidecallError | undefined>;
  stats(): SessionStats;
}

/** Adds up sessions. */
export class SessionSums {
  readonly #open = new Set<CountedSession>();
  readonly #counters = new SessionCounters();
  #ended = emptyStats();
  #endedCount = 0;
  readonly #failed: Record<string, number> = {};

  /** Counts a session from now on, also once it is over. */
  add(session: CountedSession): void {
    this.#open.add(session);
    void session.closed.then((error) => this.#onEnd(session, error));
  }

  /** Counts what another one has counted up to now, and its open sessions as if they were over. */
  static of(parts: readonly SessionSums[]): TotalStats {
    const all = new SessionSums();
    for (const part of parts) {
      all.#counters.add(part.#counters);
      all.#ended = summed(all.#ended, part.#ended);
      all.#endedCount += part.#endedCount;
      for (const [code, count] of Object.entries(part.#failed)) {
        all.#failed[code] = (all.#failed[code] ?? 0) + count;
      }
      for (const session of part.#open) all.#open.add(session);
    }
    return all.stats();
  }

  stats(): TotalStats {
    const counters = new SessionCounters();
    counters.add(this.#counters);
    let sum = this.#ended;
    for (const session of this.#open) {
      sum = summed(sum, session.stats()); // it settles the instants, which the counters need
      counters.add(session.counters);
    }
    const { windows, ...rest } = sum;
    const sessions = {
      open: this.#open.size,
      ended: this.#endedCount,
      failed: { ...this.#failed },
    };
    return { sessions, ...rest, methods: methodStats(counters) };
  }

  #onEnd(session: CountedSession, error: SidecallError | undefined): void {
    if (!this.#open.delete(session)) return;
    this.#ended = summed(this.#ended, withoutPresent(session.stats()));
    this.#counters.add(session.counters);
    this.#endedCount += 1;
    if (error !== undefined) this.#failed[error.code] = (this.#failed[error.code] ?? 0) + 1;
  }
}

/** The numbers that say "ever": those of this moment are 0. */
function withoutPresent(stats: SessionStats): SessionStats {
  const { calls, handlers, queuedBytes, untakenBytes, waits, windows } = emptyStats();
  return {
    ...stats,
    calls,
    handlers,
    queuedBytes,
    untakenBytes,
    waits,
    windows,
    blocks: { ...stats.blocks, inUse: 0 },
    leases: { ...stats.leases, held: 0 },
    capacity: undefined,
    memoryUse: undefined,
  };
}

function summed(a: SessionStats, b: SessionStats): SessionStats {
  return sumOf(a, b) as SessionStats;
}

/** Adds numbers, field by field; `methods` are added up elsewhere. */
function sumOf(a: unknown, b: unknown): unknown {
  if (typeof a === 'number' && typeof b === 'number') return a + b;
  if (typeof a !== 'object' || a === null) return b;
  if (typeof b !== 'object' || b === null) return a;
  const sum: Record<string, unknown> = { ...a };
  for (const [name, value] of Object.entries(b)) {
    if (name !== 'methods') sum[name] = sumOf(sum[name], value);
  }
  return sum;
}
