// The numbers per second of a session, between two looks.
import { expect, it } from 'vitest';
import { sessionRow, sorted } from '../../../src/cli/live/session-row.ts';
import { latency, reported } from '../../support/reported.ts';

const bytes = (sent: number, received: number) => ({
  sent: { messages: 1, bytes: sent },
  received: { messages: 1, bytes: received },
  consumed: { messages: 1, bytes: received },
});

it('counts what has grown since the look before, by the clock of the process', () => {
  const first = reported(3, 1_000, {
    messages: bytes(100, 0),
    methods: { called: [latency('A.b', 10, 50)], served: [latency('C.d', 0, 0)] },
    frames: { sent: 1, received: 1 },
  });
  const second = reported(3, 3_000, {
    messages: bytes(4_100, 500),
    methods: { called: [latency('A.b', 14, 62)], served: [latency('C.d', 2, 6)] },
    frames: { sent: 5, received: 7 },
  });
  const before = sessionRow('3', first, undefined);
  expect(before).toMatchObject({ callsPerSecond: undefined, meanMs: undefined, quietMs: 0 });
  expect(sessionRow('3', second, before)).toMatchObject({
    callsPerSecond: 3,
    meanMs: 3,
    p99Ms: 9,
    sentBytesPerSecond: 2_000,
    receivedBytesPerSecond: 250,
    quietMs: 0,
  });
});

it('counts the time in which no frame has come or gone', () => {
  const rows = [1_000, 2_500, 4_000].map((atMs) => reported(1, atMs, {}));
  const [first, second, third] = rows as [(typeof rows)[0], (typeof rows)[0], (typeof rows)[0]];
  const at2500 = sessionRow('1', second, sessionRow('1', first, undefined));
  expect(at2500).toMatchObject({ quietMs: 1_500, callsPerSecond: 0, meanMs: undefined });
  expect(sessionRow('1', third, at2500).quietMs).toBe(3_000);
  const busy = reported(1, 5_000, { frames: { sent: 1, received: 0 } });
  expect(sessionRow('1', busy, at2500).quietMs).toBe(0);
});

it('sorts by each number, and keeps the order of equal rows', () => {
  const waiting = { ...reported(1, 0, {}).stats.waits, slot: 2 };
  const rows = [1, 2, 3].map((id) =>
    sessionRow(String(id), reported(id, 0, id === 2 ? { waits: waiting } : {}), undefined),
  );
  const ids = (by: Parameters<typeof sorted>[1]) => sorted(rows, by).map(({ id }) => id);
  expect(ids('waits')).toEqual([2, 1, 3]);
  expect(ids('calls')).toEqual([1, 2, 3]);
  expect(ids('id')).toEqual([1, 2, 3]);
});
