// SPDX-License-Identifier: MIT
// Processes that look into a thread take turns, with pauses between: however many there are and
// however often they ask, they take a bounded share of its time.
import { performance } from 'node:perf_hooks';
import type { Clock } from '../base/clock.ts';
import { pause } from '../base/pause.ts';

/**
 * The pause behind a turn is this many times the time that it took, in a thread without idle time.
 * To encode and send the reports takes up to nine times as long as to make them, so that all
 * inspections together take less than 2 % of a processor.
 */
const pauseFactor = 600;
/** A thread that is idle is not slowed: there the pause is this share of it. */
const idleShare = 0.25;
const pauseMaxMs = 2_000;

const { signal: never } = new AbortController();

/** The turns of one thread. */
export class InspectionTurns {
  readonly #busyShare: () => number;
  #last: Promise<void> = Promise.resolve();

  /** `busyShare`: the share of its time that the thread has worked since the last question. */
  constructor(busyShare: () => number = busyShareOfThread()) {
    this.#busyShare = busyShare;
  }

  /** Waits for the next turn. The result ends it, and is told how long it took. */
  async take(clock: Clock): Promise<(tookMs: number) => void> {
    const before = this.#last;
    let begin: () => void = () => undefined;
    this.#last = new Promise((resolve) => {
      begin = resolve;
    });
    await before;
    // The pause is not the caller's to end: one that asks again and again would have no pause.
    return (tookMs) => void pause(clock, this.#pauseMs(tookMs), never, false).then(begin);
  }

  #pauseMs(tookMs: number): number {
    const share = Math.max(idleShare, this.#busyShare());
    return Math.min(pauseMaxMs, tookMs * pauseFactor * share);
  }
}

/** The share of its time that this thread works, from one question to the next. */
export function busyShareOfThread(): () => number {
  let before = performance.eventLoopUtilization();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    return utilization;
  };
}
