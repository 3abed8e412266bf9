// SPDX-License-Identifier: MIT
// The words between a shared helper and the programs that use it.
import { notification, service, unary } from '../rpc/contract/service.ts';

/** A shared helper that runs, as `sidecall ps` lists it. */
export interface SharedHelperInfo {
  readonly name: string;
  readonly key: string | undefined;
  readonly version: string;
  readonly pid: number;
  /** Milliseconds since it was started. */
  readonly uptimeMs: number;
  /** Sessions that are open, the one that asks included. */
  readonly clients: number;
  readonly idleTimeoutMs: number;
}

/** Served by every shared helper. */
export const SharedService = service('sidecall.Shared', {
  info: unary<void, SharedHelperInfo>(),
  /** Ends the helper in order. */
  stop: notification<void>(),
});

/** The variable that tells a shared helper what it is; the helper deletes it. */
export const sharedVariable = 'SIDECALL_SHARED';

/** The value of {@link sharedVariable}, as JSON. */
export interface SharedOrder {
  readonly path: string;
  readonly name: string;
  readonly key: string | undefined;
  readonly version: string;
  readonly idleTimeoutMs: number;
}

/** The exit code of a helper whose path another one has taken first. */
export const pathTakenExit = 75;
