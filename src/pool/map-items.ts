// SPDX-License-Identifier: MIT
// The results of one call for each of many items, with a bound on calls and on results that wait.
import { onAbortOf } from '../base/abort-listeners.ts';
import { ignore } from '../base/ignore-errors.ts';
import { iteratorOf } from '../base/iterable.ts';
import { checkSignal } from '../base/misuse.ts';

/** Makes the call of one item. */
export type MapItem<T, R> = (item: T, options: { readonly signal: AbortSignal }) => Promise<R>;

/** Checked options of `pool.map()`. */
export interface MapSettings {
  readonly concurrency: number;
  readonly isOrdered: boolean;
  readonly signal: AbortSignal | undefined;
}

/** Results that wait to be taken, and calls under way, as a multiple of the calls under way. */
const windowFactor = 4;

interface Slot<R> {
  readonly result?: R;
  isDone: boolean;
}

/**
 * Takes an item when a call may be made for it. A call that fails ends the iteration, and aborts
 * the others; so does leaving the loop.
 */
export async function* mapItems<T, R>(
  items: Iterable<T> | AsyncIterable<T>,
  run: MapItem<T, R>,
  settings: MapSettings,
): AsyncGenerator<R, undefined> {
  const stopped = new AbortController();
  const given = checkSignal(settings.signal);
  const mapped = new MappedItems(items, run, settings, stopped.signal);
  const forget = onAbortOf(given, (reason) => {
    stopped.abort(reason);
    mapped.onChange();
  });
  try {
    for (;;) {
      given?.throwIfAborted();
      const slot = mapped.take();
      if (slot !== undefined) yield slot.result as R;
      else if (mapped.isOver) return undefined;
      else await mapped.change();
    }
  } finally {
    forget();
    stopped.abort();
    mapped.stop();
  }
}

/** The items that were taken and whose results were not. */
class MappedItems<T, R> {
  readonly #source: Iterator<unknown> | AsyncIterator<unknown>;
  readonly #run: MapItem<T, R>;
  readonly #settings: MapSettings;
  readonly #signal: AbortSignal;
  readonly #slots: Slot<R>[] = [];
  #running = 0;
  #isReading = false;
  // The items have ended, or failed.
  #isRead = false;
  #isStopped = false;
  #failure: { readonly error: unknown } | undefined;
  #wake: () => void = ignore;

  constructor(
    items: Iterable<T> | AsyncIterable<T>,
    run: MapItem<T, R>,
    settings: MapSettings,
    signal: AbortSignal,
  ) {
    this.#source = iteratorOf(items);
    this.#run = run;
    this.#settings = settings;
    this.#signal = signal;
    void this.#read();
  }

  /** Every result was taken. */
  get isOver(): boolean {
    return this.#isRead && this.#slots.length === 0;
  }

  /**
   * The next result; undefined: it is not there yet.
   * @throws the error of a call, or of the items.
   */
  take(): Slot<R> | undefined {
    if (this.#failure !== undefined) throw this.#failure.error;
    const at = this.#settings.isOrdered ? 0 : this.#slots.findIndex(({ isDone }) => isDone);
    const slot = this.#slots[at];
    if (slot?.isDone !== true) return undefined;
    this.#slots.splice(at, 1);
    void this.#read();
    return slot;
  }

  /** Resolves when a result has come, or the items have ended. */
  change(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  onChange(): void {
    this.#wake();
  }

  /** Takes no further item. */
  stop(): void {
    this.#isStopped = true;
    if (!this.#isRead) void this.#leaveItems();
  }

  async #leaveItems(): Promise<void> {
    try {
      await this.#source.return?.();
    } catch {
      // The loop was left: an error of the items has no reader.
    }
  }

  get #hasRoom(): boolean {
    if (this.#isRead || this.#isStopped || this.#failure !== undefined) return false;
    const { concurrency } = this.#settings;
    return this.#running < concurrency && this.#slots.length < concurrency * windowFactor;
  }

  /** Takes items, one at a time, while there is room. */
  async #read(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      while (this.#hasRoom) {
        const step = await this.#source.next();
        if (step.done === true) this.#isRead = true;
        else if (!this.#isStopped && this.#failure === undefined) void this.#call(step.value as T);
      }
    } catch (error) {
      this.#isRead = true;
      this.#failure ??= { error };
    }
    this.#isReading = false;
    this.onChange();
  }

  async #call(item: T): Promise<void> {
    const slot: { result?: R; isDone: boolean } = { isDone: false };
    this.#slots.push(slot);
    this.#running += 1;
    try {
      slot.result = await this.#run(item, { signal: this.#signal });
      slot.isDone = true;
    } catch (error) {
      this.#failure ??= { error };
    }
    this.#running -= 1;
    this.onChange();
    void this.#read();
  }
}
