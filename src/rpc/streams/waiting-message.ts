// SPDX-License-Identifier: MIT
// A message of a stream that waits to be admitted, or to leave.
import { ignore } from '../../base/ignore-errors.ts';
import { type Message, releaseMessage } from '../contract/encode-message.ts';

/** A message whose promise has not settled. */
export class WaitingMessage {
  message: Message;
  messageBytes: number;
  /** It counts in its stream's window only. */
  isBeyond = false;
  /** A part of it was sent as a message of its own. */
  isBegun = false;
  /** The send queue calls it when the last piece has left. */
  onTaken: (() => void) | undefined;
  readonly promise: Promise<void>;
  resolve!: () => void;
  reject!: (reason: unknown) => void;

  constructor(message: Message, messageBytes: number) {
    this.message = message;
    this.messageBytes = messageBytes;
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }
  /** Rejects the promise, and gives back what the message holds. */
  refuse(error: unknown): void {
    releaseMessage(this.message);
    this.promise.catch(ignore);
    this.reject(error);
  }
}
