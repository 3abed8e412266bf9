// SPDX-License-Identifier: MIT
// A call before it is sent: its options are checked, its message is encoded.
import { SidecallError } from '../../base/errors.ts';
import { noBytes } from '../../base/ignore-errors.ts';
import { causedBy } from '../../base/incident.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { nodeError } from '../../base/misuse.ts';
import { CallKind, receivesMany, sendsMany } from '../../wire/frame-header.ts';
import { encodeMetadata } from '../../wire/metadata-bytes.ts';
import {
  bindCallbacks,
  type CallOptions,
  checkCallOptions,
  noOptions,
  withInheritedDeadline,
} from '../contract/call-options.ts';
import {
  encodeMessage,
  type Message,
  messageBytesOf,
  releaseMessage,
} from '../contract/encode-message.ts';
import { checkMethodName } from '../contract/service.ts';
import { inheritedTimeMs, isNotifiedBy } from '../deadline.ts';
import { openHalves } from './call-halves.ts';
import type { MethodCall } from './call-target.ts';
import type { OpenCalls } from './open-calls.ts';
import { OutgoingCall } from './outgoing-call.ts';

/**
 * The call, not sent yet. @throws for options that are wrong, a value that cannot be encoded, and a
 * session that closes.
 */
export function prepareCall(
  calls: OpenCalls<OutgoingCall>,
  callable: MethodCall,
  value: unknown,
  given: CallOptions | undefined,
): OutgoingCall {
  // A channel outlives the handler that opens it.
  const checked = given === undefined ? noOptions : checkCallOptions(given);
  const inherits = callable.kind < CallKind.channel && inheritedTimeMs() !== undefined;
  const options = inherits ? withInheritedDeadline(checked) : checked;
  const isPlain = options === noOptions;
  if (!isPlain) checkSpecial(callable, options);
  const { shared, names, refusal } = calls;
  if (refusal !== undefined) {
    const { code, message, cause } = refusal;
    throw causedBy(refusal, new SidecallError(code, message, { delivered: 'no', cause }));
  }
  if (options.timeoutMs === 0) {
    const text = `${callable.name}: no time was left, so nothing was sent`;
    throw new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', text, { delivered: 'no' });
  }
  if (names.numberOf(callable.name) === undefined) checkMethodName(callable.name);
  const metadata = isPlain ? noBytes : encodeMetadata(options.metadata, shared.metadataMaxBytes);
  if (sendsMany(callable.kind)) return makeCall(calls, callable, options, noBytes, 0, metadata);
  const mayLend = metadata.length + wireLimits.methodNameMaxBytes <= wireLimits.blockPrefixMaxBytes;
  const message = encodeMessage(shared, callable.request, value, mayLend);
  const messageBytes = messageBytesOf(message);
  if (messageBytes > shared.remote.receiveMaxBytes) {
    releaseMessage(message);
    throw tooLong(callable, messageBytes, shared.remote.receiveMaxBytes);
  }
  return makeCall(calls, callable, options, message, messageBytes, metadata);
}

/** @throws for options that the call cannot have, and the reason of a signal that is aborted. */
function checkSpecial({ name, kind, response }: MethodCall, options: CallOptions): void {
  options.signal?.throwIfAborted();
  if (options.resubscribe !== undefined) {
    const text = `${name}: resubscribe is for server streams of a client that outlives its sessions`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  const isOfBytes = response?.isRaw === true && !receivesMany(kind);
  if (options.into === undefined || isOfBytes) return;
  const text = `${name}: into is for calls with one answer in bytes`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}

/** A call of which nothing will be sent. */
export function emptyCall(calls: OpenCalls<OutgoingCall>, callable: MethodCall): OutgoingCall {
  return makeCall(calls, { ...callable, isMovable: false }, noOptions, noBytes, 0, noBytes);
}

function tooLong({ name }: MethodCall, bytes: number, max: number): SidecallError {
  const text = `${name}: message of ${bytes} bytes exceeds the peer's receiveMaxBytes ${max}; raise limits.receiveMaxBytes there`;
  return new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', text);
}

function makeCall(
  calls: OpenCalls<OutgoingCall>,
  callable: MethodCall,
  options: CallOptions,
  message: Message,
  messageBytes: number,
  metadata: Uint8Array,
): OutgoingCall {
  const { kind, request: codec } = callable;
  const call = new OutgoingCall(calls, callable, message, messageBytes);
  if (options !== noOptions) call.setOptions(bindCallbacks(options), metadata);
  if (kind === CallKind.notification && isNotifiedBy(calls.shared)) call.parts.isReply = true;
  if (kind > CallKind.notification) openHalves(call, codec);
  return call;
}
