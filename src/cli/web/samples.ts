// SPDX-License-Identifier: MIT
// The numbers of a process over time, for charts.
import type { ProcessSnapshot } from '../live/process-watch.ts';
import type { SessionRow } from '../live/session-row.ts';

/** The numbers of a process at one look. */
export interface Sample {
  /** Numbers of later samples are larger. */
  readonly number: number;
  /** Milliseconds since 1970. */
  readonly atMs: number;
  readonly sessions: number;
  /** Of all sessions, per second. */
  readonly calls: number;
  readonly sentBytes: number;
  readonly receivedBytes: number;
  /** Mean of the calls that have ended since the look before; undefined: none has. */
  readonly meanMs: number | undefined;
  /** The largest p99 of all methods, since their sessions were opened. */
  readonly p99Ms: number | undefined;
  readonly waiting: number;
  /** Milliseconds until the first answer. */
  readonly answerMs: number;
}

/** Samples that are kept: ten minutes, one a second. */
export const keptSamples = 600;

/** Of all processes: a page asks for what is behind a number, also where a watch began anew. */
let lastNumber = 0;

/** The newest samples of a process. */
export class Samples {
  readonly #kept: Sample[] = [];

  /** The samples behind one, the oldest first. */
  since(number: number): readonly Sample[] {
    return this.#kept.filter((sample) => sample.number > number);
  }

  /** `atMs`: milliseconds since 1970. */
  add({ rows, answerMs }: ProcessSnapshot, atMs: number): void {
    const sum = (of: (row: SessionRow) => number | undefined): number =>
      rows.reduce((total, row) => total + (of(row) ?? 0), 0);
    const calls = sum((row) => row.callsPerSecond);
    const callMs = sum(({ meanMs, callsPerSecond = 0 }) => (meanMs ?? 0) * callsPerSecond);
    const p99s = rows.flatMap(({ p99Ms }) => (p99Ms === undefined ? [] : [p99Ms]));
    lastNumber += 1;
    this.#kept.push({
      number: lastNumber,
      atMs,
      sessions: rows.length,
      calls,
      sentBytes: sum((row) => row.sentBytesPerSecond),
      receivedBytes: sum((row) => row.receivedBytesPerSecond),
      meanMs: calls === 0 ? undefined : callMs / calls,
      p99Ms: p99s.length === 0 ? undefined : p99s.reduce((a, b) => Math.max(a, b)),
      waiting: sum((row) => row.waiting),
      answerMs,
    });
    if (this.#kept.length > keptSamples) this.#kept.shift();
  }
}
