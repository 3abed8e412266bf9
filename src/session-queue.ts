// SPDX-License-Identifier: MIT
// Sessions that wait for whoever iterates; bounded by the session limit of their listener.
import type { Session } from './rpc/session.ts';

type Next = IteratorResult<Session, undefined>;

export class SessionQueue {
  #waiting: Session[] = [];
  readonly #readers: ((next: Next) => void)[] = [];
  #isEnded = false;
  #hasReader = false;

  /** Somebody iterates, or has. */
  get hasReader(): boolean {
    return this.#hasReader;
  }

  push(session: Session): void {
    const reader = this.#readers.shift();
    if (reader !== undefined) reader({ done: false, value: session });
    else this.#waiting.push(session);
  }

  /** A session that ended before anybody took it. */
  remove(session: Session): void {
    this.#waiting = this.#waiting.filter((one) => one !== session);
  }

  clear(): void {
    this.#waiting = [];
  }

  end(): void {
    this.#isEnded = true;
    this.clear();
    for (const reader of this.#readers.splice(0)) reader({ done: true, value: undefined });
  }

  reader(): AsyncIterator<Session, undefined> {
    this.#hasReader = true;
    return {
      next: () =>
        new Promise<Next>((resolve) => {
          const session = this.#waiting.shift();
          if (session !== undefined) resolve({ done: false, value: session });
          else if (this.#isEnded) resolve({ done: true, value: undefined });
          else this.#readers.push(resolve);
        }),
      return: async () => ({ done: true, value: undefined }),
    };
  }
}
