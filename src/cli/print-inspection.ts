// SPDX-License-Identifier: MIT
// An inspection for people.

import { Buffer } from 'node:buffer';
import { printable } from '../base/printable.ts';
import type { ReportedSession } from '../rendezvous/inspection-service.ts';
import type { InspectedStream } from '../rpc/session/inspection.ts';
import type { RecordReport } from '../wire/record-walk.ts';
import type { OutboxReport, RingReport } from '../wire/ring-report.ts';
import type { Inspected } from './inspect.ts';
import type { ThreadReport } from './inspect-process.ts';
import { stateText } from './live/state-text.ts';
import { recordingLines } from './print-recording.ts';

/** The report as lines. Names that a peer has chosen are printed without control characters. */
export function printInspection(inspected: Inspected): string {
  return linesOf(inspected).map(printable).join('\n').trimEnd();
}

function linesOf(inspected: Inspected): string[] {
  if ('ring' in inspected) return ringLines(inspected.ring, 'the side that saved the copy');
  if ('recording' in inspected) return recordingLines(inspected.recording);
  return inspected.threads.flatMap(threadLines);
}

function threadLines({ threadId, thread, sessions, error }: ThreadReport): string[] {
  if (thread === undefined)
    return [`${threadId === 0 ? 'the main thread' : `worker thread ${threadId}`}: ${error}`, ''];
  const { pid, sidecall, node, uptimeMs, residentBytes } = thread;
  const where = threadId === 0 ? `process ${pid}` : `process ${pid}, worker thread ${threadId}`;
  const megabytes = Math.round(residentBytes / 1_000_000);
  return [
    `${where}: Node ${node}, sidecall ${sidecall}, for ${duration(uptimeMs)}, ${megabytes} MB`,
    sessions.length === 0 ? 'No session is open.' : '',
    ...sessions.flatMap(sessionLines),
  ];
}

/** A session and its calls, leases and ring. */
export function sessionLines(session: ReportedSession): string[] {
  const { id, state, lane, laneReason, peer, stats, streams, moreStreams, leases, ring } = session;
  const { calls, handlers, totals, queuedBytes, waits, windows } = stats;
  const waiting = Object.entries(waits).filter(([, number]) => number > 0);
  return [
    `session ${id}: ${state}, lane ${lane} (${laneReason})`,
    `  peer      pid ${peer.pid ?? '?'}, uid ${peer.uid ?? '?'}; identity: ${peer.origin}`,
    `  calls     ${count(calls.open)} of ours are open, ${count(calls.waiting)} wait to begin; ${count(handlers.running)} of the peer's run here`,
    `  ever      ${count(totals.calls)} of ours, ${count(totals.handlers)} of the peer's`,
    `  queue     ${count(queuedBytes)} bytes that the lane has not taken`,
    `  waits     ${waiting.length === 0 ? 'nothing waits' : waiting.map(([why, number]) => `${why} ${count(number)}`).join(', ')}`,
    ...Object.entries(windows).map(
      ([name, { left, held }]) =>
        `  window    ${name}: we may send ${count(left)} bytes; ${count(held)} of the peer's are held`,
    ),
    ...streams.flatMap(streamLines),
    ...(moreStreams > 0 ? [`  and ${count(moreStreams)} more calls and streams`] : []),
    ...leaseSums(stats.leases),
    ...leases.map(
      (lease) =>
        `  lease     ${lease.id}: ${count(lease.bytes)} bytes of ${lease.owner}, for ${duration(lease.ageMs)}`,
    ),
    ...(ring === undefined ? [] : ringLines(ring, 'this side'))
      .filter((line) => line !== '')
      .map((line) => `  ${line}`),
    '',
  ];
}

/** Where a lease was ever given out. */
function leaseSums({ held, inPlace, copied }: ReportedSession['stats']['leases']): string[] {
  if (inPlace + copied === 0) return [];
  return [
    `  leases    ${count(held)} are held; ever, ${count(inPlace)} were given out in place and ${count(copied)} as copies`,
  ];
}

function streamLines(stream: InspectedStream): string[] {
  const { id, openedBy, method, kind, ageMs, deadlineInMs, sending, untakenBytes } = stream;
  const age = ageMs === undefined ? '' : ` for ${duration(ageMs)}`;
  const deadline = deadlineInMs === undefined ? 'no deadline' : deadlineText(deadlineInMs);
  const parts: string[] = [];
  if (sending !== undefined) {
    parts.push(`may send ${count(sending.creditBytes)} bytes`);
    if (sending.waitsFor !== undefined) {
      parts.push(
        `waiting for ${sending.waitsFor}: messages ${count(sending.waiting)}, bytes ${count(sending.waitingBytes)}`,
      );
    }
  }
  if (untakenBytes !== undefined) parts.push(`${count(untakenBytes)} bytes have not been taken`);
  const name = id === undefined ? method : `${id} ${method}`;
  const whose = openedBy === 'us' ? 'our call' : "the peer's call";
  return [
    `  ${whose} ${name}: ${kind}, ${stateText(stream, age)}; ${deadline}`,
    ...(parts.length === 0 ? [] : [`    ${parts.join('; ')}`]),
  ];
}

function deadlineText(ms: number): string {
  return ms < 0 ? `its deadline passed ${duration(-ms)} ago` : `its deadline is in ${duration(ms)}`;
}

/** Milliseconds, with the unit that suits them. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  const hours = Math.floor(minutes / 60);
  if (hours > 0) return `${hours} h ${minutes % 60} min`;
  return `${minutes} min ${Math.floor((ms % 60_000) / 1_000)} s`;
}

const count = (number: number): string => number.toLocaleString('en');

function ringLines({ sent, received, faults }: RingReport, side: string): string[] {
  return [
    ...outboxLines(`sent by ${side}`, sent),
    ...outboxLines('sent by its peer', received),
    ...faults.map((fault) => `FAULT  ${fault}`),
    faults.length === 0 ? 'The shared memory is intact.' : '',
    '',
  ];
}

function outboxLines(what: string, outbox: OutboxReport | undefined): string[] {
  if (outbox === undefined) return [`${what}: not in the copy, or unreadable`, ''];
  const { capacityBytes, blockAreaBytes, publishedBytes, consumedBytes, unreadBytes } = outbox;
  const area = blockAreaBytes === 0 ? '' : `, and ${count(blockAreaBytes)} for blocks`;
  const read =
    consumedBytes === undefined
      ? 'the copy does not say how many were consumed'
      : `${count(consumedBytes)} consumed, ${unreadBytes === undefined ? '?' : count(unreadBytes)} unread`;
  const [data, space] = outbox.sleepEpochs;
  return [
    `${what}: ${count(capacityBytes)} bytes${area}`,
    `  bytes   ${count(publishedBytes)} published, ${read}`,
    `  waiting for records: ${asleep(outbox.sleepsForRecords)} (epoch ${data}); for room: ${asleep(outbox.sleepsForRoom)} (epoch ${space})`,
    ...outbox.records.flatMap(recordLines),
    ...(outbox.moreRecords > 0 ? [`  and ${outbox.moreRecords} more records`] : []),
    ...(outbox.unseenBytes > 0 ? [`  and ${count(outbox.unseenBytes)} bytes not looked at`] : []),
    '',
  ];
}

function asleep(is: boolean): string {
  return is ? 'asleep' : 'awake';
}

function recordLines({ position, kind, bytes, frame, payload }: RecordReport): string[] {
  const text = frame === undefined ? '' : `: ${frame}`;
  const line = `  ${String(position).padStart(12)}  ${kind}, ${count(bytes)} bytes${text}`;
  return payload === undefined ? [line] : [line, `  ${' '.repeat(14)}${payloadText(payload)}`];
}

/** Text where all bytes are text, or else their numbers. The last character may be cut off. */
function payloadText(payload: string): string {
  const bytes = Buffer.from(payload, 'base64');
  const text = bytes.toString().replace(/\ufffd$/, '');
  const isText = text === printable(text) && !text.includes('\ufffd');
  return isText ? text : bytes.toString('hex').replace(/..(?!$)/g, '$& ');
}
