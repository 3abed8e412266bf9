// SPDX-License-Identifier: MIT
// The context of a call: all that a handler sees beside the request.
import type { Metadata } from '../../base/metadata.ts';
import type { Peer } from '../../base/peer.ts';
import type { Block } from './leases.ts';

/** All that a handler sees of a call beside the request. */
export interface CallContext {
  /** Wire name of the method: `Indexer.add`. */
  readonly method: string;
  /** The process that calls. The policy of this end has accepted it. */
  readonly peer: Peer;
  /** Key-values that the caller sent. */
  readonly metadata: Metadata;
  /** Instant on the clock of `performance.now()` at which the call is over, or undefined. */
  readonly deadline: number | undefined;
  /**
   * Aborted when the caller gave up, the deadline passed, or the session ended; `reason` says
   * which.
   */
  readonly signal: AbortSignal;
  /**
   * Has the call been given up? For handlers that compute without returning to the event loop: the
   * deadline is compared with the clock, and what the peer has sent meanwhile is looked through for
   * a cancel. `undefined`: it cannot be known here (the socket lane, or more has arrived than is
   * looked through).
   */
  cancelledNow(): boolean | undefined;
  /** As {@link Session.allocate}: memory for an answer of the codec `leased`. */
  allocate(bytes: number): Block;
  /** Key-values to go with the answer: assign an object before returning. */
  trailers: Metadata;
  /**
   * Sends key-values ahead of the answer. Once per call; after the call was over nothing is sent.
   * @throws {TypeError} the second time, {@link SidecallError} `ERR_SIDECALL_MESSAGE_TOO_LARGE`.
   */
  sendHeaders(metadata: Metadata): void;
}
