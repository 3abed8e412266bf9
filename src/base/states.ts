// SPDX-License-Identifier: MIT
// The states of an object that lives through several, and the moves between them. The drawings of
// docs/design.md show the same moves.

/** The states that may follow each state. */
export type Moves<State extends string> = { readonly [From in State]: readonly State[] };

/**
 * The state after a move.
 * @throws {Error} where `moves` has no such move: a mistake of ours, and of no peer.
 */
export function moved<State extends string>(moves: Moves<State>, from: State, to: State): State {
  checkMove(moves[from].includes(to), from, to);
  return to;
}

/** @throws {Error} where a state machine has no such move: a mistake of ours, and of no peer. */
export function checkMove(isMove: boolean, from: string, to: string): void {
  if (!isMove) throw new Error(`no move leads from '${from}' to '${to}'`);
}
