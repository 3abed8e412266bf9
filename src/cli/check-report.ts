// SPDX-License-Identifier: MIT
// Checks of the report of a process that is looked into: it may have another version of this
// package, or lie.
import { SidecallError } from '../base/errors.ts';
import { version } from '../base/version.ts';
import type {
  InspectedCalls,
  InspectedThread,
  ReportedSession,
} from '../rendezvous/inspection-service.ts';
import type { SampledCall } from '../rpc/counting/call-sampler.ts';
import type { SessionStats } from '../rpc/session/session-stats.ts';
import type { RingReport } from '../wire/ring-report.ts';

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const isText = (value: unknown): boolean => typeof value === 'string';
const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;
const isList = (value: unknown): boolean => Array.isArray(value) && value.every(isObject);

/** @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for what is no description of a thread. */
export function checkThread(thread: InspectedThread): InspectedThread {
  const { sidecall, node, pid, threadId, uptimeMs, residentBytes, sessions } = thread ?? {};
  const isRight =
    isText(sidecall) &&
    isText(node) &&
    [pid, threadId, uptimeMs, residentBytes, sessions].every(isCount);
  if (isRight) return thread;
  throw unreadable(undefined);
}

/** @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for what is no report of a session. */
export function checkSession(
  session: ReportedSession,
  thread: InspectedThread | undefined,
): ReportedSession {
  const { id, atMs, state, lane, laneReason, stats, streams, leases, peer, ring } = session ?? {};
  const isRight =
    isCount(id) &&
    Number.isFinite(atMs) &&
    [state, lane, laneReason].every(isText) &&
    [peer, stats].every(isObject) &&
    areNumbers(stats) &&
    [streams, leases].every(isList) &&
    (ring === undefined || (isObject(ring) && Array.isArray(ring.faults) && hasRecords(ring)));
  if (isRight) return session;
  throw unreadable(thread);
}

/** Calls in one message: a process keeps no more for those that look. */
const callsMax = 1_000;
const openers: readonly unknown[] = ['us', 'peer'];

/** @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for what is no sample of calls. */
export function checkCalls(part: InspectedCalls): InspectedCalls {
  const { atMs, calls, missed } = part ?? {};
  const isRight =
    Number.isFinite(atMs) &&
    isCount(missed) &&
    isList(calls) &&
    calls.length <= callsMax &&
    calls.every(isCall);
  if (isRight) return part;
  throw unreadable(undefined);
}

function isCall(call: SampledCall): boolean {
  const { sequence, session, openedBy, method, kind, beganMs, endedMs } = call;
  const { sentBytes, receivedBytes, delivered, failure } = call;
  return (
    [sequence, session, sentBytes, receivedBytes].every(isCount) &&
    openers.includes(openedBy) &&
    [method, kind].every(isText) &&
    Number.isFinite(beganMs) &&
    (endedMs === undefined || Number.isFinite(endedMs)) &&
    [delivered, failure].every((each) => each === undefined || isText(each))
  );
}

/** The payloads of unread records are texts, where there are any. */
function hasRecords({ sent, received }: RingReport): boolean {
  const records = [sent, received].flatMap((each) => each?.records ?? []);
  return (
    isList(records) && records.every(({ payload }) => payload === undefined || isText(payload))
  );
}

/** The numbers that commands compute with. */
function areNumbers(stats: SessionStats): boolean {
  const { calls, handlers, totals, waits, windows, methods, messages, frames } = stats;
  const groups: unknown[] = [calls, handlers, totals, waits, frames];
  const all = [...groups, windows, methods, messages].every(isObject);
  if (!all || ![...Object.values(windows), messages.sent, messages.received].every(isObject)) {
    return false;
  }
  if (!isList(methods.called) || !isList(methods.served)) return false;
  const latencies = [...methods.called, ...methods.served].map(({ latencyMs }) => latencyMs);
  if (!latencies.every(isObject)) return false;
  const numbers: unknown[] = [
    ...[calls.open, calls.waiting, handlers.running, totals.calls, totals.handlers],
    ...[frames.sent, frames.received, messages.sent.bytes, messages.received.bytes],
    ...Object.values(waits),
    ...Object.values(windows).flatMap(({ left, held }) => [left, held]),
    ...latencies.flatMap(({ count, sum, p50, p90, p99, max }) => [count, sum, p50, p90, p99, max]),
  ];
  const names = [...methods.called, ...methods.served].map(({ method }) => method);
  return numbers.every(Number.isFinite) && names.every(isText);
}

/** The error for a report that makes no sense. */
export function unreadable(thread: InspectedThread | undefined): SidecallError {
  const other = thread?.sidecall ?? 'unknown';
  const text = `the report cannot be read: the process has version ${other} of this package, this command has ${version}`;
  return new SidecallError('ERR_SIDECALL_PROTOCOL', text);
}
