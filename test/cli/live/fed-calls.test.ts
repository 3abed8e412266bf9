// The calls of a recording: each once, with a bound on what is kept.
import { expect, it } from 'vitest';
import { FedCalls, keptCalls } from '../../../src/cli/live/fed-calls.ts';
import { sampled } from '../../support/reported.ts';

it('has each call of each thread once, with its last state, and tells what has changed', () => {
  const fed = new FedCalls();
  fed.add({ atMs: 100, calls: [sampled(1), sampled(2)], missed: 0 }, 0);
  fed.add({ atMs: 7_000, calls: [sampled(1)], missed: 2 }, 3);
  const known = fed.since(0);
  expect(known.map(({ threadId, sequence }) => [threadId, sequence])).toEqual([
    [0, 1],
    [0, 2],
    [3, 1],
  ]);
  const last = Math.max(...known.map(({ change }) => change));
  fed.add({ atMs: 900, calls: [{ ...sampled(2), endedMs: 300 }], missed: 1 }, 0);
  expect(fed.since(last)).toMatchObject([
    { threadId: 0, sequence: 2, endedMs: 300, beganAtMs: known[1]?.beganAtMs },
  ]);
  expect([fed.since(0).length, fed.missed]).toEqual([3, 3]);
  const next = fed.next();
  next.add({ atMs: 1, calls: [sampled(9)], missed: 0 }, 0);
  expect(next.since(last + 1)).toMatchObject([{ sequence: 9 }]); // a page knows it is new
});

it('keeps the newest, however many come', () => {
  const fed = new FedCalls();
  for (let sequence = 1; sequence <= 100_000; sequence += 1) {
    fed.add({ atMs: sequence, calls: [sampled(sequence)], missed: 0 }, 0);
  }
  const kept = fed.since(0);
  expect([kept.length, kept[0]?.sequence]).toEqual([keptCalls, 100_000 - keptCalls + 1]);
});
