// SPDX-License-Identifier: MIT
// The state of a call in words, for the terminal and the page.
import type { InspectedStream } from '../../rpc/session/inspection.ts';

/** The state, as in `open for 3.0 s, waiting for answer-window`. `age`: ` for 3.0 s`, or empty. */
export function stateText({ openedBy, state, waitsFor }: InspectedStream, age = ''): string {
  const isArriving = openedBy === 'peer' && state === 'waiting';
  if (waitsFor === undefined) return `${isArriving ? 'arriving' : state}${age}`;
  if (state === 'waiting') return `waiting for ${waitsFor}${age}`;
  return `${state}${age}, waiting for ${waitsFor}`;
}
