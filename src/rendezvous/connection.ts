// SPDX-License-Identifier: MIT
// A connection to the listener at a path that is made again when it is lost.
import { systemClock } from '../base/clock.ts';
import type { SidecallError } from '../base/errors.ts';
import { quiet } from '../base/ignore-errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { checkInteger, checkKeys } from '../base/misuse.ts';
import { LastingPeer } from '../lasting/lasting-peer.ts';
import type { Registry } from '../rpc/serving/registry.ts';
import type { Session } from '../rpc/session/session.ts';
import type { SessionSums } from '../rpc/session/session-sums.ts';
import type { ConnectionState } from './connection-state.ts';
import type { Reconnector } from './reconnector.ts';

/**
 * The listener at a path, whichever process that is: each session that is lost is followed by
 * another one, authenticated as the first. Calls under way settle with the truth (`delivered`), new
 * ones wait for the next session until their deadlines.
 */
export class Connection extends LastingPeer<ConnectionState> {
  /**
   * Resolves (never rejects) when no session follows any more: undefined after {@link
   * Connection.close}, else why the connection was given up.
   */
  readonly closed: Promise<SidecallError | undefined>;
  readonly #reconnector: Reconnector;
  readonly #registry: Registry;
  #closing: Promise<void> | undefined;

  /** @internal Use `connect()`. */
  constructor(reconnector: Reconnector, registry: Registry, sums: SessionSums) {
    super({ target: reconnector.target, registry, states: reconnector.states, sums });
    this.#reconnector = reconnector;
    this.#registry = registry;
    this.closed = reconnector.ended;
  }

  /** The session of now, or the last one. */
  get session(): Session {
    return this.#reconnector.current;
  }

  /**
   * Opens no session any more, and closes those that are open in order. Resolves when they are
   * over. A second call has no further effect.
   * @param options.deadlineMs for calls in flight: default 5,000; 0 to 600,000.
   */
  close(options: { readonly deadlineMs?: number | undefined } = {}): Promise<void> {
    return quiet(this.#checkAndClose(options));
  }

  /** The connection keeps this process alive (the default), also while it is being made again. */
  ref(): void {
    this.#reconnector.setReferenced(true);
  }

  /** The connection alone does not keep this process alive. */
  unref(): void {
    this.#reconnector.setReferenced(false);
  }

  async #checkAndClose(options: { readonly deadlineMs?: number | undefined }): Promise<void> {
    checkKeys('close()', options, ['deadlineMs']);
    const deadlineMs = checkInteger('deadlineMs', options.deadlineMs, ranges.closeDeadlineMs);
    this.#closing ??= this.#close(deadlineMs);
    await this.#closing;
  }

  async #close(deadlineMs: number): Promise<void> {
    const sessions = await this.#reconnector.stop();
    await this.#registry.shutDown(systemClock);
    await Promise.all(sessions.map((session) => session.close({ deadlineMs })));
    this.#reconnector.onClosed();
  }
}
