// SPDX-License-Identifier: MIT
// The states and the numbers of a pool.
import type { SidecallError } from '../base/errors.ts';
import type { TotalStats } from '../rpc/session/session-sums.ts';

/** The state of a {@link Pool}. `open`: members that take calls at this moment. */
export type PoolState =
  /** At least one member takes calls. */
  | { readonly state: 'ready'; readonly open: number }
  /** Every member is away for a moment: calls wait. */
  | { readonly state: 'waiting'; readonly open: 0 }
  /** `stop()` was called. */
  | { readonly state: 'stopping'; readonly open: number }
  /** Final. `error`: every member has ended for good, the last one for this reason. */
  | { readonly state: 'ended'; readonly open: 0; readonly error: SidecallError | undefined };

/** No other state follows. */
export function isPoolEnd({ state }: PoolState): boolean {
  return state === 'ended';
}

/** A member in the result of `pool.stats()`. */
export interface PoolMemberStats {
  /** The state of the helper or connection, as its own `state` names it. */
  readonly state: string;
  /** Process id of the peer, where the system says it. */
  readonly pid: number | undefined;
  /** Calls and streams that were begun on this member, ever. */
  readonly begun: number;
  /**
   * Calls, streams and channels of ours that its session has under way; those that were given up,
   * until the peer has ended them, too.
   */
  readonly underWay: number;
  /**
   * Its answers take this many times as long as those of the pool: 1, or 4 to 64 for a member that
   * was found to be slow.
   */
  readonly slowness: number;
  /** Processes that were put in the place of the first one by `recycle`. */
  readonly recycled: number;
}

/** The result of `pool.stats()`. */
export interface PoolStats {
  /** Members that take calls at this moment. */
  readonly open: number;
  /** Calls that wait for a member. */
  readonly waiting: number;
  readonly members: readonly PoolMemberStats[];
  /** The numbers of all sessions of all members together, those that are over included. */
  readonly total: TotalStats;
}
