// SPDX-License-Identifier: MIT
// `sidecall inspect FILE`: a saved copy of the memory of a ring.
import { readFileSync } from 'node:fs';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import {
  type OutboxReport,
  type RecordReport,
  type RingReport,
  reportRing,
  splitRingCopy,
} from '../wire/ring-report.ts';

/** @throws {SidecallError} `ERR_SIDECALL_SYSTEM` where the file cannot be read. */
export function inspectFile(file: string): RingReport {
  try {
    return reportRing(splitRingCopy(readFileSync(file)));
  } catch (cause) {
    const text = `${file} could not be read: ${errorText(cause)}`;
    throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
  }
}

/** The report for people. */
export function printRing({ sent, received, faults }: RingReport): string {
  const parts = [
    ...outboxLines('sent by the side that saved the copy', sent),
    ...outboxLines('sent by its peer', received),
    ...faults.map((fault) => `FAULT  ${fault}`),
    faults.length === 0 ? 'No fault was found.' : '',
  ];
  return parts.join('\n').trimEnd();
}

const count = (bytes: number): string => bytes.toLocaleString('en');

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
    ...outbox.records.map(recordLine),
    ...(outbox.moreRecords > 0 ? [`  and ${outbox.moreRecords} more records`] : []),
    '',
  ];
}

function asleep(is: boolean): string {
  return is ? 'asleep' : 'awake';
}

function recordLine({ position, kind, bytes, frame }: RecordReport): string {
  return `  ${String(position).padStart(12)}  ${kind}, ${count(bytes)} bytes${frame === undefined ? '' : `: ${frame}`}`;
}
