// SPDX-License-Identifier: MIT
// The request of an outgoing call that has failed, and the errors of a deadline that has passed.
import { SidecallError } from '../../base/errors.ts';
import { tuning } from '../../base/limits/internal-limits.ts';
import type { CallOptions } from '../contract/call-options.ts';
import { isBlock, type Message } from '../contract/encode-message.ts';

/** A call, as far as its errors need it. */
interface FailingCall {
  readonly method: string;
  readonly message: Message;
  readonly isMovable: boolean;
  readonly options: CallOptions;
}

/** Encoded requests of calls that no handler has seen and none will, by the errors of the calls. */
const unseen = new WeakMap<SidecallError, Uint8Array | string>();

/**
 * Gives the memory of a request back when its call has failed, or keeps the request with the error
 * where the call may be made again: what was encoded, since the value may have changed.
 */
export function dropRequest({ message, isMovable }: FailingCall, error: unknown): void {
  if (isBlock(message)) return message.release();
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
export function late({ method, options }: FailingCall, isWritten: boolean): SidecallError {
  const where = isWritten ? 'after it was sent' : 'before it was sent';
  const text = `${method}: timeoutMs ${options.timeoutMs} passed ${where}`;
  const delivered = isWritten ? 'unknown' : 'no';
  return new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', text, { delivered });
}

/** The error of a notification of a handler that has waited too long to be sent. */
export function repliesStuck({ method }: FailingCall): SidecallError {
  const text = `${method}: sent by the handler of a notification, it waited ${tuning.replyWaitMaxMs} ms behind others of that kind: both sides may be waiting for each other`;
  return new SidecallError('ERR_SIDECALL_LIMIT_BYTES', text, { delivered: 'no' });
}
