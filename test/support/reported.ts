// Sessions as a process that is looked into reports them.
import type { ProcessSnapshot } from '../../src/cli/live/process-watch.ts';
import { sessionRow } from '../../src/cli/live/session-row.ts';
import type { ReportedSession } from '../../src/rendezvous/inspection-service.ts';
import type { SampledCall } from '../../src/rpc/counting/call-sampler.ts';
import type { MethodStats } from '../../src/rpc/counting/method-counters.ts';
import { emptyStats, type SessionStats } from '../../src/rpc/session/session-stats.ts';

/** A session with these numbers, and no others. */
export function reported(id: number, atMs: number, stats: Partial<SessionStats>): ReportedSession {
  return {
    id,
    atMs,
    state: 'open',
    lane: 'ring',
    laneReason: 'both sides have the addon',
    peer: { pid: 40 + id, uid: 0, gid: 0, groups: [], origin: 'kernel' } as never,
    stats: { ...emptyStats(), ...stats },
    streams: [],
    moreStreams: 0,
    leases: [],
    ring: undefined,
  };
}

/** A method of which so many calls have ended, in so many milliseconds together. */
export function latency(method: string, count: number, sum: number): MethodStats {
  const none = { messages: 0, bytes: 0 };
  const latencyMs = { count, sum, p50: 1, p90: 4, p99: 9, max: 12 };
  const ended = { started: count, succeeded: count, failed: 0 };
  return { method, kind: 'unary', ...ended, sent: none, received: none, latencyMs };
}

/** A process with these sessions in its main thread. */
export function snapshotOf(sessions: readonly ReportedSession[]): ProcessSnapshot {
  const thread = {
    sidecall: '1.0.0',
    node: 'v20.0.0',
    pid: 7,
    threadId: 0,
    uptimeMs: 61_000,
    residentBytes: 64_000_000,
    sessions: sessions.length,
  };
  return {
    pid: 7,
    answerMs: 0.4,
    threads: [{ threadId: 0, copy: 1, thread, sessions, error: undefined }],
    rows: sessions.map((session) => sessionRow(String(session.id), session, undefined)),
  };
}

/** A call that goes on. */
export function sampled(sequence: number): SampledCall {
  return {
    sequence,
    session: 1,
    openedBy: 'us',
    method: 'A.a',
    kind: 'unary',
    beganMs: sequence,
    endedMs: undefined,
    sentBytes: 0,
    receivedBytes: 0,
    delivered: undefined,
    failure: undefined,
  };
}
