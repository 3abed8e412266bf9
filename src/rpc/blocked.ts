// SPDX-License-Identifier: MIT
// Who waits for what all share. Each has a turn when something comes free; who is still stuck goes last.

/** Goes on sending when it may. */
export interface Resumable {
  resume(): void;
}

export class Blocked {
  readonly #waiting = new Set<Resumable>();

  add(waiting: Resumable): void {
    this.#waiting.add(waiting);
  }

  remove(waiting: Resumable): void {
    this.#waiting.delete(waiting);
  }

  /** Lets each go on once. */
  resume(): void {
    if (this.#waiting.size === 0) return;
    for (const waiting of [...this.#waiting]) {
      this.#waiting.delete(waiting);
      waiting.resume();
    }
  }
}
