// SPDX-License-Identifier: MIT
// The windows of a session and of its streams, in bytes: the credit of the sender, and the bytes
// that the receiver gives back. Each kind of message has a window of its own: answers are taken as
// they arrive, requests wait for handlers, messages of streams for their readers, notifications for
// the one before. So a session whose requests wait for busy handlers can still be answered, and one
// whose streams are not read can still call.

import { minSessionWindow, type SessionLimits } from '../../base/limits/option-limits.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { protocol } from '../../wire/frame-header.ts';

/** The windows of a session; the number is also the `slot` of a credit frame. */
export const Window = { requests: 0, answers: 1, streams: 2, notifications: 3 } as const;

/** Limits that windows follow from. */
type WindowLimits = Pick<SessionLimits, 'streamWindowBytes' | 'receiveMaxBytes'>;

/**
 * The charge of a message in its window. An empty message is charged too, or their number would be
 * unbounded.
 */
export function chargeOf(messageBytes: number): number {
  return messageBytes + wireLimits.messageOverheadBytes;
}

/**
 * The sender's half. A message may go while any credit is left, so the bound is window + 1 message.
 */
export class SendCredit {
  /** Bytes that may still be sent; below 0 where the last message was longer than what was left. */
  left: number;

  constructor(initialBytes: number) {
    this.left = initialBytes;
  }

  get hasCredit(): boolean {
    return this.left > 0;
  }

  spend(charge: number): void {
    this.left -= charge;
  }

  /** Spends what a message is charged. */
  spendFor(messageBytes: number): void {
    this.left -= messageBytes + wireLimits.messageOverheadBytes; // as chargeOf(), of each call
  }

  /** @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for more than any window holds. */
  grant(bytes: number): void {
    this.left += bytes;
    if (this.left > Number.MAX_SAFE_INTEGER / 2) throw protocol('credit beyond any window');
  }
}

/** The windows of the session that we send into, by {@link Window}. */
export function sendCredits(remote: WindowLimits): readonly SendCredit[] {
  const least = minSessionWindow(remote);
  const sizes = [least, least, least, remote.streamWindowBytes];
  return sizes.map((bytes) => new SendCredit(bytes));
}

/** The receiver's half: what the peer has used, and what is given back in batches. */
export class ReceiveCredit {
  readonly #windowBytes: number;
  readonly #beyondMax: number;
  #granted: number;
  #used = 0;
  #owed = 0;

  /**
   * `lastMaxBytes`: the longest message, which may begin with the last byte of credit. Messages of
   * several streams overtake each other behind that, so the sum counts, in any order. Left out: all
   * come in order.
   */
  constructor(windowBytes: number, initiallyGranted: number, lastMaxBytes?: number) {
    this.#windowBytes = windowBytes;
    this.#granted = initiallyGranted;
    this.#beyondMax = lastMaxBytes === undefined ? 0 : chargeOf(lastMaxBytes);
  }

  /**
   * The part of the window that the hello does not tell the peer; it is sent as the first grant.
   */
  get initialGrant(): number {
    return this.#windowBytes - this.#granted;
  }

  noteInitialGrant(): void {
    this.#granted = this.#windowBytes;
  }

  /**
   * A message began. True: the peer would have no credit left before the next batch.
   * @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` where the peer had no credit left.
   */
  take(charge: number): boolean {
    const isWithin =
      this.#used < this.#granted || this.#used + charge < this.#granted + this.#beyondMax;
    if (!isWithin) throw protocol('message without credit');
    this.#used += charge;
    return this.#owed > 0 && this.#owed >= this.#granted - this.#used;
  }

  /** Bytes of messages that have arrived and were not given back. */
  get held(): number {
    return this.#used - this.#owed;
  }

  /** Bytes that were given back and that the peer was not told of yet. */
  get owed(): number {
    return this.#owed;
  }

  /** The application took it. Returns what is to be granted now: 0, or a batch. */
  release(charge: number): number {
    this.#owed += charge;
    // A quarter of the window, to send few frames; sooner where the peer would run dry before that.
    const left = this.#granted - this.#used;
    if (this.#owed < this.#windowBytes / 4 && this.#owed < left) return 0;
    return this.flush();
  }

  /** Everything that is owed, to be granted now. */
  flush(): number {
    const batch = Math.min(this.#owed, 0xffff_ffff);
    this.#owed -= batch;
    this.#used -= batch;
    return batch;
  }
}

/** The windows of the session that we grant, by {@link Window}. */
export function receiveCredits(own: SessionLimits): readonly ReceiveCredit[] {
  const least = minSessionWindow(own);
  const { streamWindowBytes, receiveMaxBytes } = own;
  const shared = (): ReceiveCredit =>
    new ReceiveCredit(own.sessionWindowBytes, least, receiveMaxBytes);
  // Notifications of a session are one stream.
  return [shared(), shared(), shared(), new ReceiveCredit(streamWindowBytes, streamWindowBytes)];
}
