// SPDX-License-Identifier: MIT
// A queue.

/** Length up to which a search costs less than the index of a queue. */
const searchedMax = 16;

/**
 * A queue whose ends cost the same at any length, unlike those of an array, and its middle, too:
 * thousands of items may be taken out of it at once. An item is in it once.
 */
export class Fifo<T extends object> {
  // A removed item leaves undefined; `#head` is the index of the first item that is left.
  #items: (T | undefined)[] = [];
  #head = 0;
  /** Items that are left. Only the queue itself sets it: a field costs less than a getter. */
  length = 0;
  /** The index of each item, plus `#gone`; made by the first removal from a long queue. */
  #places: Map<T, number> | undefined;
  /** Elements that were cut off the front of `#items`. */
  #gone = 0;

  peek(): T | undefined {
    return this.#items[this.#head];
  }

  push(item: T): void {
    this.#places?.set(item, this.#gone + this.#items.length);
    this.#items.push(item);
    this.length += 1;
  }

  shift(): T | undefined {
    const item = this.#items[this.#head];
    if (item === undefined) return undefined;
    this.#takeOut(item, this.#head);
    return item;
  }

  /** Takes one item out, wherever it is. True: it was there. */
  remove(item: T): boolean {
    if (this.length === 0) return false;
    const at = this.#placeOf(item);
    if (at === -1) return false;
    this.#takeOut(item, at);
    return true;
  }

  /** Takes out the items for which `is` holds; in one walk. */
  removeAll(is: (item: T) => boolean): T[] {
    const removed: T[] = [];
    const left: T[] = [];
    for (const item of this.items()) (is(item) ? removed : left).push(item);
    if (removed.length > 0) {
      this.clear();
      for (const item of left) this.push(item);
    }
    return removed;
  }

  /** A copy of the items, or of the first `max` of them, the first one first. */
  items(max = this.length): readonly T[] {
    const items: T[] = [];
    for (let at = this.#head; at < this.#items.length && items.length < max; at += 1) {
      const item = this.#items[at];
      if (item !== undefined) items.push(item);
    }
    return items;
  }

  clear(): void {
    this.#items = [];
    this.#head = 0;
    this.length = 0;
    this.#places = undefined;
    this.#gone = 0;
  }

  #placeOf(item: T): number {
    if (this.#places === undefined) {
      if (this.#items.length - this.#head <= searchedMax) {
        return this.#items.indexOf(item, this.#head);
      }
      this.#places = new Map();
      for (const [at, each] of this.#items.entries()) {
        if (each !== undefined) this.#places.set(each, this.#gone + at);
      }
    }
    const place = this.#places.get(item);
    return place === undefined ? -1 : place - this.#gone;
  }

  #takeOut(item: T, at: number): void {
    this.#places?.delete(item);
    this.#items[at] = undefined;
    this.length -= 1;
    if (this.length === 0) {
      this.#items.length = 0;
      this.#head = 0;
      this.#places = undefined;
      this.#gone = 0;
      return;
    }
    while (this.#items[this.#head] === undefined) this.#head += 1;
    const unused = this.#items.length - this.length;
    if (unused > 1024 && unused > this.length) this.#closeUp();
  }

  /** Compacts the array: at least as many items were removed since as are moved. */
  #closeUp(): void {
    this.#gone += this.#head;
    this.#items = this.#items.slice(this.#head);
    this.#head = 0;
    if (this.#items.length === this.length) return;
    this.#items = this.#items.filter((item) => item !== undefined);
    if (this.#places === undefined) return;
    for (const [at, item] of this.#items.entries()) this.#places.set(item as T, this.#gone + at);
  }
}
