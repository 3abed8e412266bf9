// SPDX-License-Identifier: MIT
// Sessions, or plain connections, that wait for their iterator; bounded by the limit of their
// listener.

/** Accepted connections in order, each for one call of `next()`. */
export class AsyncQueue<T extends { onTaken?(): void }> {
  readonly #waiting = new Set<T>();
  readonly #readers: ((next: IteratorResult<T, undefined>) => void)[] = [];
  #isEnded = false;
  #hasReader = false;

  /** An iteration has begun. */
  get hasReader(): boolean {
    return this.#hasReader;
  }

  push(item: T): void {
    const reader = this.#readers.shift();
    if (reader !== undefined) {
      item.onTaken?.();
      reader({ done: false, value: item });
    } else this.#waiting.add(item);
  }

  /** Removes an item that ended before it was taken. */
  remove(item: T): void {
    this.#waiting.delete(item);
  }

  clear(): void {
    this.#waiting.clear();
  }

  end(): void {
    this.clear();
    this.finish();
  }

  /** Ends behind the items that wait. */
  finish(): void {
    this.#isEnded = true;
    for (const reader of this.#readers.splice(0)) reader({ done: true, value: undefined });
  }

  reader(): AsyncIterator<T, undefined> {
    this.#hasReader = true;
    return {
      next: () =>
        new Promise<IteratorResult<T, undefined>>((resolve) => {
          const [item] = this.#waiting;
          if (item !== undefined) {
            this.#waiting.delete(item);
            item.onTaken?.();
            resolve({ done: false, value: item });
          } else if (this.#isEnded) resolve({ done: true, value: undefined });
          else this.#readers.push(resolve);
        }),
      return: async () => ({ done: true, value: undefined }),
    };
  }
}
