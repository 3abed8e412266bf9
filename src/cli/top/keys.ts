// SPDX-License-Identifier: MIT
// The keys of `sidecall top`.
import type { ProcessSnapshot } from '../live/process-watch.ts';
import type { sortings } from '../live/session-row.ts';
import { chosenRow, rowsOf, type TopView } from './screen.ts';

/** A key, as Node's `readline` names it. */
export interface Key {
  readonly name?: string | undefined;
  readonly ctrl?: boolean | undefined;
}

const orders: { readonly [key: string]: keyof typeof sortings } = {
  c: 'calls',
  l: 'latency',
  b: 'bytes',
  w: 'waits',
  i: 'id',
};

const steps: { readonly [key: string]: number } = {
  up: -1,
  k: -1,
  down: 1,
  j: 1,
  pageup: -10,
  pagedown: 10,
  home: -1e6,
  end: 1e6,
};

/** The view after a key; undefined: the program is to end. Other keys change nothing. */
export function pressed(key: Key, view: TopView, snapshot: ProcessSnapshot): TopView | undefined {
  const { name = '', ctrl } = key;
  if (name === 'q' || (ctrl === true && (name === 'c' || name === 'd'))) return undefined;
  if (ctrl === true) return view;
  if (name === 'p' || name === 'space') return { ...view, isPaused: !view.isPaused };
  const step = steps[name];
  if (view.isInside) {
    if (['escape', 'backspace', 'left', 'return'].includes(name)) {
      return { ...view, isInside: false, scrolled: 0 };
    }
    return step === undefined ? view : { ...view, scrolled: Math.max(0, view.scrolled + step) };
  }
  if (step !== undefined) return { ...view, chosen: moved(view, snapshot, step) };
  if (['return', 'enter', 'right'].includes(name)) {
    return { ...view, isInside: true, scrolled: 0, chosen: chosenRow(snapshot, view)?.key };
  }
  return { ...view, sortedBy: orders[name] ?? view.sortedBy };
}

/** The key of the row that is so many rows below the chosen one, or the last or first one. */
function moved(view: TopView, snapshot: ProcessSnapshot, step: number): string | undefined {
  const rows = rowsOf(snapshot, view);
  const at = rows.findIndex(({ key }) => key === chosenRow(snapshot, view)?.key);
  return rows[Math.max(0, Math.min(rows.length - 1, at + step))]?.key;
}
