// SPDX-License-Identifier: MIT
// The states of a call at either end, and the moves between them.

import { type Moves, moved } from '../base/states.ts';

/**
 * `waiting`: it was not sent. `open`: it has a slot, and its frames go both ways. `given-up`: it
 * has settled, and keeps its slot until the peer's last frame. `over`: it has no slot any more.
 */
export type OutgoingState = 'waiting' | 'open' | 'given-up' | 'over';

const outgoingMoves: Moves<OutgoingState> = {
  waiting: ['open', 'over'],
  open: ['given-up', 'over'],
  'given-up': ['over'],
  over: [],
};

/** The state of a call of ours after a move. */
export function outgoingMoved(from: OutgoingState, to: OutgoingState): OutgoingState {
  return moved(outgoingMoves, from, to);
}

/**
 * `waiting`: the request arrives, or waits to be started. `open`: the handler was started. Then one
 * of `answered`, `cancelled` (by its caller or its deadline) and `failed` (with the session).
 */
export type IncomingState = 'waiting' | 'open' | 'answered' | 'cancelled' | 'failed';

const incomingMoves: Moves<IncomingState> = {
  waiting: ['open', 'answered', 'cancelled', 'failed'],
  open: ['answered', 'cancelled', 'failed'],
  answered: [],
  cancelled: [],
  failed: [],
};

/** The state of a call of the peer's after a move. */
export function incomingMoved(from: IncomingState, to: IncomingState): IncomingState {
  return moved(incomingMoves, from, to);
}
