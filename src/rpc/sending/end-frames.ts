// SPDX-License-Identifier: MIT
// The frames that end a stream, or a half of it, each by one function.

import { Buffer } from 'node:buffer';
import { statuses } from '../../base/error-codes.ts';
import { SidecallError } from '../../base/errors.ts';
import { noBytes } from '../../base/ignore-errors.ts';
import { FrameFlag, ResetReason } from '../../wire/frame-header.ts';
import type { SendingStream } from './outgoing-messages.ts';
import type { SendQueue } from './send-queue.ts';
import type { SessionShared } from './session-shared.ts';

const noSizes = { metadataBytes: 0, textBytes: 0 };

/** The frame that ends our half of a stream, with a status. */
export function sendEnd(
  sendQueue: SendQueue,
  stream: SendingStream,
  status: number,
  metadata: Uint8Array,
  text: Uint8Array,
  details: Uint8Array = noBytes,
): void {
  const sizes = { metadataBytes: metadata.length, textBytes: text.length };
  const header = sendQueue.header.end(0, stream.slot, stream.generation, status, sizes);
  const rest = details.length === 0 ? text : Buffer.concat([text, details]);
  sendQueue.send(stream, header, metadata, rest, rest.length);
}

/**
 * Ends a channel whose message we could not decode. The frame is sent at once, and
 * queued messages are dropped.
 */
export function refuseMessage(shared: SessionShared, stream: SendingStream, flags: number): void {
  const { sendQueue } = shared;
  shared.removeQueued(stream);
  const text = Buffer.from('a message could not be decoded');
  const { slot, generation } = stream;
  const sizes = { metadataBytes: 0, textBytes: text.length };
  const status = statuses.indexOf('invalid_argument');
  sendQueue.sendControl(sendQueue.header.end(flags, slot, generation, status, sizes), text);
}

/** Queues the end of our half of a stream, behind its messages. */
export function sendHalfEnd(shared: SessionShared, stream: SendingStream, flags: number): void {
  const { sendQueue } = shared;
  const header = sendQueue.header.end(flags, stream.slot, stream.generation, 0, noSizes);
  sendQueue.send(stream, header, noBytes, noBytes, 0);
}

/**
 * Tells the peer that its end has arrived. The frame may overtake data, since it
 * does not concern our half.
 */
export function answerEnd(shared: SessionShared, stream: SendingStream, flags: number): void {
  const { sendQueue } = shared;
  const { slot, generation } = stream;
  sendQueue.sendControl(sendQueue.header.end(flags | FrameFlag.end, slot, generation, 0, noSizes));
}

/** The reason on the wire for giving a channel up. */
export function resetReasonFor(error: unknown): number {
  const isLate = SidecallError.is(error) && error.code === 'ERR_SIDECALL_DEADLINE_EXCEEDED';
  return isLate ? ResetReason.deadlineExceeded : ResetReason.cancelled;
}
