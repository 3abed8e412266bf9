// SPDX-License-Identifier: MIT
// The windows that a message of a stream counts in: that of its stream, and that of all streams.
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { chargeOf, SendCredit, Window } from '../sending/credit.ts';
import type { SessionShared } from '../sending/session-shared.ts';

export class WriterWindow {
  readonly #all: SendCredit;
  readonly #own: SendCredit;
  // Bytes that were sent on this stream, and bytes of them that were granted again, ever: a message
  // beyond the window of all streams may be sent once the one before was taken.
  #spent = 0;
  #granted = 0;
  #beyondUntil = 0;

  constructor(shared: SessionShared, windowBytes: number) {
    this.#all = shared.sendCredit[Window.streams] as SendCredit;
    this.#own = new SendCredit(windowBytes);
  }

  /** Bytes that the stream's own window has left; below 0 behind a message that was longer. */
  get left(): number {
    return this.#own.left;
  }

  /** The stream's own window has credit. */
  get hasCredit(): boolean {
    return this.#own.hasCredit;
  }

  /** The window of all streams has credit. */
  get hasSharedCredit(): boolean {
    return this.#all.hasCredit;
  }

  /** A stream may have one short message beyond the window of all streams. */
  mayGoBeyond(messageBytes: number): boolean {
    return messageBytes <= wireLimits.beyondMaxBytes && this.#granted >= this.#beyondUntil;
  }

  grant(bytes: number): void {
    this.#own.grant(bytes);
    this.#granted += bytes;
  }

  /** A message is sent. `isBeyond`: it counts in the window of its stream only. */
  spend(messageBytes: number, isBeyond: boolean): void {
    const charge = chargeOf(messageBytes);
    this.#own.spend(charge);
    this.#spent += charge;
    if (isBeyond) this.#beyondUntil = this.#spent;
    else this.#all.spend(charge);
  }

  /** A message was taken back before a byte of it was sent. */
  release(messageBytes: number, isBeyond: boolean): void {
    const charge = chargeOf(messageBytes);
    this.#own.spend(-charge);
    this.#spent -= charge;
    if (isBeyond) this.#beyondUntil = 0;
    else this.#all.spend(-charge);
  }
}
