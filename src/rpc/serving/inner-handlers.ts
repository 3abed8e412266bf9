// SPDX-License-Identifier: MIT
// The handlers of one call behind interceptors. An interceptor may answer before they have settled,
// and they read the request until then.

/** The function of a context that notes a handler behind interceptors. */
export const holdsRequest: unique symbol = Symbol('sidecall.holdsRequest');

/** A context of a call, whose request its handlers read. */
export interface RequestHolder {
  /** @internal */
  [holdsRequest](handler: Promise<unknown>): void;
}

export class InnerHandlers {
  #running = 0;
  #waiting: (() => void)[] = [];

  /** True: one of them has not settled. */
  get isRunning(): boolean {
    return this.#running > 0;
  }

  /** Counts a handler that runs. */
  add(handler: Promise<unknown>): void {
    this.#running += 1;
    const onSettled = (): void => this.#onSettled();
    handler.then(onSettled, onSettled);
  }

  /** Calls `then` once all of them have settled. */
  whenSettled(then: () => void): void {
    this.#waiting.push(then);
  }

  #onSettled(): void {
    this.#running -= 1;
    if (this.#running > 0) return;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const then of waiting) then();
  }
}
