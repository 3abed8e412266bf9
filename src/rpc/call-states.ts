// SPDX-License-Identifier: MIT
// The states of a call at either end, and the moves between them.

import { checkMove } from '../base/states.ts';

/**
 * `waiting`: it was not sent. `open`: it has a slot, and its frames go both ways. `given-up`: it
 * has settled, and keeps its slot until the peer's last frame. `over`: it has no slot any more.
 */
export type OutgoingState = 'waiting' | 'open' | 'given-up' | 'over';

/** The state of a call of ours after a move. Comparisons cost less than a table for each call. */
export function outgoingMoved(from: OutgoingState, to: OutgoingState): OutgoingState {
  const isMove =
    from === 'waiting'
      ? to === 'open' || to === 'over'
      : from === 'open'
        ? to === 'given-up' || to === 'over'
        : from === 'given-up' && to === 'over';
  if (!isMove) checkMove(isMove, from, to);
  return to;
}

/**
 * `waiting`: the request arrives, or waits to be started. `open`: the handler was started. Then one
 * of `answered`, `cancelled` (by its caller or its deadline) and `failed` (with the session).
 */
export type IncomingState = 'waiting' | 'open' | 'answered' | 'cancelled' | 'failed';

/** The state of a call of the peer's after a move. */
export function incomingMoved(from: IncomingState, to: IncomingState): IncomingState {
  const isMove =
    from === 'waiting' ? to !== 'waiting' : from === 'open' && to !== 'open' && to !== 'waiting';
  if (!isMove) checkMove(isMove, from, to);
  return to;
}
