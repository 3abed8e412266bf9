// SPDX-License-Identifier: MIT
// The calls of a session when it is closed, counted.

/** Calls of both sides that had begun when the session was closed. */
export interface ClosedCalls {
  /** Calls that ended by themselves, within the deadline. */
  readonly drained: number;
  /** Calls that were cut off, at the deadline or by the end of the peer. */
  readonly forced: number;
}

export const noCalls: ClosedCalls = Object.freeze({ drained: 0, forced: 0 });
