// SPDX-License-Identifier: MIT
// Errors that a session ends with, or refuses calls with while it ends.
import { SidecallError } from '../../base/errors.ts';
import type { Peer } from '../../base/peer.ts';

/**
 * The error of calls that a peer which says goaway no longer takes. It is new for each session,
 * since calls with retry count failures by it.
 */
export function drained(): SidecallError {
  return new SidecallError('ERR_SIDECALL_GOING_AWAY');
}

/** The end of the connection without goaway; the process is named where it is known. */
export function peerGone({ pid, pidIsHint }: Peer): SidecallError {
  const named = pid === undefined || pidIsHint ? '' : ` (pid ${pid})`;
  return new SidecallError('ERR_SIDECALL_PEER_GONE', `the peer's end closed${named}`);
}

/** The failure of a peer whose frames ask for answers that it does not read. */
export function unread(): SidecallError {
  const text = 'the peer makes us answer and does not read the answers';
  return new SidecallError('ERR_SIDECALL_LIMIT_BYTES', text, { delivered: 'unknown' });
}
