// Time that a test moves forward: a deadline passes when the test says so, and not because the
// machine is busy. Sessions, helpers and listeners of this process use the clock of the system,
// whose functions are replaced until the end of the scope.
import { systemClock, type Timer } from '../../src/base/clock.ts';

interface Pending {
  readonly then: (...args: unknown[]) => void;
  readonly args: readonly unknown[];
  readonly dueMs: number;
  /** Set where `advance()` has replaced the timer. */
  replacement: Timer | undefined;
}

export class SteeredClock implements Disposable {
  readonly #system = { ...systemClock };
  readonly #pending = new Map<Timer, Pending>();
  #aheadMs = 0;

  constructor() {
    const { nowMs, machineMs, clearTimeout } = this.#system;
    systemClock.nowMs = () => nowMs() + this.#aheadMs;
    systemClock.machineMs = () => (machineMs() + this.#aheadMs) >>> 0;
    systemClock.setTimeout = (then, ms, ...args) => {
      const dueMs = systemClock.nowMs() + ms;
      const pending = { then, args, dueMs, replacement: undefined } as unknown as Pending;
      const timer = this.#arm(pending, ms, () => this.#pending.delete(timer));
      this.#pending.set(timer, pending);
      return timer;
    };
    systemClock.clearTimeout = (timer) => {
      clearTimeout(timer);
      if (timer === undefined) return;
      clearTimeout(this.#pending.get(timer)?.replacement);
      this.#pending.delete(timer);
    };
  }

  /** Lets `ms` pass at once: timers that are due then fire from the event loop, in their order. */
  advance(ms: number): void {
    this.#aheadMs += ms;
    for (const [timer, pending] of this.#pending) {
      this.#system.clearTimeout(timer);
      this.#system.clearTimeout(pending.replacement);
      const leftMs = Math.max(0, pending.dueMs - systemClock.nowMs());
      pending.replacement = this.#arm(pending, leftMs, () => this.#pending.delete(timer));
    }
  }

  /** Lets `ms` pass; resolves when the timers that were due have fired. */
  async pass(ms: number): Promise<void> {
    this.advance(ms);
    // A timer of Node waits for a millisecond at least, and those of less time fire first.
    await new Promise((resolve) => setTimeout(resolve, 2));
  }

  #arm(pending: Pending, ms: number, onFired: () => void): Timer {
    return this.#system.setTimeout(() => {
      onFired();
      pending.then(...pending.args);
    }, ms);
  }

  [Symbol.dispose](): void {
    Object.assign(systemClock, this.#system);
  }
}
