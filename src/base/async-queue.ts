// SPDX-License-Identifier: MIT
// Sessions, or plain connections, that wait for whoever iterates; bounded by the limit of their
// listener.

/** A connection that a listener lets in. */
export class AsyncQueue<G extends { onTaken?(): void }> {
  #waiting: G[] = [];
  readonly #readers: ((next: IteratorResult<G, undefined>) => void)[] = [];
  #isEnded = false;
  #hasReader = false;

  /** An iteration has begun. */
  get hasReader(): boolean {
    return this.#hasReader;
  }

  push(guest: G): void {
    const reader = this.#readers.shift();
    if (reader !== undefined) {
      guest.onTaken?.();
      reader({ done: false, value: guest });
    } else this.#waiting.push(guest);
  }

  /** A guest that left before anybody took it. */
  remove(guest: G): void {
    this.#waiting = this.#waiting.filter((one) => one !== guest);
  }

  clear(): void {
    this.#waiting = [];
  }

  end(): void {
    this.#isEnded = true;
    this.clear();
    for (const reader of this.#readers.splice(0)) reader({ done: true, value: undefined });
  }

  reader(): AsyncIterator<G, undefined> {
    this.#hasReader = true;
    return {
      next: () =>
        new Promise<IteratorResult<G, undefined>>((resolve) => {
          const guest = this.#waiting.shift();
          if (guest !== undefined) {
            guest.onTaken?.();
            resolve({ done: false, value: guest });
          } else if (this.#isEnded) resolve({ done: true, value: undefined });
          else this.#readers.push(resolve);
        }),
      return: async () => ({ done: true, value: undefined }),
    };
  }
}
