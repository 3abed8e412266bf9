// SPDX-License-Identifier: MIT
// The present state of something that changes, to be iterated.
import type { Session } from '../rpc/session/session.ts';

/** A state of something that outlives its sessions. */
export interface LastingState {
  readonly state: string;
  /** The session that is open in this state. */
  readonly session?: Session;
}

/**
 * The present state and its followers. Holds nothing for a reader that is slow: it sees the
 * latest.
 */
export class FollowedState<S extends LastingState> {
  readonly #isFinal: (state: S) => boolean;
  #latest: S;
  readonly #wakes = new Set<() => void>();

  /** `isFinal`: no other state follows this one. */
  constructor(first: S, isFinal: (state: S) => boolean) {
    this.#latest = first;
    this.#isFinal = isFinal;
  }

  get latest(): S {
    return this.#latest;
  }

  set(state: S): void {
    this.#latest = state;
    for (const wake of [...this.#wakes]) wake();
  }

  follow(): AsyncIterableIterator<S, undefined> {
    let told: S | undefined;
    let isLeft = false;
    // Wake-ups of this reader: several `next()` may wait, and `return()` ends them all.
    const own = new Set<() => void>();
    const isDone = (): boolean => told === this.#latest && this.#isFinal(told);
    const next = async (): Promise<IteratorResult<S, undefined>> => {
      while (!isLeft && told === this.#latest && !isDone()) {
        await new Promise<void>((resolve) => {
          const wake = (): void => {
            this.#wakes.delete(wake);
            own.delete(wake);
            resolve();
          };
          this.#wakes.add(wake);
          own.add(wake);
        });
      }
      if (isLeft || told === this.#latest) return { done: true, value: undefined };
      told = this.#latest;
      return { done: false, value: told };
    };
    return {
      next,
      return: async () => {
        isLeft = true;
        for (const wake of [...own]) wake();
        return { done: true, value: undefined };
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  }
}
