// SPDX-License-Identifier: MIT
// The target of calls whose sessions follow each other, one at a time.
import type { SidecallError } from '../base/errors.ts';
import type { Session } from '../rpc/session/session.ts';
import { WaitingTarget } from './waiting-target.ts';

/** Makes calls on the session of now. Its owner says which that is. */
export class LastingTarget extends WaitingTarget {
  #session: Session | undefined;
  #isLast = false;

  /** The session that takes a call at once; undefined: calls wait, or fail. */
  get session(): Session | undefined {
    const session = this.#session;
    return this.#isLast || session?.state === 'open' ? session : undefined;
  }

  /**
   * From now on calls are made on this session, those that wait first. `isLast`: no other session
   * follows, so that calls fail with the reason of its end.
   */
  set(session: Session, isLast = false): void {
    if (this.final !== undefined) return;
    this.#session = session;
    this.#isLast = isLast;
    this.beginWaiting();
  }

  /** From now on calls wait for the next session. */
  clear(): void {
    this.#session = undefined;
    this.#isLast = false;
  }

  override end(error: SidecallError): void {
    this.clear();
    super.end(error);
  }

  protected pick(): Session | undefined {
    return this.session;
  }

  protected isLeft(session: Session): boolean {
    return this.session !== session;
  }
}
