// SPDX-License-Identifier: MIT
// The sending of a call: its slot, and the frame that opens it.
import { Buffer } from 'node:buffer';
import { SidecallError } from '../../base/errors.ts';
import { CallKind, emptyHeader, inlineName, noTimeout } from '../../wire/frame-header.ts';
import { detachedError, isDetached } from '../contract/encode-message.ts';
import { neverBegun } from '../counting/moments.ts';
import { timeLeftMs } from '../deadline.ts';
import { notSaid, sentNow } from '../peer-clock.ts';
import { chargeOf } from '../sending/credit.ts';
import type { CallRequest } from './call-request.ts';
import type { OpenCalls } from './open-calls.ts';
import type { OutgoingCall } from './outgoing-call.ts';
import { takesExtra } from './waiting-calls.ts';

// The fields of the frame that opens a call, in one object for all calls, which takes less memory
// for each: they are written to the header at once.
const fields = emptyHeader();

/** Gives the call a slot and sends it. NOTE: only where `WaitingCalls.mustWait()` says no. */
export function sendCall(calls: OpenCalls<OutgoingCall>, call: OutgoingCall): void {
  const { shared, streams } = calls;
  const { sendQueue } = shared;
  const { request } = call;
  if (isDetached(request.message, request.messageBytes)) {
    return call.fail(detachedError(request.method));
  }
  const number = numberOf(calls, request);
  const { metadata } = request;
  const prefix = number === undefined ? withName(request.method, metadata) : metadata;
  if (prefix.length > sendQueue.fragmentBytes) {
    const text = `${request.method}: name and metadata exceed ${sendQueue.fragmentBytes} bytes`;
    return call.fail(new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', text));
  }
  if (streams.hasExtra && takesExtra(calls, request)) streams.addExtra(call);
  else {
    streams.add(call);
    call.credit.spend(chargeOf(request.messageBytes));
  }
  call.onSlot();
  fields.kind = request.kind;
  fields.slot = call.slot;
  fields.generation = call.generation;
  fields.method = number ?? inlineName + prefix.length - metadata.length;
  fields.timeoutMs =
    call.deadline === undefined ? noTimeout : timeLeftMs(shared.clock, call.deadline);
  fields.metadataBytes = metadata.length;
  fields.messageBytes = request.messageBytes;
  fields.windowBytes = request.options.windowBytes ?? 0;
  fields.sentAt = call.deadline === undefined ? notSaid : sentNow(shared.clock);
  const header = sendQueue.header.open(fields);
  sendQueue.send(call, header, prefix, request.message, request.messageBytes);
  if (request.kind === CallKind.notification) {
    if (!call.isSettled) call.resolve(undefined);
    return;
  }
  if (call.begun === neverBegun) shared.moments.begin(call);
  call.writer?.start();
}

/** The number of a method, announced where it is new; undefined: the name travels with the call. */
function numberOf(
  { names, shared: { sendQueue } }: OpenCalls<OutgoingCall>,
  { method, kind }: CallRequest,
): number | undefined {
  if (kind >= CallKind.channel) return undefined; // a name for each document or tab, used once
  const known = names.numberOf(method);
  if (known !== undefined) return known;
  const number = names.announce(method);
  if (number !== undefined) sendQueue.sendControl(sendQueue.header.method(number), method);
  return number;
}

/** A name that has no number stands in front of the metadata. */
function withName(method: string, metadata: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from(method), metadata]);
}
