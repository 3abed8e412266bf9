// SPDX-License-Identifier: MIT
// The calls of a session when it is closed, counted.

/** Calls that were under way when the session was closed. */
export interface ClosedCalls {
  /** Calls of ours of which nothing had been sent: they were refused. */
  readonly refused: number;
  /** Calls that ended by themselves, within the deadline. */
  readonly drained: number;
  /**
   * Calls that were cut off, at the deadline or by the end of the peer; also calls whose answers
   * may be among the frames that the peer did not take in time.
   */
  readonly forced: number;
  /** The peer has said that it sends no more; false: the session was cut off. */
  readonly isOrderly: boolean;
}

/** Of a session that was over before. */
export const noCalls: ClosedCalls = Object.freeze({
  refused: 0,
  drained: 0,
  forced: 0,
  isOrderly: true,
});

/** `before`: calls when it was closed; `begun`: those of them that were not refused. */
export function closedCalls(
  before: number,
  begun: number,
  forced: number,
  isOrderly: boolean,
): ClosedCalls {
  // Handlers may have begun further calls meanwhile.
  return { refused: before - begun, drained: Math.max(0, begun - forced), forced, isOrderly };
}

/** The same calls where the last frames were lost: any of their answers may be among those. */
export function withoutLast({ refused, drained, forced }: ClosedCalls): ClosedCalls {
  return { refused, drained: 0, forced: forced + drained, isOrderly: false };
}
