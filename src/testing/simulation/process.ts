// SPDX-License-Identifier: MIT
// A simulated process is an event loop with a clock of its own. The simulation can block, stop and
// end it.
import type { Clock, Timer } from '../../base/clock.ts';
import { EventLoop } from '../../loop/event-loop.ts';
import type { SeededRandom } from './seeded-random.ts';
import type { Due, World } from './world.ts';

/** Virtual milliseconds of a turn of the event loop, at most. */
const turnMaxMs = 0.05;

class SimulatedTimer implements Timer {
  due: Due | undefined;

  unref(): this {
    return this; // a simulation ends by its own rules
  }
}

export class SimulatedProcess implements Clock {
  readonly name: string;
  readonly world: World;
  readonly random: SeededRandom;
  readonly loop: EventLoop;
  #isDead = false;
  #busyUntilMs = 0;
  /** Things that are due, and wait because the process was stopped. */
  #stopped: (() => void)[] | undefined;
  readonly #ticks: (() => void)[] = [];
  readonly #atDeath: (() => void)[] = [];

  constructor(name: string, world: World) {
    this.name = name;
    this.world = world;
    this.random = world.random.fork();
    this.loop = new EventLoop(this);
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** Ends the process at once, as SIGKILL does: nothing of it runs any more. */
  kill(): void {
    if (this.#isDead) return;
    this.#isDead = true;
    for (const then of this.#atDeath.splice(0)) then();
  }

  /** Calls `then` when the process ends: the kernel closes what it held. */
  whenDead(then: () => void): void {
    this.#atDeath.push(then);
  }

  /** As SIGSTOP: nothing runs until {@link SimulatedProcess.resume}. */
  stop(): void {
    this.#stopped ??= [];
  }

  /** As SIGCONT. */
  resume(): void {
    const waiting = this.#stopped ?? [];
    this.#stopped = undefined;
    for (const run of waiting) this.#enter(run);
  }

  /** The event loop computes for `ms`: nothing else of the process runs meanwhile. */
  block(ms: number): void {
    this.#busyUntilMs = Math.max(this.#busyUntilMs, this.world.nowMs + ms);
  }

  /** Runs `run` in a turn of this process, `afterMs` from now at the earliest. */
  plan(afterMs: number, run: () => void): Due {
    return this.world.plan(afterMs, () => this.#enter(run));
  }

  nowMs(): number {
    return this.world.nowMs;
  }

  machineMs(): number {
    return Math.floor(this.world.nowMs + 1_000_000) >>> 0;
  }

  setTimeout<A extends unknown[]>(then: (...args: A) => void, ms: number, ...args: A): Timer {
    const timer = new SimulatedTimer();
    timer.due = this.plan(Math.max(1, ms), () => then(...args));
    return timer;
  }

  clearTimeout(timer: Timer | undefined): void {
    const due = (timer as SimulatedTimer | undefined)?.due;
    if (due !== undefined) due.isCancelled = true;
  }

  setImmediate<A extends unknown[]>(then: (...args: A) => void, ...args: A): void {
    this.plan(this.random.fraction() * turnMaxMs, () => then(...args));
  }

  nextTick<A extends unknown[]>(then: (...args: A) => void, ...args: A): void {
    this.#ticks.push(() => then(...args));
    if (this.#ticks.length > 1) return;
    // Behind the microtasks of this step, as in Node, unless the step itself ends before.
    queueMicrotask(() => queueMicrotask(() => this.#runTicks()));
  }

  #enter(run: () => void): void {
    if (this.#isDead) return;
    if (this.#stopped !== undefined) {
      this.#stopped.push(run);
      return;
    }
    const busyMs = this.#busyUntilMs - this.world.nowMs;
    if (busyMs > 0) {
      this.plan(busyMs, run);
      return;
    }
    run();
  }

  #runTicks(): void {
    for (const tick of this.#ticks.splice(0)) if (!this.#isDead) tick();
  }
}
