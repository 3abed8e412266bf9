// SPDX-License-Identifier: MIT
// The calls of a session when it is closed, counted.

/** Calls that were under way when the session was closed. */
export interface ClosedCalls {
  /** Calls of ours of which nothing had been sent: they were refused. */
  readonly refused: number;
  /** Calls that ended by themselves, within the deadline. */
  readonly drained: number;
  /** Calls that were cut off, at the deadline or by the end of the peer. */
  readonly forced: number;
}

export const noCalls: ClosedCalls = Object.freeze({ refused: 0, drained: 0, forced: 0 });
