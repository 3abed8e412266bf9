// SPDX-License-Identifier: MIT
// The sending of a call: its slot, and the frame that opens it.
import { Buffer } from 'node:buffer';
import { SidecallError } from '../../base/errors.ts';
import { noBytes } from '../../base/ignore-errors.ts';
import {
  CallKind,
  emptyHeader,
  inlineName,
  noTimeout,
  receivesMany,
} from '../../wire/frame-header.ts';
import { detachedError, isBlock, isDetached } from '../contract/encode-message.ts';
import { neverBegun } from '../counting/moments.ts';
import { timeLeftMs } from '../deadline.ts';
import { notSaid, sentNow } from '../peer-clock.ts';
import { type SendCredit, Window } from '../sending/credit.ts';
import type { OpenCalls } from './open-calls.ts';
import type { OutgoingCall } from './outgoing-call.ts';
import { takesExtra } from './waiting-calls.ts';

// The fields of the frame that opens a call, in one object for all calls, which takes less memory
// for each: they are written to the header at once.
const fields = emptyHeader();

/**
 * Sends a call with one answer, whose message goes in one frame, where nothing waits: the short way
 * of `WaitingCalls.mustWait()` and {@link sendCall}. False: nothing was done.
 */
export function sendNow(calls: OpenCalls<OutgoingCall>, call: OutgoingCall): boolean {
  const { shared, streams, names } = calls;
  const { sendQueue, clock } = shared;
  const { callable, message, messageBytes, rare } = call;
  const credit = shared.sendCredit[Window.requests] as SendCredit;
  const number = names.numberOf(callable.name);
  const isPlain =
    callable.kind === CallKind.unary && !callable.isBulk && (rare?.metadata ?? noBytes) === noBytes;
  const mayGo = sendQueue.isFree && streams.hasRoom && credit.left > 0;
  if (number === undefined || !isPlain || !mayGo || isBlock(message)) return false;
  if (messageBytes > sendQueue.fragmentBytes) return false;
  streams.add(call);
  credit.spendFor(messageBytes);
  call.onSlot();
  const { slot, generation } = call;
  const deadline = rare?.deadline;
  const timeoutMs = deadline === undefined ? noTimeout : timeLeftMs(clock, deadline);
  const sentAt = deadline === undefined ? notSaid : sentNow(clock);
  const header = sendQueue.header.call(slot, generation, number, timeoutMs, messageBytes, sentAt);
  if (!sendQueue.sendNow(call, header, message, messageBytes)) {
    sendQueue.send(call, header, noBytes, message, messageBytes);
  }
  shared.moments.begin(call);
  return true;
}

/** Gives the call a slot and sends it. NOTE: only where `WaitingCalls.mustWait()` says no. */
export function sendCall(calls: OpenCalls<OutgoingCall>, call: OutgoingCall): void {
  const { shared, streams } = calls;
  const { sendQueue } = shared;
  if (isDetached(call.message, call.messageBytes)) {
    return call.fail(detachedError(call.method));
  }
  const number = numberOf(calls, call);
  const { metadata } = call;
  const prefix = number === undefined ? withName(call.method, metadata) : metadata;
  if (prefix.length > sendQueue.fragmentBytes) {
    const text = `${call.method}: name and metadata exceed ${sendQueue.fragmentBytes} bytes`;
    return call.fail(new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', text));
  }
  if (streams.hasExtra && takesExtra(calls, call)) streams.addExtra(call);
  else {
    streams.add(call);
    call.credit.spendFor(call.messageBytes);
  }
  call.onSlot();
  fields.kind = call.kind;
  fields.slot = call.slot;
  fields.generation = call.generation;
  fields.method = number ?? inlineName + prefix.length - metadata.length;
  fields.timeoutMs =
    call.deadline === undefined ? noTimeout : timeLeftMs(shared.clock, call.deadline);
  fields.metadataBytes = metadata.length;
  fields.messageBytes = call.messageBytes;
  fields.windowBytes = receivesMany(call.kind) ? (call.options.windowBytes ?? 0) : 0;
  fields.sentAt = call.deadline === undefined ? notSaid : sentNow(shared.clock);
  const header = sendQueue.header.open(fields);
  sendQueue.send(call, header, prefix, call.message, call.messageBytes);
  if (call.kind === CallKind.notification) {
    if (!call.isSettled) call.resolve(undefined);
    return;
  }
  if (call.begun === neverBegun) shared.moments.begin(call);
  call.writer?.start();
}

/** The number of a method, announced where it is new; undefined: the name travels with the call. */
function numberOf(
  { names, shared: { sendQueue } }: OpenCalls<OutgoingCall>,
  { method, kind }: OutgoingCall,
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
