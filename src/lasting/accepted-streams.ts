// SPDX-License-Identifier: MIT
// Channels and byte streams that one peer after another opens, as one iteration.
import { rejected } from '../base/ignore-errors.ts';
import type { Accepted, Session } from '../rpc/session/session.ts';
import type { LastingState } from './followed-state.ts';

type Step<T> = IteratorResult<T, undefined>;

/** The states that say which session is open. */
interface SessionStates {
  readonly latest: LastingState;
  follow(): AsyncIterableIterator<LastingState, undefined>;
}

/**
 * Channels or byte streams of sessions that follow each other. It ends at the final state, or when
 * the loop is left.
 */
export class LastingAccepted<T> implements AsyncIterableIterator<T, undefined>, AsyncDisposable {
  readonly #accept: (session: Session) => Accepted<T>;
  readonly #states: AsyncIterableIterator<LastingState, undefined>;
  #current: Accepted<T> | undefined;
  #isLeft = false;
  // Calls of `next()` run one at a time, in their order.
  #turn: Promise<unknown> = Promise.resolve();

  /** `accept`: begins to accept on a session, which throws for misuse. */
  constructor(states: SessionStates, accept: (session: Session) => Accepted<T>) {
    this.#accept = accept;
    this.#states = states.follow();
    const { session } = states.latest;
    if (session !== undefined) this.#current = accept(session);
  }

  next(): Promise<Step<T>> {
    const step = this.#turn.then(() => this.#next());
    this.#turn = step.catch(() => undefined);
    return step;
  }

  async return(): Promise<Step<T>> {
    this.#isLeft = true;
    await this.#states.return?.();
    await this.#current?.return?.();
    return { done: true, value: undefined };
  }

  throw(error: unknown): Promise<Step<T>> {
    void this.return();
    return rejected(error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  async #next(): Promise<Step<T>> {
    for (;;) {
      const step = await this.#current?.next();
      if (step !== undefined && step.done !== true) return step;
      this.#current = undefined;
      if (this.#isLeft) return { done: true, value: undefined };
      const changed = await this.#states.next();
      if (changed.done === true) return changed;
      const { session } = changed.value;
      // The state that was there at the beginning is told first, and its session may have ended
      // meanwhile.
      if (session?.state === 'open') this.#current = this.#accept(session);
    }
  }
}
