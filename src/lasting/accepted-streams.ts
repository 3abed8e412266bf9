// SPDX-License-Identifier: MIT
// Channels and byte streams that one peer after another opens, as one iteration.
import { rejected } from '../base/ignore-errors.ts';
import type { Accepted } from '../rpc/channels/channel.ts';
import type { Session } from '../rpc/session/session.ts';
import type { LastingState } from './followed-state.ts';

type Step<T> = IteratorResult<T, undefined>;

/** The states that say which session is open. */
interface SessionStates {
  readonly latest: LastingState;
  follow(): AsyncIterableIterator<LastingState, undefined>;
}

/** Sessions whose channels are kept: the present one, and the one before it. */
const sourcesMax = 2;

/**
 * Channels or byte streams of sessions that follow each other. Each session accepts them from its
 * beginning on, also while the loop works on an earlier one. It ends at the final state, or when
 * the loop is left.
 */
export class LastingAccepted<T> implements AsyncIterableIterator<T, undefined>, AsyncDisposable {
  readonly #accept: (session: Session) => Accepted<T>;
  readonly #states: AsyncIterableIterator<LastingState, undefined>;
  /** Of sessions that have channels left, or may get some; the first one is read. */
  readonly #sources: Accepted<T>[] = [];
  #session: Session | undefined;
  #failure: { readonly error: unknown } | undefined;
  #isOver = false;
  #wake: (() => void) | undefined;
  // Calls of `next()` run one at a time, in their order.
  #turn: Promise<unknown> = Promise.resolve();

  /** `accept`: begins to accept on a session, which throws for misuse. */
  constructor(states: SessionStates, accept: (session: Session) => Accepted<T>) {
    this.#accept = accept;
    this.#states = states.follow();
    const { session } = states.latest;
    if (session !== undefined) this.#add(session);
    void this.#follow();
  }

  next(): Promise<Step<T>> {
    const step = this.#turn.then(() => this.#next());
    this.#turn = step.catch(() => undefined);
    return step;
  }

  async return(): Promise<Step<T>> {
    await this.#states.return?.();
    for (const source of this.#sources) await source.return?.();
    this.#end();
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

  async #follow(): Promise<void> {
    try {
      for await (const { session } of this.#states) {
        const isNew = session !== undefined && session !== this.#session;
        if (isNew && session.state === 'open') this.#add(session);
      }
    } catch (error) {
      this.#failure = { error }; // a name that the session accepts already
    }
    this.#end();
  }

  #add(session: Session): void {
    this.#session = session;
    this.#sources.push(this.#accept(session));
    if (this.#sources.length > sourcesMax) void this.#sources.shift()?.return?.();
    this.#wake?.();
  }

  #end(): void {
    this.#isOver = true;
    this.#wake?.();
  }

  async #next(): Promise<Step<T>> {
    for (;;) {
      const [source] = this.#sources;
      if (source !== undefined) {
        const step = await source.next();
        if (step.done !== true) return step;
        if (this.#sources[0] === source) this.#sources.shift();
        continue;
      }
      if (this.#failure !== undefined) throw this.#failure.error;
      if (this.#isOver) return { done: true, value: undefined };
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
