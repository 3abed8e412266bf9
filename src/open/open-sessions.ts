// SPDX-License-Identifier: MIT
// The sessions of this thread with other processes, for people who look into the process.
import type { Session } from '../rpc/session/session.ts';

const open = new Map<number, Session>();

/** Adds a session, until it is over. */
export function addOpenSession(session: Session): void {
  open.set(session.id, session);
  void session.closed.then(() => open.delete(session.id));
}

/** The numbers of the sessions that are not over, in the order in which they were opened. */
export function openSessionIds(): readonly number[] {
  return [...open.keys()];
}

/** undefined: the session is over. */
export function openSession(id: number): Session | undefined {
  return open.get(id);
}
