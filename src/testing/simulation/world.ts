// SPDX-License-Identifier: MIT
// Virtual time, and the order of everything that happens in it.
import { systemClock } from '../../base/clock.ts';
import type { SeededRandom } from './seeded-random.ts';

/** A callback that is planned for an instant of virtual time. */
export interface Due {
  readonly atMs: number;
  /** The order among those that are due at the same instant. */
  readonly order: number;
  run(): void;
  isCancelled: boolean;
}

/** A step came after the bound: the simulated programs never come to rest. */
export class EndlessRun extends Error {}

/** All that is due, by time; of those at one instant chance decides, by the seed. */
export class World {
  readonly random: SeededRandom;
  /** Steps taken. */
  steps = 0;
  #nowMs = 0;
  readonly #due: Due[] = [];

  constructor(random: SeededRandom) {
    this.random = random;
  }

  /** Virtual milliseconds since the beginning. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** Runs `run` in `afterMs` of virtual time, in a step of its own. */
  plan(afterMs: number, run: () => void): Due {
    const order = this.random.next();
    const due: Due = { atMs: this.#nowMs + Math.max(0, afterMs), order, run, isCancelled: false };
    push(this.#due, due);
    return due;
  }

  /**
   * Takes steps until `isDone`, or until nothing is due. After each step all promises that can
   * settle have settled.
   * @throws {EndlessRun} after `stepsMax` steps.
   */
  async run(isDone: () => boolean, stepsMax: number): Promise<void> {
    while (!isDone()) {
      const due = pop(this.#due);
      if (due === undefined) return;
      if (due.isCancelled) continue;
      if (this.steps >= stepsMax) throw new EndlessRun(`no rest after ${stepsMax} steps`);
      this.steps += 1;
      this.#nowMs = Math.max(this.#nowMs, due.atMs);
      due.run();
      await new Promise<void>((resolve) => systemClock.setImmediate(resolve));
    }
  }
}

function isBefore(first: Due, second: Due): boolean {
  return first.atMs < second.atMs || (first.atMs === second.atMs && first.order < second.order);
}

function push(heap: Due[], due: Due): void {
  heap.push(due);
  for (let at = heap.length - 1; at > 0; ) {
    const above = (at - 1) >> 1;
    if (!isBefore(heap[at] as Due, heap[above] as Due)) return;
    swap(heap, at, above);
    at = above;
  }
}

function pop(heap: Due[]): Due | undefined {
  const [first] = heap;
  const last = heap.pop();
  if (first === undefined || last === undefined || heap.length === 0) return first;
  heap[0] = last;
  for (let at = 0; ; ) {
    const left = 2 * at + 1;
    const right = left + 1;
    let least = at;
    if (left < heap.length && isBefore(heap[left] as Due, heap[least] as Due)) least = left;
    if (right < heap.length && isBefore(heap[right] as Due, heap[least] as Due)) least = right;
    if (least === at) return first;
    swap(heap, at, least);
    at = least;
  }
}

function swap(heap: Due[], first: number, second: number): void {
  const kept = heap[first] as Due;
  heap[first] = heap[second] as Due;
  heap[second] = kept;
}
