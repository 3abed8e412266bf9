// SPDX-License-Identifier: MIT
// A pause during which the event loop is blocked: the loop polls before the pause is over.

import { expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.js';
import { pauseInTurns } from '../../src/base/pause.js';

const { signal } = new AbortController();

it('a pause of several turns outlasts a loop that was blocked when it was set', async () => {
  let turns = 0;
  let isOver = false;
  const turn = (): void => {
    if (isOver) return;
    turns += 1;
    systemClock.setImmediate(turn);
  };
  const paused = pauseInTurns(systemClock, 50, signal);
  for (const until = performance.now() + 200; performance.now() < until; );
  // The first timer is due, and the loop has not polled since it was set.
  turn();
  await paused;
  isOver = true;
  expect(turns).toBeGreaterThanOrEqual(10);
});

it('a pause of several turns ends at once where its signal does', async () => {
  const ended = new AbortController();
  const paused = pauseInTurns(systemClock, 2_000_000_000, ended.signal);
  ended.abort();
  await paused;
});
