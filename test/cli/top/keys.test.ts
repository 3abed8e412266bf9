// The keys of `sidecall top`.
import { expect, it } from 'vitest';
import { pressed } from '../../../src/cli/top/keys.ts';
import { firstView, type TopView } from '../../../src/cli/top/screen.ts';
import { reported, snapshotOf } from '../../support/reported.ts';

const snapshot = snapshotOf([1, 2, 3].map((id) => reported(id, 0, {})));

function after(names: string, view: TopView = firstView): TopView | undefined {
  return names
    .split(' ')
    .reduce<TopView | undefined>((now, name) => now && pressed({ name }, now, snapshot), view);
}

it('the cursor moves over the sessions, and stays among them', () => {
  expect(after('down')?.chosen).toBe('2');
  expect(after('down down down down')?.chosen).toBe('3');
  expect(after('down up up up')?.chosen).toBe('1');
  expect(after('end')?.chosen).toBe('3');
  expect(after('end home')?.chosen).toBe('1');
});

it('letters sort, and other keys change nothing', () => {
  const sortedBy = (names: string) => after(names)?.sortedBy;
  expect(['l', 'b', 'w', 'i', 'l c'].map(sortedBy)).toEqual([
    'latency',
    'bytes',
    'waits',
    'id',
    'calls',
  ]);
  expect(after('x')).toEqual(firstView);
  expect(pressed({ ctrl: true, name: 'l' }, firstView, snapshot)).toEqual(firstView);
});

it('enter looks into the session under the cursor, there the arrows scroll, and escape leaves', () => {
  expect(after('down return')).toMatchObject({ isInside: true, chosen: '2', scrolled: 0 });
  expect(after('return down down up')).toMatchObject({ isInside: true, scrolled: 1 });
  expect(after('return up')?.scrolled).toBe(0);
  expect(after('return down escape')).toMatchObject({ isInside: false, scrolled: 0, chosen: '1' });
});

it('p pauses, and q or ctrl-c ends', () => {
  expect(after('p')?.isPaused).toBe(true);
  expect(after('p p')?.isPaused).toBe(false);
  expect(after('q')).toBeUndefined();
  expect(pressed({ ctrl: true, name: 'c' }, firstView, snapshot)).toBeUndefined();
});
