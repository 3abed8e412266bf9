// SPDX-License-Identifier: MIT
// The failure of a handler: the part that its caller gets, and the part for `onEvent` only.

import { Buffer } from 'node:buffer';
import { isError } from '../../base/brands.ts';
import { type FailureStatus, statuses } from '../../base/error-codes.ts';
import { errorText } from '../../base/error-text.ts';
import { isFromPeer, RpcError, SidecallError } from '../../base/errors.ts';
import { emitEvent } from '../../base/events.ts';
import { noBytes } from '../../base/ignore-errors.ts';
import type { Metadata } from '../../base/metadata.ts';
import { encodeMetadata } from '../../wire/metadata-bytes.ts';
import { encodeWith, refusalDetails } from '../contract/codec.ts';
import { json } from '../contract/json.ts';
import type { SessionShared } from '../sending/session-shared.ts';

/** A call that failed, as far as its answer needs it. */
interface FailedCall {
  readonly opening: { readonly method: string };
  readonly trailers: Metadata;
}

/** The content of an `end` frame. */
export interface End {
  readonly status: number;
  readonly metadata: Uint8Array;
  readonly text: Uint8Array;
  readonly details: Uint8Array;
}

// Of an error whose details or metadata cannot travel.
const textMaxLength = 4096;

/** An end of a few words. */
export function plainEnd(
  status: FailureStatus | 'ok',
  text: string,
  metadata: Uint8Array = noBytes,
): End {
  return { status: statuses.indexOf(status), metadata, text: Buffer.from(text), details: noBytes };
}

/**
 * The `end` of an error that a handler threw, which is an answer like any other; only the text if
 * the rest cannot travel.
 */
export function endOf(shared: SessionShared, call: FailedCall, error: RpcError): End {
  if (isFromPeer(error)) {
    // The text may be passed on. Details and metadata that another process gave
    // us are not for our caller; nor is the text of a fault, which that process told to us alone.
    const isFault = error.status === 'internal' && !shared.tellsFaults;
    return plainEnd(error.status, isFault ? '' : error.message.slice(0, textMaxLength));
  }
  try {
    return wholeEnd(shared, call, error);
  } catch (refused) {
    reportFailure(shared, call, refused);
    return plainEnd(error.status, error.message.slice(0, textMaxLength));
  }
}

/** Bytes of an end beside its header. */
export function bytesOf({ metadata, text, details }: End): number {
  return metadata.length + text.length + details.length;
}

/**
 * The answer to a request that its codec or schema refused. `isBrief`: without details, for a peer
 * that does not read its answers.
 */
export function refusalOf(
  shared: SessionShared,
  call: FailedCall,
  error: unknown,
  isBrief: boolean,
): End {
  const refused = 'the request could not be decoded';
  if (isBrief) return plainEnd('invalid_argument', refused);
  const details = refusalDetails(error);
  if (details !== undefined) {
    const text = 'the request does not match the schema of the method (error.details)';
    return endOf(shared, call, new RpcError('invalid_argument', text, { details }));
  }
  // The text of the error holds codec, length and kind of error, and no values.
  const why = SidecallError.is(error) ? `: ${error.message}` : '';
  return plainEnd('invalid_argument', `${refused}${why}`);
}

/**
 * The `end` of a fault: an error that a handler did not throw for its caller. Only a process of our
 * own gets its text, which may hold paths and values; `isBrief`: nobody does.
 */
export function faultEnd(shared: SessionShared, cause: unknown, isBrief = false): End {
  if (isBrief || !shared.tellsFaults) return plainEnd('internal', '');
  return plainEnd('internal', faultText(cause).slice(0, textMaxLength));
}

/** Reports a fault to `onEvent`, or as a warning of the process. */
export function reportFailure(
  { onEvent, peer }: SessionShared,
  call: FailedCall,
  cause: unknown,
): void {
  const { method } = call.opening;
  const text = `${method}: the handler failed: ${errorText(cause)}`;
  const error = new SidecallError('ERR_SIDECALL_RPC', text, { cause });
  if (onEvent === undefined) warnOnce(method, cause);
  emitEvent(onEvent, { type: 'handler-failed', error, peer, method });
}

// Faults that were printed. A peer can cause them at will, and their texts may hold its values.
const warned = new Set<string>();
const warnedMax = 100;

/** Prints a fault once, as Node prints an uncaught error: with its stack. */
function warnOnce(method: string, cause: unknown): void {
  const text = `the handler of ${method} failed: ${faultText(cause)}`.slice(0, textMaxLength);
  if (warned.has(text) || warned.size >= warnedMax) return;
  warned.add(text);
  const detail = textOf(cause, 'stack').slice(0, textMaxLength);
  process.emitWarning(text, { code: 'SIDECALL_HANDLER_FAILED', detail });
}

/** `TypeError: x is not a function`. */
function faultText(cause: unknown): string {
  const name = textOf(cause, 'name');
  return name === '' || name === 'Error' ? errorText(cause) : `${name}: ${errorText(cause)}`;
}

/** A member of an error, or an empty text. Never throws: a member may be a getter that does. */
function textOf(cause: unknown, member: 'name' | 'stack'): string {
  try {
    const text = isError(cause) ? cause[member] : '';
    return typeof text === 'string' ? text : '';
  } catch {
    return '';
  }
}

/** @throws {SidecallError | TypeError} for details or metadata that cannot travel. */
function wholeEnd(shared: SessionShared, call: FailedCall, error: RpcError): End {
  const { metadataMaxBytes, sendQueue } = shared;
  const metadata = encodeMetadata({ ...call.trailers, ...error.metadata }, metadataMaxBytes);
  const text = Buffer.from(error.message);
  const encoded = encodeWith(json<unknown>(), error.details);
  const details = typeof encoded === 'string' ? Buffer.from(encoded) : encoded;
  if (metadata.length + text.length + details.length > sendQueue.fragmentBytes) {
    const most = `an RpcError has ${sendQueue.fragmentBytes} bytes at most`;
    throw new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', most);
  }
  return { status: statuses.indexOf(error.status), metadata, text, details };
}
