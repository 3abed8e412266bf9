// SPDX-License-Identifier: MIT
// What the two halves of a session share: its transport, limits, windows, and the way to report.
import type { SidecallError } from '../errors.ts';
import type { OnEvent } from '../events.ts';
import type { SessionLimits } from '../limits.ts';
import type { Peer } from '../peer.ts';
import type { Transport } from '../transport.ts';
import type { ReceiveCredits, SendCredits } from './credit.ts';
import type { Schedule } from './schedule.ts';

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
  readonly sendCredit: SendCredits;
  readonly receiveCredit: ReceiveCredits;
  /** Metadata that may be sent: what the peer takes, and what fits into one frame. */
  readonly metadataMaxBytes: number;
  readonly peer: Peer;
  readonly onEvent: OnEvent | undefined;
  /** Gives window (of {@link Window}) back to the peer; batched. */
  giveBack(window: number, charge: number): void;
  /** Ends the session because of what the peer did. */
  fail(error: SidecallError): void;
  /** A call ended: others may start, and a session that drains may be done. */
  onCallEnded(): void;
}
