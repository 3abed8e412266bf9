// SPDX-License-Identifier: MIT
// What the two halves of a session share: its transport, limits, windows, and the way to report.
import { SidecallError } from '../errors.ts';
import type { OnEvent } from '../events.ts';
import type { SessionLimits } from '../limits.ts';
import type { Peer } from '../peer.ts';
import type { Transport } from '../transport.ts';
import type { Blocked } from './blocked.ts';
import { chargeOf, type ReceiveCredit, type SendCredit } from './credit.ts';
import type { Block } from './lease.ts';
import type { Schedule, SendingStream } from './schedule.ts';

/** What the peer announced of itself in the hello. */
export type RemoteLimits = Pick<
  SessionLimits,
  'receiveMaxBytes' | 'metadataMaxBytes' | 'streamsMax' | 'streamWindowBytes'
>;

/** Shared by the calling and the serving half of one session. */
export interface Link {
  readonly transport: Transport;
  readonly schedule: Schedule;
  readonly own: SessionLimits;
  readonly remote: RemoteLimits;
  /** Windows of the session, by `Window`. */
  readonly sendCredit: readonly SendCredit[];
  readonly receiveCredit: readonly ReceiveCredit[];
  /** Senders of streams that wait for the session: for its window, or room in its queue. */
  readonly blocked: Blocked;
  /** Metadata that may be sent: what the peer takes, and what fits into one frame. */
  readonly metadataMaxBytes: number;
  readonly peer: Peer;
  readonly onEvent: OnEvent | undefined;
  /** Memory for one message, to be filled in place. @throws as `Session.allocate`. */
  allocate(bytes: number): Block;
  /** Gives back to a window of the session; batched. */
  giveBack(window: number, charge: number): void;
  /** Forgets what is queued for a stream that is over. */
  dropQueued(stream: SendingStream): void;
  /** Ends the session because of what the peer did. */
  fail(error: SidecallError): void;
  /** A call ended: others may start, and a session that drains may be done. */
  onCallEnded(): void;
}

/**
 * Counts a message that has begun to arrive: before memory is taken for it. Returns its charge.
 * @throws {SidecallError} `FRAME_TOO_LARGE`, or `PROTOCOL` where the peer had no credit left.
 */
export function takeMessage(link: Link, window: number, messageBytes: number): number {
  const max = link.own.receiveMaxBytes;
  if (messageBytes > max) {
    const words = `the peer announced a message of ${messageBytes} bytes; receiveMaxBytes is ${max}`;
    throw new SidecallError('ERR_SIDECALL_FRAME_TOO_LARGE', words);
  }
  const charge = chargeOf(messageBytes);
  const credit = link.receiveCredit[window] as ReceiveCredit;
  credit.take(charge);
  // What is owed may be all that the peer could still send: whoever holds this message may hold it for ever.
  if (credit.isDue) link.giveBack(window, 0);
  return charge;
}
