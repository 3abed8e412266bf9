// SPDX-License-Identifier: MIT
// Hellos that wait for bytes. One poll(2) looks at all that are due, and each process has its turn, so that a
// thousand connections of one process do not delay the single one of another.
import { clearTimeout, nowMs, setImmediate, setTimeout } from '../clock.ts';
import type { NativeAddon } from '../native.ts';

// A wait is looked at in each turn of the loop for 2 ms, then after 1, 2, 4 … 32 ms.
const immediateMs = 2;
const firstDelayMs = 1;
const lastDelayMs = 32;
/** Waits that end in one turn of the loop: each may begin a session, which takes about 0.1 ms. */
const endsMax = 4;

/** One wait for bytes. */
export interface ReadableWait {
  readonly fd: number;
  readonly owner: number;
  readonly since: number;
  readonly endAt: number;
  delayMs: number;
  dueAt: number;
  readonly onEnd: () => void;
}

/** The waits of one thread. */
export class ReadableWaits {
  readonly #native: Pick<NativeAddon, 'markReadable'>;
  readonly #waits = new Set<ReadableWait>();
  #descriptors = new Int32Array(64);
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Instant at which the timer ends; -Infinity while the next turn looks. */
  #nextLook = Number.POSITIVE_INFINITY;

  constructor(native: Pick<NativeAddon, 'markReadable'>) {
    this.#native = native;
  }

  /**
   * Calls `onEnd` once a receive would not wait, at the instant `endAt`, or when the wait is ended. `owner`: the process
   * at the other end, by `ownerOf()`.
   */
  wait(fd: number, owner: number, endAt: number, onEnd: () => void): ReadableWait {
    const since = nowMs();
    const wait = { fd, owner, since, endAt, delayMs: firstDelayMs, dueAt: since, onEnd };
    this.#waits.add(wait);
    this.#lookAt(since, since);
    return wait;
  }

  /** Twice is once. */
  end(wait: ReadableWait): void {
    if (!this.#waits.delete(wait)) return;
    wait.onEnd();
    if (this.#waits.size > 0) return;
    clearTimeout(this.#timer);
    if (this.#nextLook !== Number.NEGATIVE_INFINITY) this.#nextLook = Number.POSITIVE_INFINITY;
  }

  /** Has the next look happen at the instant `at` or before. */
  #lookAt(at: number, now: number): void {
    if (at >= this.#nextLook) return;
    clearTimeout(this.#timer);
    if (at <= now) {
      this.#nextLook = Number.NEGATIVE_INFINITY;
      setImmediate(this.#look);
    } else {
      this.#nextLook = at;
      this.#timer = setTimeout(this.#look, at - now);
    }
  }

  readonly #look = (): void => {
    this.#nextLook = Number.POSITIVE_INFINITY;
    const now = nowMs();
    const due = this.#due(now);
    this.#mark(due);
    const readable = new Map<number, ReadableWait[]>();
    for (let at = 0; at < due.length; at += 1) {
      const wait = due[at] as ReadableWait;
      if (this.#descriptors[at] === 0 && now < wait.endAt) delay(wait, now);
      else {
        const ofOwner = readable.get(wait.owner);
        if (ofOwner === undefined) readable.set(wait.owner, [wait]);
        else ofOwner.push(wait);
      }
    }
    for (const wait of inTurns(readable, endsMax)) this.end(wait);
    let next = Number.POSITIVE_INFINITY;
    for (const { dueAt } of this.#waits) next = Math.min(next, dueAt);
    this.#lookAt(next, now);
  };

  /** Where the kernel has no memory to look, each receive finds out itself. */
  #mark(due: readonly ReadableWait[]): void {
    for (let at = 0; at < due.length; at += 1) this.#descriptors[at] = (due[at] as ReadableWait).fd;
    try {
      this.#native.markReadable(this.#descriptors, due.length);
    } catch {
      this.#descriptors.fill(1);
    }
  }

  #due(now: number): ReadableWait[] {
    const due: ReadableWait[] = [];
    for (const wait of this.#waits) if (wait.dueAt <= now) due.push(wait);
    if (due.length > this.#descriptors.length) this.#descriptors = new Int32Array(2 * due.length);
    return due;
  }
}

function delay(wait: ReadableWait, now: number): void {
  if (now - wait.since < immediateMs) return;
  wait.dueAt = Math.min(now + wait.delayMs, wait.endAt);
  wait.delayMs = Math.min(lastDelayMs, 2 * wait.delayMs);
}

/** The first of each owner, then the second of each, and so on, up to `max`. */
function inTurns(
  readable: ReadonlyMap<number, readonly ReadableWait[]>,
  max: number,
): ReadableWait[] {
  const taken: ReadableWait[] = [];
  for (let round = 0; taken.length < max; round += 1) {
    const before = taken.length;
    for (const waits of readable.values()) {
      const wait = waits[round];
      if (wait !== undefined && taken.length < max) taken.push(wait);
    }
    if (taken.length === before) break;
  }
  return taken;
}

let ofThread: ReadableWaits | undefined;

/** The waits of this thread. */
export function readableWaits(native: NativeAddon): ReadableWaits {
  ofThread ??= new ReadableWaits(native);
  return ofThread;
}
