// SPDX-License-Identifier: MIT
// Hellos that wait for bytes. One poll(2) looks at all that are due. Those that have bytes go on in
// turns: one of each process, then the next of each, so that a thousand connections of one process
// do not delay the single one of another.

import type { NativeAddon } from '../addon/addon-api.ts';
import { systemClock, type Timer } from '../base/clock.ts';
import { Fifo } from '../base/fifo.ts';

// A hello is looked at in each turn of the loop for 2 ms, then after 1, 2, 4 … 32 ms.
const immediateMs = 2;
const firstDelayMs = 1;
const lastDelayMs = 32;
// Waits that end in one turn of the loop, per millisecond of its length. The work after a wait
// takes about 0.1 ms, so hellos take less than half of the time of the loop, and a loop that is
// slow for another reason makes no hello late.
const endsPerMs = 2;
const endsMax = 256;

/**
 * The pace at which a hello is checked for bytes: the slower the longer the whole receive takes,
 * also where a byte comes now and then.
 */
export interface Pace {
  /** Instant at which the receive began. */
  readonly since: number;
  delayMs: number;
}

export function newPace(): Pace {
  return { since: systemClock.nowMs(), delayMs: firstDelayMs };
}

/** A connection whose bytes are waited for, and what happens then. */
export interface ReadableOptions {
  readonly fd: number;
  /** The process at the other end, by `ownerOf()`. */
  readonly owner: number;
  readonly pace: Pace;
  /** Instant at which the wait ends anyway. */
  readonly endAt: number;
  /** True: the hello has not begun. Hellos that are under way go first. */
  readonly isFresh: boolean;
  /** Called once: a receive would not wait, the instant has come, or the wait was ended. */
  readonly onEnd: () => void;
}

/** A hello that waits for bytes. */
export class ReadableWait {
  readonly options: ReadableOptions;
  dueAt: number;
  isOver = false;

  constructor(options: ReadableOptions, dueAt: number) {
    this.options = options;
    this.dueAt = dueAt;
  }
}

/** Waits of one process that have bytes to receive. */
interface Turns {
  readonly begun: Fifo<ReadableWait>;
  readonly fresh: Fifo<ReadableWait>;
}

/** The waits of one thread. */
export class ReadableWaits {
  readonly #native: Pick<NativeAddon, 'markReadable'>;
  readonly #waiting = new Set<ReadableWait>();
  /** By process; the first is served next, and goes behind the others then. */
  readonly #readable = new Map<number, Turns>();
  #descriptors = new Int32Array(64);
  #timer: Timer | undefined;
  /** Instant of the next check; -Infinity where it is in the next turn of the loop. */
  #nextLook = Number.POSITIVE_INFINITY;
  #lastLook = 0;

  constructor(native: Pick<NativeAddon, 'markReadable'>) {
    this.#native = native;
  }

  wait(options: ReadableOptions): ReadableWait {
    const now = systemClock.nowMs();
    const wait = new ReadableWait(options, now);
    this.#waiting.add(wait);
    this.#lookAt(now, now);
    return wait;
  }

  /** Ends a wait; a second call does nothing. */
  end(wait: ReadableWait): void {
    if (wait.isOver) return;
    wait.isOver = true;
    this.#waiting.delete(wait);
    const isIdle = this.#waiting.size === 0 && this.#readable.size === 0;
    if (isIdle && this.#nextLook !== Number.NEGATIVE_INFINITY) {
      systemClock.clearTimeout(this.#timer);
      this.#nextLook = Number.POSITIVE_INFINITY;
    }
    wait.options.onEnd();
  }

  /** Has the next look happen at the instant `at` or before. */
  #lookAt(at: number, now: number): void {
    if (at >= this.#nextLook) return;
    systemClock.clearTimeout(this.#timer);
    if (at <= now) {
      this.#nextLook = Number.NEGATIVE_INFINITY;
      systemClock.setImmediate(this.#look);
    } else {
      this.#nextLook = at;
      this.#timer = systemClock.setTimeout(this.#look, at - now);
    }
  }

  readonly #look = (): void => {
    const now = systemClock.nowMs();
    const isNextTurn = this.#nextLook === Number.NEGATIVE_INFINITY;
    const sinceMs = isNextTurn ? now - this.#lastLook : 0;
    this.#nextLook = Number.POSITIVE_INFINITY;
    this.#lastLook = now;
    this.#sort(now);
    try {
      this.#endSome(Math.min(endsMax, endsPerMs * Math.max(1, Math.ceil(sinceMs))));
    } finally {
      this.#schedule(now);
    }
  };

  /** Moves those that have bytes, or whose time is over, to the turns of their process. */
  #sort(now: number): void {
    const due: ReadableWait[] = [];
    for (const wait of this.#waiting) if (wait.dueAt <= now) due.push(wait);
    if (due.length === 0) return;
    this.#mark(due);
    for (let at = 0; at < due.length; at += 1) {
      const wait = due[at] as ReadableWait;
      if (this.#descriptors[at] === 0 && now < wait.options.endAt) delay(wait, now);
      else {
        this.#waiting.delete(wait);
        this.#queue(wait);
      }
    }
  }

  /**
   * Marks the descriptors that have bytes; all of them where poll(2) fails, and
   * then each receive finds out.
   */
  #mark(due: readonly ReadableWait[]): void {
    if (due.length > this.#descriptors.length) this.#descriptors = new Int32Array(2 * due.length);
    for (let at = 0; at < due.length; at += 1) {
      this.#descriptors[at] = (due[at] as ReadableWait).options.fd;
    }
    try {
      const mayYield = this.#readable.size === 0; // none waits for its turn here
      this.#native.markReadable(this.#descriptors, due.length, mayYield);
    } catch {
      this.#descriptors.fill(1);
    }
  }

  #queue(wait: ReadableWait): void {
    const { owner, isFresh } = wait.options;
    let turns = this.#readable.get(owner);
    if (turns === undefined) {
      turns = { begun: new Fifo(), fresh: new Fifo() };
      this.#readable.set(owner, turns);
    }
    (isFresh ? turns.fresh : turns.begun).push(wait);
  }

  #endSome(count: number): void {
    for (let left = count; left > 0; ) {
      const [next] = this.#readable;
      if (next === undefined) return;
      const [owner, turns] = next;
      this.#readable.delete(owner);
      const wait = turns.begun.shift() ?? turns.fresh.shift();
      if (turns.begun.length + turns.fresh.length > 0) this.#readable.set(owner, turns);
      if (wait === undefined || wait.isOver) continue;
      left -= 1;
      this.end(wait);
    }
  }

  #schedule(now: number): void {
    if (this.#readable.size > 0) return this.#lookAt(now, now);
    let next = Number.POSITIVE_INFINITY;
    for (const { dueAt } of this.#waiting) next = Math.min(next, dueAt);
    this.#lookAt(next, now);
  }
}

function delay(wait: ReadableWait, now: number): void {
  const { pace, endAt } = wait.options;
  if (now - pace.since < immediateMs) return;
  wait.dueAt = Math.min(now + pace.delayMs, endAt);
  pace.delayMs = Math.min(lastDelayMs, 2 * pace.delayMs);
}

let ofThread: ReadableWaits | undefined;

/** The waits of this thread. */
export function readableWaits(native: NativeAddon): ReadableWaits {
  ofThread ??= new ReadableWaits(native);
  return ofThread;
}
