// SPDX-License-Identifier: MIT
// The calls of a living process, as it samples them, while they are asked for.
import { errorText } from '../../base/error-text.ts';
import { SidecallError } from '../../base/errors.ts';
import { inspectionPathsOf } from '../../rendezvous/inspection-paths.ts';
import { InspectionService } from '../../rendezvous/inspection-service.ts';
import { checkCalls } from '../check-report.ts';
import { explained, openThread } from '../inspect-process.ts';
import { FedCalls } from './fed-calls.ts';

/** The recording of the calls of one process, which can be started and stopped. */
export class CallFeed {
  readonly #pid: number;
  readonly #timeoutMs: number;
  #running: { readonly stopped: AbortController; readonly over: Promise<void> } | undefined;
  #calls = new FedCalls();
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

  /** Begins anew: earlier calls are forgotten. It ends by itself where the process does. */
  start(): void {
    if (this.#running !== undefined) return;
    this.#calls = this.#calls.next();
    this.#problem = undefined;
    this.#endedAtMs = undefined;
    const stopped = new AbortController();
    const threads = inspectionPathsOf(this.#pid).map(({ path, threadId }) =>
      this.#read(path, threadId, stopped.signal),
    );
    const over = Promise.allSettled(threads).then(() => {
      this.#running = undefined;
      this.#endedAtMs = Date.now();
    });
    this.#running = { stopped, over };
  }

  /** Resolves when the process was told. What was recorded stays. */
  async stop(): Promise<void> {
    const running = this.#running;
    running?.stopped.abort();
    await running?.over;
  }

  /** Never rejects. */
  async #read(path: string, threadId: number, signal: AbortSignal): Promise<void> {
    const pid = this.#pid;
    const timeoutMs = this.#timeoutMs;
    try {
      await using session = await openThread(pid, path, timeoutMs, signal);
      const parts = session.client(InspectionService).calls(undefined, { signal });
      for await (const part of parts) this.#calls.add(checkCalls(part), threadId);
    } catch (error) {
      const isLeftBehind = SidecallError.is(error) && error.code === 'ERR_SIDECALL_NO_LISTENER';
      if (signal.aborted || isLeftBehind) return; // a thread that has ended left the socket
      const reason = await explained(error, { pid, path, timeoutMs, isLate: false });
      this.#problem ??= errorText(reason);
    }
  }
}
