// SPDX-License-Identifier: MIT
// The failure of a handler: the part that its caller gets, and the part for `onEvent` only.

import { type FailureStatus, statuses } from '../../base/error-codes.ts';
import { errorText } from '../../base/error-text.ts';
import { isFromPeer, RpcError, SidecallError } from '../../base/errors.ts';
import { emitEvent } from '../../base/events.ts';
import type { Metadata } from '../../base/metadata.ts';
import { noBytes } from '../../base/quiet.ts';
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
 * The `end` of an error that a handler threw; only the text if the rest cannot travel. `isBrief`:
 * only the status, for a peer that does not read its answers.
 */
export function endOf(
  shared: SessionShared,
  call: FailedCall,
  error: RpcError,
  isBrief: boolean,
): End {
  if (isBrief) return plainEnd(error.status, '');
  if (isFromPeer(error)) {
    // The text may be passed on. Details and metadata that another process gave
    // us are not for our caller.
    return plainEnd(error.status, error.message.slice(0, textMaxLength));
  }
  try {
    return wholeEnd(shared, call, error);
  } catch (refused) {
    reportFailure(shared, call, refused);
    return plainEnd(error.status, error.message.slice(0, textMaxLength));
  }
}

/** The answer to a request that its codec or schema refused. */
export function refusalOf(
  shared: SessionShared,
  call: FailedCall,
  error: unknown,
  isBrief: boolean,
): End {
  const text = 'the request could not be decoded';
  const details = isBrief ? undefined : refusalDetails(error);
  if (details === undefined) return plainEnd('invalid_argument', text);
  return endOf(shared, call, new RpcError('invalid_argument', text, { details }), false);
}

/** Reports to `onEvent` an error of a handler that its caller must not see. */
export function reportFailure(
  { onEvent, peer }: SessionShared,
  call: FailedCall,
  cause: unknown,
): void {
  const { method } = call.opening;
  const text = `${method}: the handler failed: ${errorText(cause)}`;
  const error = new SidecallError('ERR_SIDECALL_RPC', text, { cause });
  emitEvent(onEvent, { type: 'handler-failed', error, peer, method });
}

/** @throws {SidecallError | TypeError} for details or metadata that cannot travel. */
function wholeEnd(shared: SessionShared, call: FailedCall, error: RpcError): End {
  const { metadataMaxBytes, sendQueue } = shared;
  const metadata = encodeMetadata({ ...call.trailers, ...error.metadata }, metadataMaxBytes);
  const text = Buffer.from(error.message);
  const encoded = encodeWith(json<unknown>(), error.details);
  const details = typeof encoded === 'string' ? Buffer.from(encoded) : encoded;
  if (metadata.byteLength + text.byteLength + details.byteLength > sendQueue.fragmentBytes) {
    const most = `an RpcError has ${sendQueue.fragmentBytes} bytes at most`;
    throw new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', most);
  }
  return { status: statuses.indexOf(error.status), metadata, text, details };
}
