// SPDX-License-Identifier: MIT
// The frames that end a stream, or a half of it, each by one function.
import { statuses } from '../../base/error-codes.ts';
import { SidecallError } from '../../base/errors.ts';
import { FrameFlag, ResetReason } from '../../wire/frame-header.ts';
import type { Schedule, SendingStream } from './send-queue.ts';
import type { Link } from './session-shared.ts';

const nothing = new Uint8Array(0);
const noSizes = { metadataBytes: 0, textBytes: 0 };

/** The frame that ends our half of a stream, with a status. */
export function sendEnd(
  schedule: Schedule,
  stream: SendingStream,
  status: number,
  metadata: Uint8Array,
  text: Uint8Array,
  details: Uint8Array = nothing,
): void {
  const sizes = { metadataBytes: metadata.byteLength, textBytes: text.byteLength };
  const header = schedule.header.end(0, stream.slot, stream.generation, status, sizes);
  const rest = details.byteLength === 0 ? text : Buffer.concat([text, details]);
  schedule.send(stream, header, metadata, rest, rest.byteLength);
}

/** Ends a channel whose message we could not decode. At once: nothing of it is worth waiting for. */
export function refuseMessage(link: Link, stream: SendingStream, flags: number): void {
  const { schedule } = link;
  link.dropQueued(stream);
  const text = Buffer.from('a message could not be decoded');
  const { slot, generation } = stream;
  const sizes = { metadataBytes: 0, textBytes: text.byteLength };
  const status = statuses.indexOf('invalid_argument');
  schedule.sendControl(schedule.header.end(flags, slot, generation, status, sizes), text);
}

/** Queues the end of our half of a stream, behind its messages. */
export function sendHalfEnd(link: Link, stream: SendingStream, flags: number): void {
  const { schedule } = link;
  const header = schedule.header.end(flags, stream.slot, stream.generation, 0, noSizes);
  schedule.send(stream, header, nothing, nothing, 0);
}

/** Tells the peer that its end has arrived. Overtakes data: it says nothing of what we still send. */
export function answerEnd(link: Link, stream: SendingStream, flags: number): void {
  const { schedule } = link;
  const { slot, generation } = stream;
  schedule.sendControl(schedule.header.end(flags | FrameFlag.end, slot, generation, 0, noSizes));
}

/** What the peer is told of why we gave a channel up. */
export function resetReasonFor(error: unknown): number {
  const isLate = SidecallError.is(error) && error.code === 'ERR_SIDECALL_DEADLINE_EXCEEDED';
  return isLate ? ResetReason.deadlineExceeded : ResetReason.cancelled;
}
