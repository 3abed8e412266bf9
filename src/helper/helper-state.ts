// SPDX-License-Identifier: MIT
// The states of a helper, to be iterated.
import type { SidecallError } from '../base/errors.ts';
import type { Session } from '../rpc/session/session.ts';
import type { HelperExit } from './helper-errors.ts';

/** The state of a helper. `restarts` counts the starts after the first, ever. */
export type HelperState =
  /** A process runs, and its session is open. */
  | {
      readonly state: 'running';
      readonly pid: number;
      readonly session: Session;
      readonly restarts: number;
    }
  /**
   * The session is over because of `error`. The process gets a moment to end by
   * itself, and is then killed.
   */
  | { readonly state: 'ending'; readonly error: SidecallError; readonly restarts: number }
  /**
   * The process ended, or did not start, for `error`; the next is started once `pauseMs` have
   * passed.
   */
  | {
      readonly state: 'restarting';
      readonly error: SidecallError;
      readonly pauseMs: number;
      readonly restarts: number;
    }
  /** `stop()` was called. */
  | { readonly state: 'stopping'; readonly restarts: number }
  /**
   * The helper has ended for good. `error`: it ended and is not restarted, or is a crash loop;
   * undefined where it was stopped.
   */
  | {
      readonly state: 'ended';
      readonly exit: HelperExit;
      readonly error: SidecallError | undefined;
      readonly restarts: number;
    };

/**
 * The present state and its followers. Holds nothing for a reader that is slow: it sees the
 * latest.
 */
export class HelperStates {
  #latest: HelperState;
  readonly #wakes = new Set<() => void>();

  constructor(first: HelperState) {
    this.#latest = first;
  }

  get latest(): HelperState {
    return this.#latest;
  }

  set(state: HelperState): void {
    this.#latest = state;
    for (const wake of [...this.#wakes]) wake();
  }

  follow(): AsyncIterableIterator<HelperState, undefined> {
    let told: HelperState | undefined;
    let isLeft = false;
    // Wake-ups of this reader: several `next()` may wait, and `return()` ends them all.
    const own = new Set<() => void>();
    const next = async (): Promise<IteratorResult<HelperState, undefined>> => {
      while (!isLeft && told === this.#latest && told.state !== 'ended') {
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
