// SPDX-License-Identifier: MIT
// The window of a session, in bytes: what each side may still send, and what it owes.

import { protocol } from '../frame.ts';
import { fixed } from '../limits.ts';

/** What a message takes from a window: empty ones count too, or they would be unbounded. */
export function chargeOf(messageBytes: number): number {
  return messageBytes + fixed.messageOverheadBytes;
}

/** The sender's half. A message may go while any credit is left, so the bound is window + 1 message. */
export class SendCredit {
  #left: number;

  constructor(initialBytes: number) {
    this.#left = initialBytes;
  }

  get hasCredit(): boolean {
    return this.#left > 0;
  }

  spend(charge: number): void {
    this.#left -= charge;
  }

  /** @throws {SidecallError} `PROTOCOL` for more than any window holds. */
  grant(bytes: number): void {
    this.#left += bytes;
    if (this.#left > Number.MAX_SAFE_INTEGER / 2) throw protocol('credit beyond any window');
  }
}

/** The receiver's half: what the peer has used, and what is given back in batches. */
export class ReceiveCredit {
  readonly #windowBytes: number;
  #granted: number;
  #used = 0;
  #owed = 0;

  constructor(windowBytes: number, initiallyGranted: number) {
    this.#windowBytes = windowBytes;
    this.#granted = initiallyGranted;
  }

  /** What the peer could not know from the hello; sent as the first grant. */
  get initialGrant(): number {
    return this.#windowBytes - this.#granted;
  }

  noteInitialGrant(): void {
    this.#granted = this.#windowBytes;
  }

  /** A message began. @throws {SidecallError} `PROTOCOL` where the peer had no credit left. */
  take(charge: number): void {
    if (this.#used >= this.#granted) throw protocol('message without credit');
    this.#used += charge;
  }

  /** The application took it. Returns what is to be granted now: 0, or a batch. */
  giveBack(charge: number): number {
    this.#owed += charge;
    // A quarter of the window: few frames, and never so late that the peer runs dry.
    if (this.#owed < this.#windowBytes / 4) return 0;
    const batch = Math.min(this.#owed, 0xffff_ffff);
    this.#owed -= batch;
    this.#used -= batch;
    return batch;
  }
}
