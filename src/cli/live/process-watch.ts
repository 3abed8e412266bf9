// SPDX-License-Identifier: MIT
// A living process that is looked into again and again, and how much its numbers have grown between
// two looks.
import { systemClock } from '../../base/clock.ts';
import { inspectProcess, type ThreadReport } from '../inspect-process.ts';
import { type SessionRow, sessionRow } from './session-row.ts';

/** A process at one moment. */
export interface ProcessSnapshot {
  readonly pid: number;
  /** Milliseconds until its first answer was there: longer ones tell of a loop that is blocked. */
  readonly answerMs: number;
  readonly threads: readonly ThreadReport[];
  /** Its open sessions, in the order in which they were opened. */
  readonly rows: readonly SessionRow[];
  /** Why the numbers are those of an earlier moment; undefined: they are not. */
  readonly problem?: string | undefined;
}

/** The key of a session in a process: ids are unique in one copy of the package in a thread. */
export function sessionKey({ threadId, copy }: ThreadPlace, id: number): string {
  const thread = threadId === 0 ? '' : `${threadId}.`;
  return `${copy === 1 ? '' : `copy ${copy}: `}${thread}${id}`;
}

/** A copy of the package in a thread. */
type ThreadPlace = Pick<ThreadReport, 'threadId' | 'copy'>;

/** Looks into a process, one look at a time. */
export class ProcessWatch {
  readonly pid: number;
  readonly #timeoutMs: number;
  #rows = new Map<string, SessionRow>();

  /** `timeoutMs`: the longest wait for an answer. */
  constructor(pid: number, timeoutMs: number) {
    this.pid = pid;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * The process now. `detailed`: the ids of sessions whose calls, leases and rings are wanted; the
   * others come with their numbers alone. `signal` ends the look.
   * @throws (as rejection) {SidecallError} as `inspectProcess()`.
   */
  async look(detailed: readonly number[] = [], signal?: AbortSignal): Promise<ProcessSnapshot> {
    const begunMs = systemClock.nowMs();
    let answerMs: number | undefined;
    const threads = await inspectProcess(this.pid, {
      timeoutMs: this.#timeoutMs,
      detailed,
      signal,
      onProgress: () => {
        answerMs ??= systemClock.nowMs() - begunMs;
      },
    });
    const rows = threads.flatMap((thread) =>
      thread.sessions.map((session) => {
        const key = sessionKey(thread, session.id);
        return sessionRow(key, session, this.#rows.get(key));
      }),
    );
    this.#rows = new Map(rows.map((row) => [row.key, row]));
    return { pid: this.pid, answerMs: answerMs ?? 0, threads, rows };
  }
}
