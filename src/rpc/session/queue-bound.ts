// SPDX-License-Identifier: MIT
// The bound of frames that a peer can make us queue by asking for answers that it does not read.
import { SidecallError } from '../../base/errors.ts';
import type { Caller } from '../calling/caller.ts';
import type { SessionShared } from '../sending/session-shared.ts';

/** Frames in the send queue up to which their cause is not checked. */
export const leastQueueMax = 4096;

/** The most that a correct peer can make us queue: by our limits and calls, not by its own. */
export function queueMax({ own }: SessionShared, { pending, waiting }: Caller): number {
  return 2 * own.streamsMax + (pending - waiting) + leastQueueMax;
}

/** The failure of a peer whose frames ask for answers that it does not read. */
export function unread(): SidecallError {
  const text = 'the peer makes us answer and does not read the answers';
  return new SidecallError('ERR_SIDECALL_LIMIT_BYTES', text, { delivered: 'unknown' });
}
