// The calls of a recording: each once, with a bound on what is kept.
import { expect, it } from 'vitest';
import { FedCalls, keptCalls } from '../../../src/cli/live/fed-calls.ts';
import { sampled } from '../../support/reported.ts';

const main = { threadId: 0, copy: 1 };

it('has each call of each thread once, with its last state, and tells what has changed', () => {
  const fed = new FedCalls();
  fed.add({ atMs: 100, calls: [sampled(1), sampled(2)], missed: 0 }, main);
  fed.add({ atMs: 7_000, calls: [sampled(1)], missed: 2 }, { threadId: 3, copy: 1 });
  fed.add({ atMs: 8_000, calls: [sampled(1)], missed: 0 }, { threadId: 0, copy: 2 });
  const known = fed.since(0);
  expect(known.map(({ threadId, sequence }) => [threadId, sequence])).toEqual([
    [0, 1],
    [0, 2],
    [3, 1],
    [0, 1],
  ]);
  const last = Math.max(...known.map(({ change }) => change));
  fed.add({ atMs: 900, calls: [{ ...sampled(2), endedMs: 300 }], missed: 1 }, main);
  expect(fed.since(last)).toMatchObject([
    { threadId: 0, sequence: 2, endedMs: 300, beganAtMs: known[1]?.beganAtMs },
  ]);
  expect([fed.since(0).length, fed.missed]).toEqual([4, 3]);
  const next = new FedCalls();
  next.add({ atMs: 1, calls: [sampled(9)], missed: 0 }, main);
  expect(next.since(last + 1)).toMatchObject([{ sequence: 9 }]); // a page knows it is new
});

it('keeps the newest, however many come, and those that have not ended', () => {
  const fed = new FedCalls();
  fed.add({ atMs: 1, calls: [sampled(1)], missed: 0 }, main);
  for (let sequence = 2; sequence <= 100_000; sequence += 1) {
    const call = { ...sampled(sequence), endedMs: sequence };
    fed.add({ atMs: sequence, calls: [call], missed: 0 }, main);
    if (sequence % 10_000 === 0) expect(fed.since(0).length).toBeLessThanOrEqual(keptCalls);
  }
  const kept = fed.since(0).map(({ sequence }) => sequence);
  expect([kept[0], kept.at(-1)]).toEqual([1, 100_000]);
  const hanging = new FedCalls();
  for (let sequence = 1; sequence <= 3_000; sequence += 1) {
    hanging.add({ atMs: sequence, calls: [sampled(sequence)], missed: 0 }, main);
  }
  const open = hanging.since(0).map(({ sequence }) => sequence);
  expect([open.length, open[0]]).toEqual([keptCalls, 1_001]);
});
