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
  withInheritedDeadline,
} from '../contract/call-options.ts';
import {
  encodeMessage,
  type Message,
  messageBytesOf,
  releaseMessage,
} from '../contract/encode-message.ts';
import { builtInPrefix, checkMethodName } from '../contract/service.ts';
import { isNotifiedBy } from '../deadline.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import { openHalves } from './call-halves.ts';
import type { MethodCall } from './call-target.ts';
import type { OpenCalls } from './open-calls.ts';
import { OutgoingCall } from './outgoing-call.ts';

const noOptions: CallOptions = Object.freeze({});

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
  const checked = checkCallOptions(given);
  // A channel outlives the handler that opens it.
  const options = callable.kind >= CallKind.channel ? checked : withInheritedDeadline(checked);
  options.signal?.throwIfAborted();
  if (options.resubscribe !== undefined) {
    const text = `${callable.name}: resubscribe is for server streams of a client that outlives its sessions`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  if (options.into !== undefined) checkInto(callable);
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
  const metadata = encodeMetadata(options.metadata, shared.metadataMaxBytes);
  const message = sendsMany(callable.kind)
    ? noBytes
    : encodeRequest(shared, callable, value, metadata.length);
  return makeCall(calls, callable, options, message, metadata);
}

/** @throws {TypeError} where the answer of the call is not bytes, or not one message. */
function checkInto({ name, kind, response }: MethodCall): void {
  if (response?.isRaw === true && !receivesMany(kind)) return;
  const text = `${name}: into is for calls with one answer in bytes`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}

/** A call of which nothing will be sent. */
export function emptyCall(calls: OpenCalls<OutgoingCall>, callable: MethodCall): OutgoingCall {
  return makeCall(calls, { ...callable, isMovable: false }, noOptions, noBytes, noBytes);
}

function encodeRequest(
  shared: SessionShared,
  callable: MethodCall,
  value: unknown,
  metadataBytes: number,
): Message {
  const { receiveMaxBytes } = shared.remote;
  const prefixBytes = metadataBytes + wireLimits.methodNameMaxBytes;
  const mayLend = prefixBytes <= wireLimits.blockPrefixMaxBytes;
  const message = encodeMessage(shared, callable.request, value, mayLend);
  const messageBytes = messageBytesOf(message);
  if (messageBytes <= receiveMaxBytes) return message;
  releaseMessage(message);
  const text = `${callable.name}: message of ${messageBytes} bytes exceeds the peer's receiveMaxBytes ${receiveMaxBytes}; raise limits.receiveMaxBytes there`;
  throw new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', text);
}

function makeCall(
  calls: OpenCalls<OutgoingCall>,
  callable: MethodCall,
  options: CallOptions,
  message: Message,
  metadata: Uint8Array,
): OutgoingCall {
  const { name: method, kind, isBulk, response } = callable;
  const request = {
    method,
    kind,
    message,
    messageBytes: messageBytesOf(message),
    metadata,
    response,
    isBulk,
    isTransient: callable.request.reusesBytes === true,
    isReply: kind === CallKind.notification && isNotifiedBy(calls.shared),
    isBuiltIn: method.startsWith(builtInPrefix) && kind < CallKind.clientStream,
    isMovable: callable.isMovable === true && callable.request.reusesBytes !== true,
    options: bindCallbacks(options),
  };
  const call = new OutgoingCall(request, calls);
  if (kind > CallKind.notification) openHalves(call, callable.request);
  return call;
}
