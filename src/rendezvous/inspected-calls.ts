// SPDX-License-Identifier: MIT
// The calls of this thread for processes that look into it: a sample, of which all of them see the
// same.
import type { Clock } from '../base/clock.ts';
import { RpcError } from '../base/errors.ts';
import { pause } from '../base/pause.ts';
import { type CallSampler, callSampler, type SampledCall } from '../rpc/counting/call-sampler.ts';
import type { InspectedCalls } from './inspection-service.ts';

/** A sample begins so often, and has so many calls: 200 a second. */
const tickMs = 500;
const callsPerTick = 100;
/** Calls that are kept: a process that looks takes them within a tick, or misses them. */
const keptMax = 1_000;

/** Readers at once: each gets a copy of all calls. */
const readersMax = 8;
const tooMany = `${readersMax} others record the calls of this thread already: end one of them`;

/** The newest calls of the samples, for all that look. */
class CallLog {
  readonly #sampler: CallSampler;
  #kept: SampledCall[] = [];
  /** The number of calls that were kept before the first of `#kept`. */
  #dropped = 0;
  #missed = 0;
  #renewedMs = Number.NEGATIVE_INFINITY;
  #readers = 0;

  constructor(sampler: CallSampler) {
    this.#sampler = sampler;
  }

  /** The samples from now on, until `signal` is aborted. */
  async *read(clock: Clock, signal: AbortSignal): AsyncGenerator<InspectedCalls> {
    if (this.#readers >= readersMax) throw new RpcError('resource_exhausted', tooMany);
    this.#readers += 1;
    try {
      this.#renew(clock.nowMs());
      let position = this.#dropped + this.#kept.length;
      let missedBefore = this.#missed;
      yield { atMs: clock.nowMs(), calls: [], missed: 0 };
      while (!signal.aborted) {
        await pause(clock, tickMs, signal, false);
        this.#renew(clock.nowMs());
        const calls = this.#kept.slice(Math.max(0, position - this.#dropped));
        const missed = Math.max(0, this.#dropped - position) + this.#missed - missedBefore;
        position = this.#dropped + this.#kept.length;
        missedBefore = this.#missed;
        if (calls.length + missed > 0) yield { atMs: clock.nowMs(), calls, missed };
      }
    } finally {
      this.#readers -= 1;
      if (this.#readers === 0) this.#stop();
    }
  }

  /** Takes the sample where it is old enough, whichever reader comes first, and begins the next. */
  #renew(nowMs: number): void {
    if (nowMs - this.#renewedMs < tickMs * 0.9) return;
    this.#renewedMs = nowMs;
    const { calls, missed } = this.#sampler.take();
    this.#kept.push(...calls);
    this.#missed += missed;
    const over = this.#kept.length - keptMax;
    if (over > 0) {
      this.#kept = this.#kept.slice(over);
      this.#dropped += over;
    }
    this.#sampler.refill(callsPerTick);
  }

  #stop(): void {
    this.#renewedMs = Number.NEGATIVE_INFINITY;
    this.#sampler.stop();
    this.#dropped += this.#kept.length;
    this.#kept = [];
  }
}

const log = new CallLog(callSampler);

/** The calls of this thread from now on. */
export function inspectedCalls(clock: Clock, signal: AbortSignal): AsyncGenerator<InspectedCalls> {
  return log.read(clock, signal);
}
