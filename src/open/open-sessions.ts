// SPDX-License-Identifier: MIT
// The sessions of this thread with other processes, for people who look into the process.
import type { Session } from '../rpc/session/session.ts';
import { SessionSums, type TotalStats } from '../rpc/session/session-sums.ts';
import { traceSession } from './session-trace.ts';

const open = new Map<number, Session>();
const sums = new SessionSums();

/** Adds a session, until it is over. */
export function addOpenSession(session: Session): void {
  open.set(session.id, session);
  sums.add(session);
  void session.closed.then(() => open.delete(session.id));
  traceSession(session);
}

/** The numbers of the sessions that are not over, in the order in which they were opened. */
export function openSessionIds(): readonly number[] {
  return [...open.keys()];
}

/**
 * The numbers of all sessions of this thread with other processes, those that are over included.
 * @example
 * ```ts
 * import { totalStats } from 'sidecall';
 *
 * const { sessions, messages } = totalStats();
 * console.log(sessions.open, messages.sent.bytes);
 * ```
 */
export function totalStats(): TotalStats {
  return sums.stats();
}

/** undefined: the session is over. */
export function openSession(id: number): Session | undefined {
  return open.get(id);
}
