// SPDX-License-Identifier: MIT
// The parts of a session, once its handshake has ended.
import type { Socket } from 'node:net';
import type { OnEvent } from '../base/events.ts';
import type { Peer } from '../base/peer.ts';
import type { ShmipcSettings } from './options.ts';
import type { SharedSession, ShmipcAddon } from './shared-session.ts';

/** @internal */
export interface SessionParts extends ShmipcSettings {
  readonly native: ShmipcAddon;
  readonly shared: SharedSession;
  readonly socket: Socket;
  readonly peer: Peer;
  readonly isServer: boolean;
  readonly streamsMax: number;
  readonly onEvent: OnEvent | undefined;
  /** Bytes of the socket that were read already. */
  readonly early: readonly Uint8Array[];
}
