// The numbers of a process over time: sums over its sessions, and a bound on what is kept.
import { expect, it } from 'vitest';
import { sessionRow } from '../../../src/cli/live/session-row.ts';
import { keptSamples, Samples } from '../../../src/cli/web/samples.ts';
import { latency, reported, snapshotOf } from '../../support/reported.ts';

const methods = (count: number, sum: number) => ({
  methods: { called: [latency('A.a', count, sum)], served: [] },
});

it('sums the sessions, and weighs their latency by their calls', () => {
  const first = [reported(1, 0, methods(10, 10)), reported(2, 0, methods(0, 0))];
  const then = [reported(1, 1_000, methods(110, 110)), reported(2, 1_000, methods(300, 900))];
  const before = snapshotOf(first).rows;
  const rows = then.map((session, at) => sessionRow(String(session.id), session, before[at]));
  const samples = new Samples();
  samples.add({ ...snapshotOf(then), rows }, 5);
  expect(samples.since(0)).toMatchObject([
    {
      atMs: 5,
      sessions: 2,
      calls: 400,
      meanMs: 2.5,
      p99Ms: 9,
      waiting: 0,
      answerMs: 0.4,
    },
  ]);
});

it('keeps ten minutes, however long it runs, and gives what is newer than a number', () => {
  const samples = new Samples();
  const snapshot = snapshotOf([]);
  for (let second = 0; second < 86_400; second += 1) samples.add(snapshot, second);
  expect(samples.since(0)).toHaveLength(keptSamples);
  const last = samples.since(0).at(-1)?.number as number;
  expect(samples.since(last - 2).map(({ number }) => number)).toEqual([last - 1, last]);
  expect(samples.since(last - 1)).toMatchObject([
    { meanMs: undefined, p99Ms: undefined, calls: 0 },
  ]);
});
