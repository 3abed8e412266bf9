// SPDX-License-Identifier: MIT
// The options of one call, and their checks.

import { AsyncResource } from 'node:async_hooks';
import { isBytes } from '../../base/brands.ts';
import type { SidecallError } from '../../base/errors.ts';
import { ranges } from '../../base/limits/option-limits.ts';
import type { Metadata } from '../../base/metadata.ts';
import { checkInteger, checkKeys, checkSignal, nodeError } from '../../base/misuse.ts';
import { inheritedTimeMs } from '../deadline.ts';

/** Options of one call. */
export interface CallOptions {
  /**
   * Milliseconds until the call fails with `ERR_SIDECALL_DEADLINE_EXCEEDED`; sent as remaining
   * time, so that the handler sees it too. 0 to 2,147,483,647; 0 fails at once. Default: none, but
   * a call that a running handler makes ends when the handler's own time does, whatever is given
   * here. `'none'`: no limit in a handler either.
   */
  readonly timeoutMs?: number | 'none' | undefined;
  /** Aborting it rejects the call with `signal.reason` and aborts `ctx.signal` of the handler. */
  readonly signal?: AbortSignal | undefined;
  /** Key-values for the handler. Default: none. */
  readonly metadata?: Metadata | undefined;
  /**
   * Bytes of a stream's answers that may wait here to be taken. Default: `limits.streamWindowBytes`
   * of this end; 1 to 1 GiB. With 1 the handler's next message leaves when the one before was
   * taken.
   */
  readonly windowBytes?: number | undefined;
  /**
   * Memory for an answer in bytes (codec `bytes` or `bytes.borrowed`), which is then a view of it;
   * an answer that is longer has memory of its own. Its bytes change until the call has settled,
   * also where that fails; then nothing is written there any more. Where interceptors make the call
   * several times at once, the first one uses it. Not for streams. Default: fresh
   * memory. After `read(buffer)` of readers of the Web that are brought a buffer.
   */
  readonly into?: Uint8Array | undefined;
  /**
   * Called once with what the handler sent by `ctx.sendHeaders`, before the answer. An error
   * that it throws is uncaught.
   */
  readonly onHeaders?: ((metadata: Metadata) => void) | undefined;
  /**
   * Called once with `ctx.trailers`, if there are any, before the promise settles. An error
   * that it throws is uncaught.
   */
  readonly onTrailers?: ((metadata: Metadata) => void) | undefined;
  /**
   * For a client of a pool: calls with the same key go to the same member, as long as it takes
   * calls; then to the next one in an order of the key. An affinity for caches, not a promise.
   * Elsewhere it has no effect. Default: the member with the least work.
   */
  readonly key?: string | number | undefined;
  /**
   * For a server stream of a client that outlives its sessions (of a connection with `reconnect`, a
   * helper): when the session is lost the stream is opened again on the next one, with the same
   * request. `onGap` is told the reason before, since messages may be missing, so that no gap is
   * mistaken for silence; an error that it throws ends the stream. `timeoutMs` counts
   * from each opening. Default: the stream ends with a retryable error.
   */
  readonly resubscribe?: { readonly onGap: (error: SidecallError) => void } | undefined;
}

const known = [
  'timeoutMs',
  'signal',
  'metadata',
  'windowBytes',
  'into',
  'onHeaders',
  'onTrailers',
  'key',
  'resubscribe',
] as const satisfies readonly (keyof CallOptions)[];

/** The options of a call that was given none. */
export const noOptions: CallOptions = Object.freeze({});

/**
 * Checks what a caller passed.
 * @throws {RangeError} `ERR_OUT_OF_RANGE` for `timeoutMs`, {@link TypeError} for the rest.
 */
export function checkCallOptions(options: CallOptions | undefined): CallOptions {
  if (options === undefined) return noOptions;
  checkKeys('the options of a call', options, known);
  const { timeoutMs } = options;
  if (timeoutMs !== undefined && timeoutMs !== 'none') {
    checkInteger('timeoutMs', timeoutMs, ranges.timeoutMs);
  }
  if (options.windowBytes !== undefined) {
    checkInteger('windowBytes', options.windowBytes, ranges.windowBytes);
  }
  const { signal, into } = options;
  if (into !== undefined && !isBytes(into)) {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'into must be a Uint8Array');
  }
  for (const name of ['onHeaders', 'onTrailers'] as const) {
    if (options[name] === undefined || typeof options[name] === 'function') continue;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', `${name} must be a function`);
  }
  const ownSignal = checkSignal(signal);
  checkCallKey(options.key);
  return ownSignal === signal ? options : { ...options, signal: ownSignal };
}

/** @throws {TypeError} for a key that is neither a text nor a number. */
function checkCallKey(key: string | number | undefined): void {
  if (key === undefined || typeof key === 'string' || typeof key === 'number') return;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'key must be a string or a number');
}

/** The time of a call in milliseconds, or undefined where it has no end. */
export function timeoutOf({ timeoutMs }: CallOptions): number | undefined {
  return timeoutMs === 'none' ? undefined : timeoutMs;
}

/** A call that a running handler makes has no more time than the handler's own call. */
export function withInheritedDeadline(options: CallOptions): CallOptions {
  if (options.timeoutMs === 'none') return options;
  const leftMs = inheritedTimeMs();
  if (leftMs === undefined) return options;
  const isEarlier = options.timeoutMs === undefined || leftMs < options.timeoutMs;
  return isEarlier ? { ...options, timeoutMs: leftMs } : options;
}

/** The callbacks run in the asynchronous context of the caller. */
export function bindCallbacks(options: CallOptions): CallOptions {
  const { onHeaders, onTrailers } = options;
  if (onHeaders === undefined && onTrailers === undefined) return options;
  // `AsyncResource.bind()` of Node 20 makes an accessor for each function, and takes microseconds.
  const context = new AsyncResource('sidecall:call', { requireManualDestroy: true });
  const inContext = (listener: ((metadata: Metadata) => void) | undefined) =>
    listener && ((metadata: Metadata) => context.runInAsyncScope(listener, undefined, metadata));
  return { ...options, onHeaders: inContext(onHeaders), onTrailers: inContext(onTrailers) };
}
