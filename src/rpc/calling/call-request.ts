// SPDX-License-Identifier: MIT
// The parts of a call of ours, and the errors that say that its time has passed.
import { SidecallError } from '../../base/errors.ts';
import { tuning } from '../../base/limits/internal-limits.ts';
import type { CallOptions } from '../contract/call-options.ts';
import type { Codec } from '../contract/codec.ts';
import type { Message } from '../contract/encode-message.ts';
import { Block } from '../contract/leases.ts';

/** The parts of a call. */
export interface CallRequest {
  readonly method: string;
  /** The kind, a value of `CallKind`. */
  readonly kind: number;
  /**
   * The encoded message: in memory of the codec while the call is sent at once, in its
   * own memory where it waits.
   */
  message: Message;
  readonly messageBytes: number;
  readonly metadata: Uint8Array;
  /** The codec of one answer; undefined where there is none. */
  readonly response: Codec<unknown> | undefined;
  readonly isBulk: boolean;
  /** The codec uses the body's memory again. */
  readonly isTransient: boolean;
  /** A notification that the handler of one of the peer's notifications sends. */
  readonly isReply: boolean;
  /** A method of the package's own services. */
  readonly isBuiltIn: boolean;
  /** Where no handler has seen it, its target makes it again on another session. */
  readonly isMovable: boolean;
  readonly options: CallOptions;
}

/** Encoded requests of calls that no handler has seen and none will, by the errors of the calls. */
const unseen = new WeakMap<SidecallError, Uint8Array | string>();

/**
 * Gives the memory of a request back when its call has failed, or keeps the request with the error
 * where the call may be made again: what was encoded, since the value may have changed.
 */
export function dropRequest({ message, isMovable }: CallRequest, error: unknown): void {
  if (message instanceof Block) return message.release();
  if (!isMovable || !SidecallError.is(error)) return;
  if (error.delivered === 'no' && error.retryable) unseen.set(error, message);
}

/** The request that was kept with an error. A second call finds none. */
export function takeUnseen(error: unknown): Uint8Array | string | undefined {
  if (!SidecallError.is(error)) return undefined;
  const message = unseen.get(error);
  unseen.delete(error);
  return message;
}

/** The error of a call whose time has passed. */
export function late({ method, options }: CallRequest, isWritten: boolean): SidecallError {
  const where = isWritten ? 'after it was sent' : 'before it was sent';
  const text = `${method}: timeoutMs ${options.timeoutMs} passed ${where}`;
  const delivered = isWritten ? 'unknown' : 'no';
  return new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', text, { delivered });
}

/** The error of a notification of a handler that has waited too long to be sent. */
export function repliesStuck({ method }: CallRequest): SidecallError {
  const text = `${method}: sent by the handler of a notification, it waited ${tuning.replyWaitMaxMs} ms behind others of that kind: both sides may be waiting for each other`;
  return new SidecallError('ERR_SIDECALL_LIMIT_BYTES', text, { delivered: 'no' });
}
