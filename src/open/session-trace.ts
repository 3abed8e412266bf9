// SPDX-License-Identifier: MIT
// The life of sessions on a diagnostics channel.
import { channel } from 'node:diagnostics_channel';
import type { SidecallError } from '../base/errors.ts';
import type { Session } from '../rpc/session/session.ts';

/** A session that begins or ends, as subscribers of the channel `sidecall:session` get it. */
export interface TracedSession {
  readonly type: 'opened' | 'closed';
  readonly session: Session;
  /** The reason of an end that was not an orderly close; undefined: there is none. */
  readonly error: SidecallError | undefined;
}

const sessions = channel('sidecall:session');

/** Tells subscribers that the session has begun, and when it ends. */
export function traceSession(session: Session): void {
  tell({ type: 'opened', session, error: undefined });
  void session.closed.then((error) => tell({ type: 'closed', session, error }));
}

function tell(message: TracedSession): void {
  if (sessions.hasSubscribers) sessions.publish(message);
}
