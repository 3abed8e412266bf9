import { describe, expect, it } from 'vitest';
import { incomingMoved, outgoingMoved } from '../../src/rpc/call-states.ts';

const outgoing = ['waiting', 'open', 'given-up', 'over'] as const;
const incoming = ['waiting', 'open', 'answered', 'cancelled', 'failed'] as const;

/** The moves that a machine makes, as `from>to`. */
function movesOf<State extends string>(
  states: readonly State[],
  moved: (from: State, to: State) => State,
): string[] {
  const found: string[] = [];
  for (const from of states) {
    for (const to of states) {
      try {
        if (moved(from, to) === to) found.push(`${from}>${to}`);
      } catch (error) {
        expect(String(error)).toBe(`Error: no move leads from '${from}' to '${to}'`);
      }
    }
  }
  return found;
}

describe('the states of a call', () => {
  it('has the moves of a call of ours that docs/design.md draws, and no other', () => {
    const moves = ['waiting>open', 'waiting>over', 'open>given-up', 'open>over', 'given-up>over'];
    expect(movesOf(outgoing, outgoingMoved)).toEqual(moves);
  });

  it("has the moves of a peer's call that docs/design.md draws, and no other", () => {
    const ends = ['answered', 'cancelled', 'failed'];
    const moves = ['waiting>open', ...ends.map((to) => `waiting>${to}`)];
    expect(movesOf(incoming, incomingMoved)).toEqual([...moves, ...ends.map((to) => `open>${to}`)]);
  });
});
