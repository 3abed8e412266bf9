// SPDX-License-Identifier: MIT
// Everything that a session is made of: what the hello agreed on, and what its owner serves.
import type { SharedParts } from '../sending/session-shared.ts';
import type { Registry, Services } from '../serving/registry.ts';
import type { KeepAliveSettings } from './keep-alive.ts';

/** The parts of a session. */
export interface SessionParts extends SharedParts {
  /** Why the session got its lane, for people. */
  readonly laneReason: string;
  /** Methods that a listener or helper serves for all of its sessions. */
  readonly registry?: Registry | undefined;
  /** The services from the start. undefined: they follow, and calls wait for them. */
  readonly services?: Services | undefined;
  /** May the peer list what is served? undefined: if it runs under our own uid. */
  readonly introspection?: boolean | undefined;
  /** Milliseconds without a call after which the session is closed; undefined: never. */
  readonly idleTimeoutMs?: number | undefined;
  /** Pings at an interval; undefined: none. */
  readonly keepAlive?: KeepAliveSettings | undefined;
  /** As of the option; undefined: none. */
  readonly stallTimeoutMs?: number | undefined;
  /**
   * Milliseconds after the end of the connection in which the owner of the session can end it with
   * the exit of the peer's process. Default: 0, the end of the connection is the reason.
   */
  readonly exitKnownMs?: number | undefined;
  /** It waits to be taken from its listener. */
  readonly isUntaken?: boolean | undefined;
}
