// SPDX-License-Identifier: MIT
// How a member that answers much more slowly than the others is found.
import { tuning } from '../base/limits/internal-limits.ts';

/** Answers of one method that its median is taken from. */
const recentMax = 64;
/** Answers between two looks at the median. */
const medianEvery = 16;
/** Methods that are measured; others are not compared. */
const methodsMax = 1_024;

/** The median time of the answers of a method. */
class MethodTimes {
  readonly #recent: number[] = [];
  #next = 0;
  #median = Number.POSITIVE_INFINITY;

  /** Notes an answer; returns the median before it, Infinity until there are a few. */
  add(ms: number): number {
    const median = this.#median;
    this.#recent[this.#next % recentMax] = ms;
    this.#next += 1;
    if (this.#next % medianEvery === 0) {
      const sorted = this.#recent.toSorted((a, b) => a - b);
      this.#median = sorted[sorted.length >> 1] as number;
    }
    return median;
  }
}

/** The usual times of answers, by method, over all members of a pool. */
export class UsualTimes {
  readonly #methods = new Map<string, MethodTimes>();

  /** Notes an answer. The result: its time as a multiple of the median; 1 while that is unknown. */
  ratioOf(method: string, ms: number): number {
    let times = this.#methods.get(method);
    if (times === undefined) {
      if (this.#methods.size === methodsMax) return 1;
      times = new MethodTimes();
      this.#methods.set(method, times);
    }
    const median = times.add(ms);
    return median === Number.POSITIVE_INFINITY ? 1 : ms / Math.max(median, tuning.fastAnswerMs);
  }
}

/**
 * The slowness of one member. It is slow when each of its last 16 answers has taken more than four
 * times the median of the pool. With members that are alike half of the answers are below the
 * median, so that such a row comes by chance once in 65,536 rows at most. One answer in the usual
 * time ends it. A slow member is tried again after a while.
 */
export class SlowMember {
  #row = 0;
  #least = Number.POSITIVE_INFINITY;
  #triedAt = Number.NEGATIVE_INFINITY;

  /** Notes an answer, by its time as a multiple of the median. */
  onAnswer(ratio: number, now: number): void {
    this.#triedAt = now;
    if (ratio <= tuning.slowMemberRatio) {
      this.#row = 0;
      this.#least = Number.POSITIVE_INFINITY;
      return;
    }
    this.#row += 1;
    this.#least = Math.min(this.#least, ratio);
  }

  /** A call is begun on the member. */
  onBegin(now: number): void {
    if (this.#row >= tuning.slowMemberAnswers) this.#triedAt = now;
  }

  /** A factor for the load of the member: 1, or how much slower it is. */
  factor(now: number): number {
    const isKnown = this.#row >= tuning.slowMemberAnswers;
    if (!isKnown || now - this.#triedAt >= tuning.slowMemberRetryMs) return 1;
    return Math.min(this.#least, tuning.slownessMax);
  }
}
