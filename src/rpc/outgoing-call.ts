// SPDX-License-Identifier: MIT
// One call of ours, from the moment it was accepted to the moment it settles, exactly once.
import type { Fifo } from '../fifo.ts';
import type { CallOptions } from './call.ts';
import type { Codec } from './codec.ts';
import { armDeadline, cancelDeadline, deadlineAfter, type Timed } from './deadline.ts';
import type { Assembly } from './fragment.ts';
import type { OutgoingMessage, SendingStream } from './schedule.ts';

/** Who is told when a call of ours gives up, and when it has settled. */
export interface CallOwner {
  onCallDeadline(call: OutgoingCall): void;
  onCallSettled(call: OutgoingCall): void;
}

/** What a call is made of. */
export interface CallRequest {
  readonly method: string;
  readonly kind: number;
  readonly body: Uint8Array | string;
  readonly bodyBytes: number;
  readonly metadata: Uint8Array;
  /** undefined: a notification, nobody waits for an answer. */
  readonly response: Codec<unknown> | undefined;
  readonly options: CallOptions;
}

const ignore = (): void => undefined;

export class OutgoingCall implements SendingStream, Timed {
  readonly request: CallRequest;
  readonly #owner: CallOwner;
  readonly promise: Promise<unknown>;
  #resolve!: (value: unknown) => void;
  #reject!: (reason: unknown) => void;
  readonly deadline: number | undefined;
  timer: NodeJS.Timeout | undefined;

  slot = -1;
  generation = 0;
  /** It was given a slot; true for good. */
  isStarted = false;
  /** It has its slot. */
  isOpen = false;
  isSettled = false;
  isWritten = false;
  sentPosition = 0;
  outgoing: Fifo<OutgoingMessage> | undefined;

  // The answer, as far as it came.
  assembly: Assembly | undefined;
  /** Memory handed out for its first piece, which is about to arrive. */
  placed: Assembly | undefined;
  answer: unknown;
  answerCharge = 0;
  hasAnswer = false;
  hasHeaders = false;

  constructor(request: CallRequest, owner: CallOwner) {
    this.request = request;
    this.#owner = owner;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const { timeoutMs } = request.options;
    if (timeoutMs !== undefined) {
      this.deadline = deadlineAfter(timeoutMs);
      armDeadline(this, this.deadline);
    }
  }

  get isBorrowed(): boolean {
    return this.request.response === undefined;
  }

  resolve(value: unknown): void {
    this.#settle();
    this.#resolve(value);
  }

  reject(reason: unknown): void {
    this.#settle();
    // A failure that nobody awaits is not the end of the process. Costs nothing where none occurs.
    this.promise.catch(ignore);
    this.#reject(reason);
  }

  onDeadline(): void {
    this.#owner.onCallDeadline(this);
  }

  #settle(): void {
    this.isSettled = true;
    cancelDeadline(this);
    this.#owner.onCallSettled(this);
  }
}
