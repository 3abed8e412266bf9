// SPDX-License-Identifier: MIT
// A queue.

/** A queue whose both ends cost the same at any length; `Array.shift` does not. */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  peek(): T | undefined {
    return this.#items[this.#head];
  }

  push(item: T): void {
    this.#items.push(item);
  }

  shift(): T | undefined {
    if (this.#head === this.#items.length) return undefined;
    const item = this.#items[this.#head];
    this.#items[this.#head] = undefined;
    this.#head += 1;
    if (this.#head === this.#items.length) {
      this.#items.length = 0;
      this.#head = 0;
    } else if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  /** Takes one item out of the middle. True: it was there. */
  remove(item: T): boolean {
    return this.#removeAt(this.#items.indexOf(item, this.#head));
  }

  /** Takes the first item out for which `is` holds. True: there was one. */
  removeWhere(is: (item: T) => boolean): boolean {
    return this.#removeAt(this.#items.findIndex((item, at) => at >= this.#head && is(item as T)));
  }

  #removeAt(at: number): boolean {
    if (at === -1) return false;
    this.#items.splice(at, 1);
    return true;
  }

  /** A copy of the items, or of the first `max` of them, the first one first. */
  items(max = Number.POSITIVE_INFINITY): readonly T[] {
    return this.#items.slice(this.#head, this.#head + max) as T[];
  }

  clear(): void {
    this.#items = [];
    this.#head = 0;
  }
}
