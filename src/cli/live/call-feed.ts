// SPDX-License-Identifier: MIT
// The calls of a living process, as it samples them, while they are asked for.
import { systemClock } from '../../base/clock.ts';
import { errorText } from '../../base/error-text.ts';
import { SidecallError } from '../../base/errors.ts';
import { pause } from '../../base/pause.ts';
import { type InspectionPath, inspectionPathsOf } from '../../rendezvous/inspection-paths.ts';
import { InspectionService } from '../../rendezvous/inspection-service.ts';
import { checkCalls } from '../check-report.ts';
import { explained, openThread } from '../inspect-process.ts';
import { FedCalls } from './fed-calls.ts';

/** Time between two looks for threads that have begun. */
const threadsMs = 2_000;

/** The recording of the calls of one process, which can be started and stopped. */
export class CallFeed {
  readonly #pid: number;
  readonly #timeoutMs: number;
  #running: { readonly stopped: AbortController; readonly over: Promise<void> } | undefined;
  #calls = new FedCalls();
  #number = 0;
  #isWanted = false;
  #isClosed = false;
  #problem: string | undefined;
  #endedAtMs: number | undefined;

  /** `timeoutMs`: the longest wait for a connection. */
  constructor(pid: number, timeoutMs: number) {
    this.#pid = pid;
    this.#timeoutMs = timeoutMs;
  }

  get isOn(): boolean {
    return this.#running !== undefined;
  }

  /** The calls that have come since it was started last. */
  get calls(): FedCalls {
    return this.#calls;
  }

  /** Milliseconds since 1970 at which it ended; undefined: it is on, or was never. */
  get endedAtMs(): number | undefined {
    return this.#endedAtMs;
  }

  /** Why no calls come; undefined: they do, or it is off. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** 1, 2, 3 … for each start; 0: it was never started. */
  get number(): number {
    return this.#number;
  }

  /** Begins anew: earlier calls are forgotten. It ends by itself where the process does. */
  async start(): Promise<void> {
    this.#isWanted = !this.#isClosed;
    if (this.#running?.stopped.signal.aborted === true) await this.#running.over;
    if (this.#running !== undefined || !this.#isWanted) return;
    this.#number += 1;
    this.#calls = new FedCalls();
    this.#problem = undefined;
    this.#endedAtMs = undefined;
    const stopped = new AbortController();
    this.#running = { stopped, over: this.#readAll(stopped.signal) };
  }

  /** Threads that begin later are found at the next look for them. Never rejects. */
  async #readAll(signal: AbortSignal): Promise<void> {
    const reading = new Map<string, Promise<void>>();
    let onAllRead = (): void => undefined;
    const onRead = (path: string): void => {
      reading.delete(path);
      if (reading.size === 0) onAllRead();
    };
    do {
      for (const at of inspectionPathsOf(this.#pid)) {
        if (reading.has(at.path)) continue;
        const read = this.#read(at, signal).then(() => onRead(at.path));
        reading.set(at.path, read);
      }
      if (reading.size === 0) break;
      // A race with the promises of the reads would leave reactions with them at each look.
      await new Promise<void>((resolve) => {
        onAllRead = resolve;
        pause(systemClock, threadsMs, signal, false).then(resolve);
      });
    } while (reading.size > 0 && !signal.aborted);
    await Promise.all(reading.values());
    this.#running = undefined;
    this.#endedAtMs = Date.now();
  }

  /** Resolves when the process was told. What was recorded stays. */
  async stop(): Promise<void> {
    this.#isWanted = false;
    const running = this.#running;
    running?.stopped.abort();
    await running?.over;
  }

  /** As `stop()`, for ever. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.stop();
  }

  /** Never rejects. */
  async #read(at: InspectionPath, signal: AbortSignal): Promise<void> {
    const { path } = at;
    const pid = this.#pid;
    const timeoutMs = this.#timeoutMs;
    try {
      const session = await openThread(pid, path, timeoutMs, signal);
      try {
        const parts = session.client(InspectionService).calls(undefined, { signal });
        for await (const part of parts) this.#calls.add(checkCalls(part), at);
      } finally {
        await session.close({ deadlineMs: 0 }); // a process that was stopped would not answer
      }
    } catch (error) {
      const isLeftBehind = SidecallError.is(error) && error.code === 'ERR_SIDECALL_NO_LISTENER';
      if (signal.aborted || isLeftBehind) return; // a thread that has ended left the socket
      const reason = await explained(error, { pid, path, timeoutMs, isLate: false });
      this.#problem ??= errorText(reason);
    }
  }
}
