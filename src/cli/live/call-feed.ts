// SPDX-License-Identifier: MIT
// The calls of a living process, as it samples them, from the moment on at which they are asked for.
import { errorText } from '../../base/error-text.ts';
import { inspectionPathsOf } from '../../rendezvous/inspection-paths.ts';
import { type InspectedCalls, InspectionService } from '../../rendezvous/inspection-service.ts';
import type { SampledCall } from '../../rpc/counting/call-sampler.ts';
import { checkCalls } from '../check-report.ts';
import { explained, openThread } from '../inspect-process.ts';

/** A call of a sample, with the thread in which it was seen. */
export interface FedCall extends SampledCall {
  /** 0: the main thread. */
  readonly threadId: number;
  /** 1, 2, 3 … for each change of any call. */
  readonly change: number;
  /** Milliseconds since 1970 at which it began. */
  readonly beganAtMs: number;
}

/** Calls that are kept: later ones take the place of the oldest. */
export const keptCalls = 2_000;

/** The recording of the calls of one process, which can be started and stopped. */
export class CallFeed {
  readonly #pid: number;
  readonly #timeoutMs: number;
  readonly #calls = new Map<string, FedCall>();
  #running: { readonly stopped: AbortController; readonly over: Promise<unknown> } | undefined;
  #lastChange = 0;
  #missed = 0;
  #problem: string | undefined;

  /** `timeoutMs`: the longest wait for a connection. */
  constructor(pid: number, timeoutMs: number) {
    this.#pid = pid;
    this.#timeoutMs = timeoutMs;
  }

  get isOn(): boolean {
    return this.#running !== undefined;
  }

  /** Changes of calls that the process has left out. */
  get missed(): number {
    return this.#missed;
  }

  /** Why no calls come; undefined: they do, or it is off. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** The calls that have changed since a change, the oldest first. */
  since(change: number): readonly FedCall[] {
    return [...this.#calls.values()].filter((call) => call.change > change);
  }

  /** Begins anew: earlier calls are forgotten. It ends by itself where the process does. */
  start(): void {
    if (this.#running !== undefined) return;
    this.#calls.clear();
    this.#missed = 0;
    this.#problem = undefined;
    const stopped = new AbortController();
    const threads = inspectionPathsOf(this.#pid).map(({ path, threadId }) =>
      this.#read(path, threadId, stopped.signal),
    );
    const over = Promise.allSettled(threads).then(() => {
      if (this.#running?.stopped === stopped) this.#running = undefined;
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
      for await (const part of parts) this.#add(checkCalls(part), threadId);
    } catch (error) {
      if (signal.aborted) return;
      const reason = await explained(error, { pid, path, timeoutMs, isLate: false });
      this.#problem ??= errorText(reason);
    }
  }

  #add({ atMs, calls, missed }: InspectedCalls, threadId: number): void {
    this.#missed += missed;
    const clocksApartMs = Date.now() - atMs;
    for (const call of calls) {
      this.#lastChange += 1;
      const key = `${threadId}.${call.sequence}`;
      const beganAtMs = this.#calls.get(key)?.beganAtMs ?? call.beganMs + clocksApartMs;
      this.#calls.set(key, { ...call, threadId, change: this.#lastChange, beganAtMs });
    }
    for (const key of this.#calls.keys()) {
      if (this.#calls.size <= keptCalls) break;
      this.#calls.delete(key);
    }
  }
}
