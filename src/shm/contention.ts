// SPDX-License-Identifier: MIT
// Contention for the processor of this thread. While others want it, polling takes the time that
// the peer needs, and the scheduler runs a thread that has slept sooner than one that has polled.

/** Milliseconds between two looks at least: each takes some five microseconds. */
const lookMs = 4;
/** Milliseconds for which the thread was ready: fewer say nothing. */
const readyLeastMs = 0.3;
// Shares of the time that the thread was ready in which others ran: a little of it are the threads
// of the engine, and the wakes.
const contendedShare = 0.15;
const quietShare = 0.06;

/** Decides for one thread; instants in milliseconds, on any clock. */
export class Contention {
  readonly #read: (times: Float64Array) => void;
  readonly #times = new Float64Array(2);
  #ran = 0;
  #waited = 0;
  #lookAt = 0;
  /** Of the last looks. */
  #share = 0;
  #isContended = false;

  /** `read` puts the milliseconds for which the thread has run, and has waited for others. */
  constructor(read: (times: Float64Array) => void) {
    this.#read = read;
  }

  /** Others want the processor. Called wherever a ring could be polled. */
  isContended(now: number): boolean {
    if (now >= this.#lookAt) this.#look(now);
    return this.#isContended;
  }

  #look(now: number): void {
    this.#lookAt = now + lookMs;
    this.#read(this.#times);
    const [ran, waited] = this.#times as unknown as [number, number];
    const readyMs = ran - this.#ran + (waited - this.#waited);
    if (readyMs < readyLeastMs) return;
    this.#share = (this.#share + (waited - this.#waited) / readyMs) / 2;
    this.#ran = ran;
    this.#waited = waited;
    if (this.#share > contendedShare) this.#isContended = true;
    else if (this.#share < quietShare) this.#isContended = false;
  }
}

/** The contention of this thread; undefined: no ring has asked for it. */
let ofThread: Contention | undefined;

/** The contention for the processor of this thread. NOTE: `read` is kept, and holds no ring. */
export function threadContention(read: (times: Float64Array) => void): Contention {
  ofThread ??= new Contention(read);
  return ofThread;
}
