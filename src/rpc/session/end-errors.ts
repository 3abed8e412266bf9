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

/**
 * The error of calls that did not settle within the deadline of `close()`. `isFollowed`: another
 * session is there to make them again.
 */
export function cutOff(deadlineMs: number, isFollowed: boolean): SidecallError {
  if (isFollowed) {
    const text = `the process was replaced; this call did not settle within its deadline of ${deadlineMs} ms`;
    return new SidecallError('ERR_SIDECALL_GOING_AWAY', text, { delivered: 'unknown' });
  }
  const text = `the session was closed; this call did not settle within its deadline of ${deadlineMs} ms`;
  return new SidecallError('ERR_SIDECALL_CLOSED', text, { delivered: 'unknown' });
}

/** The session was ended by `close()`: it has not failed. */
export function isOwnEnd({ code }: SidecallError): boolean {
  return code === 'ERR_SIDECALL_CLOSED' || code === 'ERR_SIDECALL_GOING_AWAY';
}

/**
 * The end of a session whose peer did not take the last frames within the deadline of `close()`.
 */
export function unsent(deadlineMs: number): SidecallError {
  const text = `the session was closed; the peer did not take the last frames within its deadline of ${deadlineMs} ms`;
  return new SidecallError('ERR_SIDECALL_CLOSED', text);
}

/**
 * Why a session ends with its connection. Final, unless the exit of the peer's process may still
 * be told.
 */
export function endOf(
  error: SidecallError | undefined,
  exit: SidecallError | undefined,
  peer: Peer,
): { readonly reason: SidecallError; readonly isFinal: boolean } {
  const isGone = error === undefined || error.code === 'ERR_SIDECALL_PEER_GONE';
  if (!isGone) return { reason: error, isFinal: true };
  return { reason: exit ?? error ?? peerGone(peer), isFinal: exit !== undefined };
}

/** The end of the connection without goaway; the process is named where it is known. */
function peerGone({ pid, pidIsHint, capturedAt }: Peer): SidecallError {
  const isKnown = pid !== undefined && pid !== 0 && !pidIsHint; // 0: another pid namespace
  // The process that called listen() need not be the one that has accepted.
  const named = !isKnown
    ? ''
    : capturedAt === 'listen'
      ? ` (listener of pid ${pid})`
      : ` (pid ${pid})`;
  return new SidecallError('ERR_SIDECALL_PEER_GONE', `the peer's end closed${named}`);
}
