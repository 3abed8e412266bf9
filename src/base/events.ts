// SPDX-License-Identifier: MIT
// Events outside a call: given to `onEvent`, and to the diagnostics channel `sidecall`.

import { channel } from 'node:diagnostics_channel';
import { throwLater } from './clock.ts';
import type { SidecallError } from './errors.ts';
import type { Peer } from './peer.ts';
import type { WaitReason } from './wait-reasons.ts';

/**
 * Something that happened outside a call. Branch on `type`; new types may appear in any release.
 */
export type SidecallEvent =
  /** A connection ended before it was a session: its policy, hello or look-up failed. */
  | { readonly type: 'refused'; readonly error: SidecallError; readonly peer: Peer | undefined }
  /** A bound of a listener was reached: descriptors, connections in their hello, sessions. */
  | { readonly type: 'limit'; readonly error: SidecallError; readonly peer: Peer | undefined }
  /**
   * The listener's socket file was deleted or replaced; it listens again unless `error.cause` says
   * why not.
   */
  | { readonly type: 'path-lost'; readonly error: SidecallError; readonly peer: undefined }
  /**
   * A session got the socket lane because this side could not make, send or take shared memory, or
   * has no addon (`ERR_SIDECALL_ADDON_UNAVAILABLE`; without `onEvent` that is a warning of the
   * process, once).
   */
  | { readonly type: 'lane'; readonly error: SidecallError; readonly peer: Peer }
  /**
   * A helper was started 3 seconds ago, has not called `parent()`, and does not use the processor
   * either; or it was started 30 seconds ago and does. `command` is its command line. Without
   * `onEvent` this is a warning of the process.
   */
  | {
      readonly type: 'helper-silent';
      readonly error: SidecallError;
      readonly peer: undefined;
      readonly command: string;
      readonly waitedMs: number;
    }
  /**
   * The system, or a sandbox, refuses something that this package goes on without: `error` says
   * what is lost.
   */
  | { readonly type: 'limited'; readonly error: SidecallError; readonly peer: Peer | undefined }
  /** The helper's process ended without `stop()`. */
  | {
      readonly type: 'helper-exited';
      readonly error: SidecallError;
      readonly peer: Peer | undefined;
    }
  /** A helper of a pool could not be followed by a fresh process; it goes on. */
  | { readonly type: 'recycle-failed'; readonly error: SidecallError; readonly peer: Peer }
  /**
   * A connection of an adapter for another protocol broke that protocol and was closed, or an error
   * arrived that belongs to no call.
   */
  | { readonly type: 'adapter-failed'; readonly error: SidecallError; readonly peer: Peer }
  /**
   * A connection with `reconnect` lost its session, or its tries fail for another reason than
   * before, or it was given up (`error.retryable` is false then).
   */
  | {
      readonly type: 'reconnecting';
      readonly error: SidecallError;
      /** The process at the other end of the last session. */
      readonly peer: Peer;
      readonly path: string;
    }
  /**
   * A handler threw something that is not an `RpcError`: it is the `cause`. The caller saw
   * `internal`.
   */
  | {
      readonly type: 'handler-failed';
      readonly error: SidecallError;
      readonly peer: Peer | undefined;
      readonly method: string;
    }
  /** A notification that was admitted did not reach a handler, or its handler failed. */
  | {
      readonly type: 'notification-failed';
      readonly error: SidecallError;
      readonly peer: Peer | undefined;
      readonly method: string;
    }
  /**
   * Something of the session has waited for `stalledAfterMs` without progress. Reported once, and
   * again only after progress.
   */
  | {
      readonly type: 'stalled';
      readonly error: SidecallError;
      readonly peer: Peer | undefined;
      /** Why the first one waits: a key of `session.stats().waits`. */
      readonly reason: WaitReason;
      /** The number of those that wait in that place. */
      readonly waiting: number;
      readonly waitedMs: number;
    }
  /**
   * With `keepAlive`: the peer did not answer a ping in time (`unresponsive`), and then it did
   * (`responsive`, with the same `error`). The session goes on.
   */
  | {
      readonly type: 'unresponsive' | 'responsive';
      readonly error: SidecallError;
      readonly peer: Peer | undefined;
      /** Milliseconds since the ping was sent. */
      readonly waitedMs: number;
    }
  /** A session ended for another reason than an orderly close. */
  | {
      readonly type: 'session-failed';
      readonly error: SidecallError;
      readonly peer: Peer | undefined;
    };

/**
 * Called synchronously. An error that it throws is rethrown in a task of its
 * own, where it is uncaught.
 */
export type OnEvent = (event: SidecallEvent) => void;

const diagnostics = channel('sidecall');

/** Calls `listener` for each event of the process. Returns how to end that. */
export function followEvents(listener: OnEvent): () => void {
  const onMessage = (event: unknown): void => listener(event as SidecallEvent);
  diagnostics.subscribe(onMessage);
  return () => void diagnostics.unsubscribe(onMessage);
}

/** Tells `onEvent` and the diagnostics channel. Never throws. */
export function emitEvent(onEvent: OnEvent | undefined, event: SidecallEvent): void {
  if (diagnostics.hasSubscribers) diagnostics.publish(event);
  if (onEvent === undefined) return;
  try {
    onEvent(event);
  } catch (error) {
    throwLater(error);
  }
}
