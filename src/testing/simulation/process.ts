// SPDX-License-Identifier: MIT
// A simulated process is an event loop with a clock of its own. The simulation can block, stop and
// end it.
import { type Clock, systemClock, type Timer } from '../../base/clock.ts';
import { EventLoop } from '../../loop/event-loop.ts';
import type { SeededRandom } from './seeded-random.ts';
import type { Due, World } from './world.ts';

/** Virtual milliseconds of a turn of the event loop, at most. */
const turnMaxMs = 0.05;
/** Virtual milliseconds between two callbacks of one turn that keep their order. */
const momentMs = 1e-6;
/** Less time than this is an error of rounding. */
const leastMs = 1e-9;
/** Virtual milliseconds that pass between two looks at the clock: handlers of different cost. */
const costsMs = [0, 0, 0.001, 0.02, 0.3];
/** Virtual milliseconds by which the timers of a process are late. */
const lagMaxMs = 0.1;
/** The machine's clock at the beginning: a process begins in the middle of its 32 bits. */
const machineBeginMs = 1_000_000;

class SimulatedTimer implements Timer {
  due: Due | undefined;
  isCancelled = false;

  // A simulation ends by its own rules.
  unref(): void {}
  ref(): void {}
}

export class SimulatedProcess implements Clock {
  readonly name: string;
  readonly pid: number;
  readonly world: World;
  readonly random: SeededRandom;
  readonly loop: EventLoop;
  /** Points passed: moments at which the process shows something to others. */
  points = 0;
  /** The point at which the process ends. */
  diesAtPoint = Number.POSITIVE_INFINITY;
  #isDead = false;
  #busyUntilMs = 0;
  readonly #costMs: number;
  #isObserved = false;
  readonly #lagMs: number;
  #lastImmediateMs = 0;
  /** Things that are due, and wait because the process was stopped. */
  #stopped: (() => void)[] | undefined;
  readonly #atDeath: (() => void)[] = [];
  #deadlines: object | undefined;

  constructor(name: string, world: World) {
    this.name = name;
    this.pid = world.nextPid();
    this.world = world;
    this.random = world.random.fork();
    this.#costMs = this.random.pick(costsMs);
    this.#lagMs = this.random.fraction() * lagMaxMs;
    this.loop = new EventLoop(this);
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  get deadlines(): object | undefined {
    return this.#deadlines;
  }

  set deadlines(deadlines: object | undefined) {
    if (!this.#isDead) this.#deadlines = deadlines;
  }

  /** Resolves in `ms` of virtual time; never in a process that is dead by then. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.setTimeout(resolve, ms));
  }

  /** Ends the process at once, as SIGKILL does: nothing of it runs any more. */
  kill(): void {
    if (this.#isDead) return;
    this.world.trace(this.name, 'killed');
    this.#isDead = true;
    this.#deadlines = undefined;
    for (const then of this.#atDeath.splice(0)) then();
  }

  /**
   * Calls `then` when the process ends, at once if it has: the kernel closes what it held.
   */
  whenDead(then: () => void): void {
    if (this.#isDead) then();
    else this.#atDeath.push(then);
  }

  /**
   * The process is about to show something to others: bytes, a record, a doorbell. False: it is
   * dead, or dies at this point, and nothing is shown.
   */
  point(): boolean {
    if (this.#isDead) return false;
    this.points += 1;
    if (this.points >= this.diesAtPoint) this.kill();
    return !this.#isDead;
  }

  /** As SIGSTOP: nothing runs until {@link SimulatedProcess.resume}. */
  stop(): void {
    if (this.#isDead) return;
    this.world.trace(this.name, 'stopped');
    this.#stopped ??= [];
  }

  /** As SIGCONT. */
  resume(): void {
    const waiting = this.#stopped ?? [];
    this.#stopped = undefined;
    if (!this.#isDead) this.world.trace(this.name, 'goes on');
    for (const [at, run] of waiting.entries()) this.plan(at * momentMs, run);
  }

  /** The event loop computes for `ms`: nothing else of the process runs meanwhile. */
  block(ms: number): void {
    this.world.trace(this.name, `computes for ${ms} ms`);
    this.#busyUntilMs = Math.max(this.#busyUntilMs, this.world.nowMs + ms);
  }

  /** Runs a check from outside: its looks at the clock take no time of the process. */
  observe<T>(check: () => T): T {
    this.#isObserved = true;
    try {
      return check();
    } finally {
      this.#isObserved = false;
    }
  }

  /** Runs `run` in a turn of this process, `afterMs` from now at the earliest. */
  plan(afterMs: number, run: () => void): Due {
    return this.world.plan(this.#aheadMs + afterMs, () => this.#enter(run));
  }

  nowMs(): number {
    const nowMs = this.world.nowMs + this.#aheadMs;
    if (this.#costMs > 0 && !this.#isObserved) this.#busyUntilMs = nowMs + this.#costMs;
    return nowMs;
  }

  machineMs(): number {
    return Math.floor(this.nowMs() + machineBeginMs) >>> 0;
  }

  setTimeout<A extends unknown[]>(then: (...args: A) => void, ms: number, ...args: A): Timer {
    const timer = new SimulatedTimer();
    timer.due = this.plan(Math.max(1, ms) + this.#lagMs, () => {
      if (!timer.isCancelled) then(...args);
    });
    return timer;
  }

  clearTimeout(timer: Timer | undefined): void {
    const { due } = (timer ?? {}) as Partial<SimulatedTimer>;
    if (due === undefined) return;
    (timer as SimulatedTimer).isCancelled = true; // it may wait for the process to go on
    due.isCancelled = true;
  }

  setImmediate<A extends unknown[]>(then: (...args: A) => void, ...args: A): void {
    // In the order of the calls, as in Node.
    const afterMs = this.random.fraction() * turnMaxMs;
    const earliestMs = this.#lastImmediateMs + momentMs - this.world.nowMs - this.#aheadMs;
    const due = this.plan(Math.max(afterMs, earliestMs), () => then(...args));
    this.#lastImmediateMs = due.atMs;
  }

  nextTick<A extends unknown[]>(then: (...args: A) => void, ...args: A): void {
    systemClock.nextTick(() => {
      if (!this.#isDead) then(...args);
    });
  }

  /** Virtual milliseconds by which this process is ahead: it has computed since the turn began. */
  get #aheadMs(): number {
    const aheadMs = this.#busyUntilMs - this.world.nowMs;
    return aheadMs < leastMs ? 0 : aheadMs;
  }

  #enter(run: () => void): void {
    if (this.#isDead) return;
    if (this.#stopped !== undefined) this.#stopped.push(run);
    else if (this.#aheadMs > 0) this.plan(0, run);
    else run();
  }
}
