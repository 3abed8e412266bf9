// SPDX-License-Identifier: MIT
// The parts of the frames of messages.
import { Buffer } from 'node:buffer';
import { noBytes } from '../../base/ignore-errors.ts';
import { FrameFlag, FrameType } from '../../wire/frame-header.ts';

/** The frame begins a message: not one that opens a stream, or ends a call. */
export function isMessage(header: Uint8Array): boolean {
  if (header[0] === FrameType.message) return true;
  return header[0] === FrameType.open && ((header[1] as number) & FrameFlag.end) !== 0;
}

/** The bytes that go in front of a message, and the message. */
export function join(prefix: Uint8Array, message: Uint8Array | string): Uint8Array {
  const bytes =
    typeof message === 'string' ? (message === '' ? noBytes : Buffer.from(message)) : message;
  return prefix.length === 0 ? bytes : Buffer.concat([prefix, bytes]);
}
