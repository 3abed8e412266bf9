// SPDX-License-Identifier: MIT
// The numbers of a session in a line: what it does now, and per second since the look before.
import type { ReportedSession } from '../../rendezvous/inspection-service.ts';
import type { SessionStats } from '../../rpc/session/session-stats.ts';

/** A session in a line. Numbers per second are undefined at the first look. */
export interface SessionRow {
  /** The session in its process: its id, behind the number of its thread where that is a worker. */
  readonly key: string;
  readonly id: number;
  readonly peerPid: number | undefined;
  readonly lane: string;
  readonly state: string;
  /** Our calls that are open, and the peer's whose handlers run. */
  readonly open: number;
  readonly running: number;
  /** Calls of both sides that have ended, per second. */
  readonly callsPerSecond: number | undefined;
  readonly sentBytesPerSecond: number | undefined;
  readonly receivedBytesPerSecond: number | undefined;
  /** Mean of the calls of both sides that have ended since; undefined: none has. */
  readonly meanMs: number | undefined;
  /** The largest p99 of the methods, since the session was opened; undefined: no call has ended. */
  readonly p99Ms: number | undefined;
  /** The number of things that wait now, by the reason. */
  readonly waits: SessionStats['waits'];
  /** All that waits. */
  readonly waiting: number;
  /** Milliseconds in which no frame has come or gone, as far as was seen. */
  readonly quietMs: number;
  /** No frame was seen at all: the session may have been quiet for longer than `quietMs`. */
  readonly isQuietFromStart: boolean;
  /** The sums that the next row counts from. */
  readonly sums: RowSums;
}

/** The sums of a session since it was opened. */
interface RowSums {
  /** Milliseconds of a clock of the thread. */
  readonly atMs: number;
  readonly calls: number;
  readonly callMs: number;
  readonly sentBytes: number;
  readonly receivedBytes: number;
  readonly frames: number;
}

/** The row of a session. `before`: its row at the look before. */
export function sessionRow(
  key: string,
  session: ReportedSession,
  before: SessionRow | undefined,
): SessionRow {
  const { id, peer, lane, state, stats } = session;
  const sums = sumsOf(session);
  const grown = before && growth(before.sums, sums);
  const latencies = [...stats.methods.called, ...stats.methods.served].map(
    (each) => each.latencyMs,
  );
  const p99s = latencies.filter(({ count }) => count > 0).map(({ p99 }) => p99);
  return {
    key,
    id,
    peerPid: peer.pid,
    lane,
    state,
    open: stats.calls.open + stats.calls.waiting,
    running: stats.handlers.running,
    callsPerSecond: grown?.perSecond(grown.calls),
    sentBytesPerSecond: grown?.perSecond(grown.sentBytes),
    receivedBytesPerSecond: grown?.perSecond(grown.receivedBytes),
    meanMs: grown === undefined || grown.calls === 0 ? undefined : grown.callMs / grown.calls,
    p99Ms: p99s.length === 0 ? undefined : Math.max(...p99s),
    waits: stats.waits,
    waiting: Object.values(stats.waits).reduce((sum, each) => sum + each, 0),
    quietMs: before === undefined || grown?.frames !== 0 ? 0 : before.quietMs + grown.ms,
    isQuietFromStart: before === undefined || (before.isQuietFromStart && grown?.frames === 0),
    sums,
  };
}

function sumsOf({ atMs, stats }: ReportedSession): RowSums {
  const { called, served } = stats.methods;
  let calls = 0;
  let callMs = 0;
  for (const { latencyMs } of [...called, ...served]) {
    calls += latencyMs.count;
    callMs += latencyMs.sum;
  }
  return {
    atMs,
    calls,
    callMs,
    sentBytes: stats.messages.sent.bytes,
    receivedBytes: stats.messages.received.bytes,
    frames: stats.frames.sent + stats.frames.received,
  };
}

/** The difference of two sums, and a number of it per second. */
function growth(from: RowSums, to: RowSums) {
  const ms = Math.max(0, to.atMs - from.atMs);
  return {
    ms,
    calls: Math.max(0, to.calls - from.calls),
    callMs: Math.max(0, to.callMs - from.callMs),
    sentBytes: Math.max(0, to.sentBytes - from.sentBytes),
    receivedBytes: Math.max(0, to.receivedBytes - from.receivedBytes),
    frames: Math.max(0, to.frames - from.frames),
    perSecond: (grown: number): number => (ms === 0 ? 0 : (grown * 1_000) / ms),
  };
}

/** The orders of rows: the largest first, but for `id`. */
export const sortings = {
  id: (row: SessionRow) => -row.id,
  calls: (row: SessionRow) => row.callsPerSecond ?? 0,
  latency: (row: SessionRow) => row.meanMs ?? 0,
  bytes: (row: SessionRow) => (row.sentBytesPerSecond ?? 0) + (row.receivedBytesPerSecond ?? 0),
  waits: (row: SessionRow) => row.waiting,
} as const;

/** The rows in an order; equal ones keep theirs. */
export function sorted(rows: readonly SessionRow[], by: keyof typeof sortings): SessionRow[] {
  const weight = sortings[by];
  return [...rows].sort((a, b) => weight(b) - weight(a));
}
