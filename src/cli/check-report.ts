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
import type { InspectedStream } from '../rpc/session/inspection.ts';
import type { SessionStats } from '../rpc/session/session-stats.ts';
import type { RecordReport } from '../wire/record-walk.ts';
import type { OutboxReport, RingReport } from '../wire/ring-report.ts';
import type { HeldLease } from '../wire/transport.ts';

/** Characters of a text: names have 256, reasons are sentences. */
const textMax = 4_096;
const nameMax = 256;
/** Sessions of a thread, and entries of a list in one of them. */
const sessionsMax = 100_000;
const listMax = 100_000;

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const isText = (value: unknown): boolean => typeof value === 'string' && value.length <= textMax;
const isNumber = (value: unknown): boolean =>
  Number.isFinite(value) && Math.abs(value as number) <= Number.MAX_SAFE_INTEGER;
const isName = (value: unknown): boolean => isText(value) && (value as string).length <= nameMax;
const isOptional = (value: unknown, is: (value: unknown) => boolean): boolean =>
  value === undefined || is(value);
const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;
const isList = (value: unknown): boolean =>
  Array.isArray(value) && value.length <= listMax && value.every(isObject);

/** @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for what is no description of a thread. */
export function checkThread(thread: InspectedThread): InspectedThread {
  const { sidecall, node, pid, threadId, uptimeMs, residentBytes, sessions } = thread ?? {};
  const isRight =
    isText(sidecall) &&
    isText(node) &&
    [pid, threadId, uptimeMs, residentBytes, sessions].every(isCount) &&
    sessions <= sessionsMax;
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
    isNumber(atMs) &&
    [state, lane, laneReason].every(isText) &&
    [peer, stats].every(isObject) &&
    areNumbers(stats) &&
    [peer.pid, peer.uid].every((each) => isOptional(each, isNumber)) &&
    isText(peer.origin) &&
    isCount(session.moreStreams) &&
    [streams, leases].every(isList) &&
    streams.every(isStream) &&
    leases.every(isLease) &&
    (ring === undefined || (isObject(ring) && isRing(ring)));
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
    isNumber(atMs) &&
    isCount(missed) &&
    isList(calls) &&
    calls.length <= callsMax &&
    calls.every(isCall);
  if (isRight) return { atMs, missed, calls: calls.map(known) };
  throw unreadable(undefined);
}

function isCall(call: SampledCall): boolean {
  const { sequence, session, openedBy, method, kind, beganMs, endedMs } = call;
  const { sentBytes, receivedBytes, delivered, failure } = call;
  return (
    [sequence, session, sentBytes, receivedBytes].every(isCount) &&
    openers.includes(openedBy) &&
    [method, kind].every(isName) &&
    isNumber(beganMs) &&
    isOptional(endedMs, isNumber) &&
    [delivered, failure].every((each) => isOptional(each, isName))
  );
}

/** The fields that are known: the call is kept, and others could be of any size. */
function known(call: SampledCall): SampledCall {
  const { sequence, session, openedBy, method, kind, beganMs, endedMs } = call;
  const { sentBytes, receivedBytes, delivered, failure } = call;
  const begun = { sequence, session, openedBy, method, kind, beganMs };
  return { ...begun, endedMs, sentBytes, receivedBytes, delivered, failure };
}

function isStream(stream: InspectedStream): boolean {
  const { id, openedBy, method, kind, state, waitsFor, ageMs, deadlineInMs } = stream;
  const { sending, untakenBytes } = stream;
  if (sending !== undefined) {
    if (!isObject(sending)) return false;
    const { creditBytes, waiting, waitingBytes, waitsFor } = sending;
    if (![creditBytes, waiting, waitingBytes].every(isNumber)) return false;
    if (!isOptional(waitsFor, isText)) return false;
  }
  return (
    [method, kind, state].every(isText) &&
    [id, waitsFor].every((each) => isOptional(each, isText)) &&
    openers.includes(openedBy) &&
    [ageMs, deadlineInMs, untakenBytes].every((each) => isOptional(each, isNumber))
  );
}

function isLease({ id, bytes, ageMs, owner }: HeldLease): boolean {
  return [id, bytes, ageMs].every(isNumber) && isText(owner);
}

function isRing({ sent, received, faults }: RingReport): boolean {
  const isRight = Array.isArray(faults) && faults.length <= listMax && faults.every(isText);
  return isRight && [sent, received].every((each) => each === undefined || isOutbox(each));
}

function isOutbox(outbox: OutboxReport): boolean {
  if (!isObject(outbox)) return false;
  const { capacityBytes, blockAreaBytes, publishedBytes, consumedBytes, unreadBytes } = outbox;
  const { sleepEpochs, records, moreRecords, unseenBytes } = outbox;
  const { sleepsForRecords, sleepsForRoom } = outbox;
  return (
    [capacityBytes, blockAreaBytes, publishedBytes, moreRecords, unseenBytes].every(isNumber) &&
    [consumedBytes, unreadBytes].every((each) => isOptional(each, isNumber)) &&
    Array.isArray(sleepEpochs) &&
    sleepEpochs.length === 2 &&
    sleepEpochs.every(isNumber) &&
    [sleepsForRecords, sleepsForRoom].every((each) => typeof each === 'boolean') &&
    isList(records) &&
    records.every(isRecord)
  );
}

function isRecord({ position, kind, bytes, frame, payload }: RecordReport): boolean {
  const isRight = [position, bytes].every(isNumber) && isText(kind);
  return isRight && [frame, payload].every((each) => isOptional(each, isText));
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
    ...[...methods.called, ...methods.served].flatMap(({ started, succeeded, failed }) => [
      started,
      succeeded,
      failed,
    ]),
    ...[stats.queuedBytes, stats.blocks?.inUse],
    ...[stats.leases?.held, stats.leases?.inPlace, stats.leases?.copied],
    ...latencies.flatMap(({ count, sum, p50, p90, p99, max }) => [count, sum, p50, p90, p99, max]),
  ];
  const names = [...methods.called, ...methods.served].flatMap(({ method, kind }) => [
    method,
    kind,
  ]);
  return numbers.every(isNumber) && names.every(isText);
}

/** The error for a report that makes no sense. */
export function unreadable(thread: InspectedThread | undefined): SidecallError {
  const other = thread?.sidecall ?? 'unknown';
  const text = `the report cannot be read: the process has version ${other} of this package, this command has ${version}`;
  return new SidecallError('ERR_SIDECALL_PROTOCOL', text);
}
