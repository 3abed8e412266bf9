// SPDX-License-Identifier: MIT
// The sessions of this thread with other processes, for people who look into the process.
import type { Session } from '../rpc/session/session.ts';

const open = new Set<Session>();

/** Adds a session, until it is over. */
export function addOpenSession(session: Session): void {
  open.add(session);
  void session.closed.then(() => open.delete(session));
}

/** The sessions that are not over, in the order in which they were opened. */
export function openSessions(): readonly Session[] {
  return [...open];
}
