// SPDX-License-Identifier: MIT
// What callers may say of a call, and what handlers see of it.
import { AsyncResource } from 'node:async_hooks';
import { nodeError } from '../../base/errors.ts';
import { ranges } from '../../base/limits.ts';
import type { Metadata } from '../../base/metadata.ts';
import { checkInteger, checkKeys, checkSignal } from '../../base/misuse.ts';
import type { Peer } from '../../base/peer.ts';
import { inheritedDeadline, timeLeftMs } from '../deadline.ts';
import type { Block } from './leases.ts';

/** Options of one call. */
export interface CallOptions {
  /**
   * Milliseconds until the call fails with `DEADLINE_EXCEEDED`; sent as remaining time, so that the
   * handler sees it too. 0 to 2,147,483,647; 0 fails at once. Default: none, but a call that a running handler makes
   * ends when the handler's own time does, whatever is given here. `'none'`: not even then.
   */
  readonly timeoutMs?: number | 'none' | undefined;
  /** Aborting it rejects the call with `signal.reason` and aborts `ctx.signal` of the handler. */
  readonly signal?: AbortSignal | undefined;
  /** Key-values for the handler. Default: none. */
  readonly metadata?: Metadata | undefined;
  /**
   * Bytes of a stream's answers that may wait here to be taken. Default: `limits.streamWindowBytes` of this
   * end; 1 to 1 GiB. With 1 the handler's next message leaves when the one before was taken.
   */
  readonly windowBytes?: number | undefined;
  /** Called once with what the handler sent by `ctx.sendHeaders`, before the answer. What it throws is uncaught. */
  readonly onHeaders?: ((metadata: Metadata) => void) | undefined;
  /** Called once with `ctx.trailers`, if there are any, before the promise settles. What it throws is uncaught. */
  readonly onTrailers?: ((metadata: Metadata) => void) | undefined;
}

/** What a handler sees beside the request. */
export interface CallContext {
  /** Wire name of the method: `Indexer.add`. */
  readonly method: string;
  /** Who calls. The policy of this end has accepted it. */
  readonly peer: Peer;
  /** Key-values that the caller sent. */
  readonly metadata: Metadata;
  /** Instant on the clock of `performance.now()` at which the call is over, or undefined. */
  readonly deadline: number | undefined;
  /** Aborted when the caller gave up, the deadline passed, or the session ended; `reason` says which. */
  readonly signal: AbortSignal;
  /**
   * Has the call been given up? For handlers that compute without returning to the event loop: the deadline
   * is compared with the clock, and what the peer has sent meanwhile is looked through for a cancel.
   * `undefined`: it cannot be known here (the socket lane, or more has arrived than is looked through).
   */
  cancelledNow(): boolean | undefined;
  /** As {@link Session.allocate}: memory for an answer of the codec `leased`. */
  allocate(bytes: number): Block;
  /** Key-values to go with the answer: assign an object before returning. */
  trailers: Metadata;
  /**
   * Sends key-values ahead of the answer. Once per call; after the call was over nothing is sent.
   * @throws {TypeError} the second time, {@link SidecallError} `MESSAGE_TOO_LARGE`.
   */
  sendHeaders(metadata: Metadata): void;
}

const known = ['timeoutMs', 'signal', 'metadata', 'windowBytes', 'onHeaders', 'onTrailers'];
const none: CallOptions = Object.freeze({});

/**
 * Checks what a caller passed.
 * @throws {RangeError} `ERR_OUT_OF_RANGE` for `timeoutMs`, {@link TypeError} for the rest.
 */
export function checkCallOptions(options: CallOptions | undefined): CallOptions {
  if (options === undefined) return none;
  checkKeys('the options of a call', options, known);
  const { timeoutMs } = options;
  if (timeoutMs !== undefined && timeoutMs !== 'none') {
    checkInteger('timeoutMs', timeoutMs, ranges.timeoutMs);
  }
  if (options.windowBytes !== undefined) {
    checkInteger('windowBytes', options.windowBytes, ranges.windowBytes);
  }
  const { signal } = options;
  for (const name of ['onHeaders', 'onTrailers'] as const) {
    if (options[name] === undefined || typeof options[name] === 'function') continue;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', `${name} must be a function`);
  }
  checkSignal(signal);
  return options;
}

/** The time of a call in milliseconds, or undefined where it has no end. */
export function timeoutOf({ timeoutMs }: CallOptions): number | undefined {
  return timeoutMs === 'none' ? undefined : timeoutMs;
}

/** A call that a running handler makes has no more time than the handler's own call. */
export function withInheritedDeadline(options: CallOptions): CallOptions {
  if (options.timeoutMs === 'none') return options;
  const deadline = inheritedDeadline();
  if (deadline === undefined) return options;
  const leftMs = timeLeftMs(deadline);
  const isEarlier = options.timeoutMs === undefined || leftMs < options.timeoutMs;
  return isEarlier ? { ...options, timeoutMs: leftMs } : options;
}

/** The callbacks run in the asynchronous context of whoever made the call. */
export function bindCallbacks(options: CallOptions): CallOptions {
  const { onHeaders, onTrailers } = options;
  if (onHeaders === undefined && onTrailers === undefined) return options;
  return {
    ...options,
    onHeaders: onHeaders && AsyncResource.bind(onHeaders),
    onTrailers: onTrailers && AsyncResource.bind(onTrailers),
  };
}
