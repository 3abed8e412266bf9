// SPDX-License-Identifier: MIT
// Stream writers that wait for the session's window or for room in its queue. Each has a turn when
// something comes free; a writer that still cannot send goes last.

/** Goes on sending when it may. */
export interface Resumable {
  resume(): void;
}

export class WaitingWriters {
  readonly #waiting = new Set<Resumable>();

  add(waiting: Resumable): void {
    this.#waiting.add(waiting);
  }

  remove(waiting: Resumable): void {
    this.#waiting.delete(waiting);
  }

  /** Resumes each writer once, while `isLeft` returns true. */
  resume(isLeft: () => boolean): void {
    let left = this.#waiting.size; // a writer that waits again goes to the end
    for (const waiting of this.#waiting) {
      if (left === 0 || !isLeft()) return;
      left -= 1;
      this.#waiting.delete(waiting);
      waiting.resume();
    }
  }
}
