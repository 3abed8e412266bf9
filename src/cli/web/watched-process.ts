// SPDX-License-Identifier: MIT
// A process as the pages see it: one look serves all of them, and none is made while no page asks.
import { systemClock } from '../../base/clock.ts';
import { errorText } from '../../base/error-text.ts';
import { endWaits, pause } from '../../base/pause.ts';
import type { ReportedSession } from '../../rendezvous/inspection-service.ts';
import { isAlive } from '../inspect-process.ts';
import { CallFeed } from '../live/call-feed.ts';
import type { FedCall } from '../live/fed-calls.ts';
import { type ProcessSnapshot, ProcessWatch, sessionKey } from '../live/process-watch.ts';
import type { SessionRow } from '../live/session-row.ts';
import type { WebSettings } from './operands.ts';
import { type Sample, Samples } from './samples.ts';

/** A process in the answer to a page. */
export interface ProcessView {
  readonly pid: number;
  /** Milliseconds since 1970 of the last look that was answered; undefined: none was. */
  readonly atMs: number | undefined;
  readonly threads: readonly {
    readonly threadId: number;
    readonly node: string | undefined;
    readonly sidecall: string | undefined;
    readonly uptimeMs: number | undefined;
    readonly residentBytes: number | undefined;
    readonly error: string | undefined;
  }[];
  readonly rows: readonly Omit<SessionRow, 'sums'>[];
  /** Samples that the page does not have yet. */
  readonly samples: readonly Sample[];
  /** The session that the page shows; undefined: none, or it was not looked at yet. */
  readonly session: ReportedSession | undefined;
  readonly recording: {
    readonly isOn: boolean;
    /** 1, 2, 3 … for each start; 0: it was never started. */
    readonly number: number;
    readonly missed: number;
    /** Milliseconds since 1970 at which it ended; undefined: it is on, or was never. */
    readonly endedAtMs: number | undefined;
    readonly problem: string | undefined;
    /** Calls that have changed, and that the page does not have yet. */
    readonly calls: readonly FedCall[];
  };
  /** Why the numbers are old; undefined: they are not. */
  readonly problem: string | undefined;
  readonly hasEnded: boolean;
}

/** The data that a page has already, and the session that it shows. */
export interface PageState {
  /** The number of its last sample. */
  readonly sample: number;
  /** The number of the last change of a call that it knows. */
  readonly change: number;
  /** The key of the session that it shows. */
  readonly key: string | undefined;
}

/** Time for which a process is looked at after a page has asked, and a session in full. */
const standardInterestMs = 5_000;
/** Sessions that are looked at in full, whatever the number of pages. */
const detailedMax = 16;

/** The times of the looks. */
type WatchSettings = Pick<WebSettings, 'intervalMs' | 'timeoutMs' | 'interestMs'>;

/** A process that pages look at. */
export class WatchedProcess {
  readonly pid: number;
  readonly feed: CallFeed;
  readonly #watch: ProcessWatch;
  readonly #intervalMs: number;
  readonly #interestMs: number;
  readonly #samples = new Samples();
  readonly #detailed = new Map<string, number>();
  readonly #closed = new AbortController();
  #snapshot: ProcessSnapshot | undefined;
  /** The sessions that it has in full. */
  #inFull: ReadonlySet<string> = new Set();
  #atMs: number | undefined;
  #problem: string | undefined;
  #hasEnded = false;
  #askedMs = 0;
  #firstLook: Promise<void> | undefined;
  #looking: Promise<void> | undefined;

  constructor(pid: number, { intervalMs, timeoutMs, interestMs }: WatchSettings) {
    this.pid = pid;
    this.#interestMs = interestMs ?? standardInterestMs;
    this.feed = new CallFeed(pid, timeoutMs);
    this.#intervalMs = intervalMs;
    this.#watch = new ProcessWatch(pid, timeoutMs);
  }

  /** It has ended, and a later process has its number. */
  get isFollowed(): boolean {
    return this.#hasEnded && isAlive(this.pid);
  }

  /** The instant at which a page has asked last, on the clock of the system. */
  get askedMs(): number {
    return this.#askedMs;
  }

  /** The process for a page. The first answer waits for the first look. */
  async view({ sample, change, key }: PageState): Promise<ProcessView> {
    const now = systemClock.nowMs();
    this.#askedMs = now;
    if (key !== undefined) this.#noteDetailed(key, now);
    if (!this.#hasEnded) this.#looking ??= this.#lookWhileAsked();
    await this.#firstLook;
    const snapshot = this.#snapshot;
    return {
      pid: this.pid,
      atMs: this.#atMs,
      threads: (snapshot?.threads ?? []).map(({ threadId, thread, error }) => ({
        threadId,
        node: thread?.node,
        sidecall: thread?.sidecall,
        uptimeMs: thread?.uptimeMs,
        residentBytes: thread?.residentBytes,
        error,
      })),
      rows: (snapshot?.rows ?? []).map(({ sums: _, ...row }) => row),
      samples: this.#samples.since(sample),
      session: key === undefined ? undefined : this.#session(key),
      recording: {
        isOn: this.feed.isOn,
        number: this.feed.number,
        missed: this.feed.calls.missed,
        endedAtMs: this.feed.endedAtMs,
        problem: this.feed.problem,
        calls: this.feed.calls.since(change),
      },
      problem: this.#problem,
      hasEnded: this.#hasEnded,
    };
  }

  /** Ends the looks and the recording. */
  async close(): Promise<void> {
    endWaits(this.#closed);
    await this.feed.close();
    await this.#looking;
  }

  async #lookWhileAsked(): Promise<void> {
    const { signal } = this.#closed;
    while (!signal.aborted && !this.#hasEnded) {
      const look = this.#look();
      this.#firstLook ??= look;
      await look;
      await pause(systemClock, this.#intervalMs, signal);
      if (systemClock.nowMs() - this.#askedMs > this.#interestMs) break;
    }
    this.#looking = undefined;
  }

  async #look(): Promise<void> {
    const rows = this.#snapshot?.rows ?? [];
    const keys = this.#keysInDetail();
    const ids = rows.filter(({ key }) => keys.has(key)).map(({ id }) => id);
    try {
      this.#snapshot = await this.#watch.look(ids, this.#closed.signal);
      this.#inFull = keys;
      this.#problem = undefined;
      this.#atMs = Date.now();
      this.#samples.add(this.#snapshot, this.#atMs);
    } catch (error) {
      this.#problem = errorText(error);
      this.#hasEnded = !isAlive(this.pid);
    }
  }

  #noteDetailed(key: string, now: number): void {
    this.#detailed.delete(key);
    this.#detailed.set(key, now);
    for (const each of this.#detailed.keys()) {
      if (this.#detailed.size <= detailedMax) break;
      this.#detailed.delete(each);
    }
  }

  #keysInDetail(): ReadonlySet<string> {
    const now = systemClock.nowMs();
    for (const [key, asked] of this.#detailed) {
      if (now - asked > this.#interestMs) this.#detailed.delete(key);
    }
    return new Set(this.#detailed.keys());
  }

  #session(wanted: string): ReportedSession | undefined {
    if (!this.#inFull.has(wanted)) return undefined;
    for (const thread of this.#snapshot?.threads ?? []) {
      const found = thread.sessions.find(({ id }) => sessionKey(thread, id) === wanted);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}
