// SPDX-License-Identifier: MIT
// A listener without a protocol of ours, as its users see it.
import type { PathAcceptor } from './accept.ts';
import type { AcceptedConnection } from './accepted-connection.ts';

/** A path that is listened on. Iterate it for its connections. */
export class ConnectionListener<A extends AcceptedConnection, C>
  implements AsyncIterable<C>, AsyncDisposable
{
  /** Absolute path of the socket, for the process that shall connect. */
  readonly path: string;
  /** Resolves (never rejects) once {@link ConnectionListener.close} is done. */
  readonly closed: Promise<void>;
  readonly #acceptor: PathAcceptor<A>;
  readonly #connectionOf: (accepted: A) => C;

  /** @internal */
  constructor(acceptor: PathAcceptor<A>, connectionOf: (accepted: A) => C) {
    this.path = acceptor.path;
    this.closed = acceptor.closed;
    this.#acceptor = acceptor;
    this.#connectionOf = connectionOf;
  }

  /** Connections open at this moment. */
  protected get count(): number {
    return this.#acceptor.count;
  }

  /**
   * Connections in the order they were accepted, of which nothing was read. Until they are taken
   * they wait, counted by `sessionsMax`. Ends when the listener closes; leaving the loop does not
   * close it.
   */
  [Symbol.asyncIterator](): AsyncIterator<C, undefined> {
    const accepted = this.#acceptor.reader();
    const connectionOf = this.#connectionOf;
    return {
      async next() {
        const { done, value } = await accepted.next();
        return done === true
          ? { done, value: undefined }
          : { done: false, value: connectionOf(value) };
      },
      return: async () => ({ done: true, value: undefined }),
    };
  }

  /**
   * Stops listening, removes the socket file, ends all connections, and destroys those that the
   * other side has not ended by the deadline. A second call has no further effect.
   * @param options.deadlineMs default 5,000; 0 to 600,000.
   */
  close(options?: { readonly deadlineMs?: number | undefined }): Promise<void> {
    return this.#acceptor.close(options);
  }

  /** The listener keeps the process alive (the default). */
  ref(): void {
    this.#acceptor.ref();
  }

  /**
   * The listener alone does not keep the process alive. Its connections still do: `unref()` those,
   * too.
   */
  unref(): void {
    this.#acceptor.unref();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
