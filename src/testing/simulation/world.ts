// SPDX-License-Identifier: MIT
// Virtual time, and the order of everything that happens in it.
import { systemClock } from '../../base/clock.ts';
import { Fingerprint } from './fingerprint.ts';
import type { SeededRandom } from './seeded-random.ts';

/** A callback that is planned for an instant of virtual time. */
export interface Due {
  readonly atMs: number;
  /** The order among those that are due at the same instant: first planned, first run. */
  readonly order: number;
  run(): void;
  isCancelled: boolean;
}

/** A step came after the bound: the simulated programs never come to rest. */
export class EndlessRun extends Error {}

/** A line of a trace; `actor`: the process or part that it is about. */
export type OnTrace = (nowMs: number, actor: string, text: string) => void;

/** All that is due, by time. */
export class World {
  readonly random: SeededRandom;
  /** Sums up everything that has happened, for comparing two runs. */
  readonly fingerprint = new Fingerprint();
  /** Called with what happens, in words. undefined: no words are made. */
  onTrace: OnTrace | undefined;
  /** Steps taken. */
  steps = 0;
  #nowMs = 0;
  #planned = 0;
  #pids = 0;
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
    this.#planned += 1;
    const atMs = this.#nowMs + Math.max(0, afterMs);
    const due: Due = { atMs, order: this.#planned, run, isCancelled: false };
    push(this.#due, due);
    return due;
  }

  /** A number for a new process. */
  nextPid(): number {
    this.#pids += 1;
    return this.#pids;
  }

  /** All clocks go on by `ms` at once, as after a sleep of the machine. */
  jump(ms: number): void {
    this.#nowMs += ms;
  }

  /** Adds a line to the trace, if there is one. */
  trace(actor: string, text: string): void {
    this.onTrace?.(this.#nowMs, actor, text);
  }

  /**
   * Takes steps until `isDone`, or until nothing is due. Between two steps all promises that can
   * settle have settled, as between two turns of an event loop.
   * @throws (as rejection) {EndlessRun} after `stepsMax` steps; what a step throws.
   */
  run(isDone: () => boolean, stepsMax: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const next = (): void => {
        try {
          if (isDone() || !this.#step(stepsMax)) resolve();
          else systemClock.setImmediate(next);
        } catch (error) {
          reject(error);
        }
      };
      systemClock.setImmediate(next);
    });
  }

  /** False: nothing is due. */
  #step(stepsMax: number): boolean {
    let due = pop(this.#due);
    while (due?.isCancelled) due = pop(this.#due);
    if (due === undefined) return false;
    if (this.steps >= stepsMax) throw new EndlessRun(`no rest after ${stepsMax} steps`);
    this.steps += 1;
    this.#nowMs = Math.max(this.#nowMs, due.atMs);
    this.fingerprint.add(Math.round(this.#nowMs * 1e6));
    due.run();
    return true;
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
