// SPDX-License-Identifier: MIT
// The parts that both halves of a session share: transport, limits, windows, the way to report.

import { SidecallError } from '../../base/errors.ts';
import type { OnEvent } from '../../base/events.ts';
import type { SessionLimits } from '../../base/limits.ts';
import type { Peer } from '../../base/peer.ts';
import { wireLimits } from '../../base/wire-limits.ts';
import { FrameFlag, protocol } from '../../wire/frame-header.ts';
import type { Transport } from '../../wire/transport.ts';
import type { Block } from '../contract/leases.ts';
import type { Stalls } from '../stalls.ts';
import { chargeOf, type ReceiveCredit, type SendCredit, Window } from './credit.ts';
import type { SendingStream, SendQueue } from './send-queue.ts';
import type { WaitingWriters } from './waiting-writers.ts';

/** The limits that the peer announced in the hello. */
export type RemoteLimits = Pick<
  SessionLimits,
  'receiveMaxBytes' | 'metadataMaxBytes' | 'streamsMax' | 'streamWindowBytes'
>;

/** Shared by the calling and the serving half of one session. */
export interface SessionShared {
  readonly transport: Transport;
  readonly sendQueue: SendQueue;
  readonly own: SessionLimits;
  readonly remote: RemoteLimits;
  /** Windows of the session, by `Window`. */
  readonly sendCredit: readonly SendCredit[];
  readonly receiveCredit: readonly ReceiveCredit[];
  /** Senders of streams that wait for the session: for its window, or room in its queue. */
  readonly blocked: WaitingWriters;
  /** Metadata that may be sent: what the peer takes, and what fits into one frame. */
  readonly metadataMaxBytes: number;
  /** All that waits in the session, by its reason. */
  readonly waits: Stalls;
  readonly peer: Peer;
  readonly onEvent: OnEvent | undefined;
  /** Memory for one message, to be filled in place. @throws as `Session.allocate`. */
  allocate(bytes: number): Block;
  /** Gives back to a window of the session; batched. */
  giveBack(window: number, charge: number): void;
  /** The window of all streams has credit again: who waits for it goes on. */
  resumeBlocked(): void;
  /** Forgets what is queued for a stream that is over. */
  dropQueued(stream: SendingStream): void;
  /** Ends the session because of what the peer did. */
  fail(error: SidecallError): void;
  /** A call ended: others may start, and a session that drains may be done. */
  onCallEnded(): void;
}

/**
 * Counts a message that has begun to arrive: before memory is taken for it. Returns its charge.
 * @throws {SidecallError} `ERR_SIDECALL_FRAME_TOO_LARGE`, or `ERR_SIDECALL_PROTOCOL` where the peer
 * had no credit left.
 */
export function takeMessage(shared: SessionShared, window: number, messageBytes: number): number {
  checkLength(shared, messageBytes);
  const charge = chargeOf(messageBytes);
  const credit = shared.receiveCredit[window] as ReceiveCredit;
  credit.take(charge);
  // The credit that is owed may be all that the peer could still send: whoever holds this message
  // may hold it for ever.
  if (credit.isDue) shared.giveBack(window, 0);
  return charge;
}

/**
 * The same for a message of a stream. One that goes beyond the window of all streams
 * (`FrameFlag.beyond`) counts in its stream's window only, and is short. Returns what the session
 * is charged.
 */
export function takeStreamed(shared: SessionShared, flags: number, messageBytes: number): number {
  if ((flags & FrameFlag.beyond) === 0) return takeMessage(shared, Window.streams, messageBytes);
  if (messageBytes > wireLimits.beyondMaxBytes) {
    throw protocol(`message of ${messageBytes} bytes beyond the window of all streams`);
  }
  checkLength(shared, messageBytes);
  return 0;
}

function checkLength({ own }: SessionShared, messageBytes: number): void {
  const max = own.receiveMaxBytes;
  if (messageBytes <= max) return;
  const text = `the peer announced a message of ${messageBytes} bytes; receiveMaxBytes is ${max}`;
  throw new SidecallError('ERR_SIDECALL_FRAME_TOO_LARGE', text);
}
