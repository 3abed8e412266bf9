// SPDX-License-Identifier: MIT
// Answers of our handlers on their way: each is sent, as soon as the peer's window allows. Their
// memory is bounded where handlers are started (admission.ts).

import type { Metadata } from '../../base/metadata.ts';
import { noBytes } from '../../base/quiet.ts';
import { FrameFlag } from '../../wire/frame-header.ts';
import { encodeMetadata } from '../../wire/metadata-bytes.ts';
import { type Codec, keepWaiting } from '../contract/codec.ts';
import {
  discard,
  encodeMessage,
  isDetached,
  type Message,
  messageBytesOf,
} from '../contract/encode-message.ts';
import { chargeOf, type SendCredit, Window } from '../sending/credit.ts';
import { sendEnd } from '../sending/send-frame.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import type { WaitingPlace } from '../stalls.ts';
import type { IncomingCall } from './incoming-call.ts';

/** An encoded answer. */
export interface Answer {
  readonly codec: Codec<unknown>;
  message: Message;
  readonly messageBytes: number;
  readonly trailers: Uint8Array;
}

/** @throws {SidecallError} `ERR_SIDECALL_ENCODE`, or what the metadata's encoder throws. */
export function encodeAnswer(
  shared: SessionShared,
  codec: Codec<unknown>,
  value: unknown,
  trailers: Metadata,
): Answer {
  const encodedTrailers = encodeMetadata(trailers, shared.metadataMaxBytes);
  const message = encodeMessage(shared, codec, value);
  return { codec, message, messageBytes: messageBytesOf(message), trailers: encodedTrailers };
}

export class AnswerSender implements WaitingPlace {
  readonly waitReason = 'answer-window';
  departed = 0;
  readonly #shared: SessionShared;
  readonly #onSent: (call: IncomingCall) => void;
  readonly #onLost: (call: IncomingCall) => void;
  readonly #waiting = new Map<IncomingCall, Answer>();
  #waitingBytes = 0;

  /**
   * `onSent`: the answer was given to the send queue, so its call is over. `onLost`: its bytes were
   * detached while it waited.
   */
  constructor(
    shared: SessionShared,
    onSent: (call: IncomingCall) => void,
    onLost: (call: IncomingCall) => void,
  ) {
    this.#shared = shared;
    this.#onSent = onSent;
    this.#onLost = onLost;
  }

  /** Answers that wait for the window. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** More answers wait than a peer that keeps up would let stand. */
  get isUnread(): boolean {
    const { sendQueue, own } = this.#shared;
    return this.#waiting.size > 0 || sendQueue.answerBytes >= own.sendQueueMaxBytes;
  }

  /** Bytes of all answers that wait, for the window or in the send queue. */
  get bytes(): number {
    return this.#waitingBytes + this.#shared.sendQueue.answerBytes;
  }

  /** Takes an answer and sends what may go. Returns why it may not be sent at all, or undefined. */
  add(call: IncomingCall, answer: Answer): string | undefined {
    const refusal = this.#refusal(answer);
    if (refusal !== undefined) {
      discard(answer.message);
      return refusal;
    }
    call.isBorrowed = answer.codec.reusesBytes === true; // what the queue keeps is copied
    const answers = this.#shared.sendCredit[Window.answers] as SendCredit;
    if (this.#waiting.size === 0 && answers.hasCredit) {
      this.#sendNow(call, answer, answers);
      return undefined;
    }
    answer.message = keepWaiting(answer.codec, answer.message);
    this.#waiting.set(call, answer);
    this.#waitingBytes += answer.messageBytes;
    this.#shared.waits.add(this);
    this.send();
    return undefined;
  }

  #refusal({ messageBytes }: Answer): string | undefined {
    const { receiveMaxBytes } = this.#shared.remote;
    if (messageBytes <= receiveMaxBytes) return undefined;
    return `the answer of ${messageBytes} bytes exceeds the caller's receiveMaxBytes ${receiveMaxBytes}`;
  }

  /** Sends while there is window. */
  send(): void {
    const answers = this.#shared.sendCredit[Window.answers] as SendCredit;
    for (const [call, answer] of this.#waiting) {
      if (!answers.hasCredit) return;
      this.#remove(call);
      this.#sendNow(call, answer, answers);
    }
  }

  #sendNow(call: IncomingCall, answer: Answer, answers: SendCredit): void {
    if (isDetached(answer.message, answer.messageBytes)) return this.#onLost(call);
    answers.spend(chargeOf(answer.messageBytes));
    this.#send(call, answer);
  }

  /** Forgets an answer that nobody waits for any more. */
  drop(call: IncomingCall): void {
    discard(this.#remove(call)?.message);
  }

  clear(): void {
    this.#waiting.clear();
    this.#waitingBytes = 0;
  }

  #remove(call: IncomingCall): Answer | undefined {
    const answer = this.#waiting.get(call);
    if (answer === undefined) return undefined;
    this.#waiting.delete(call);
    this.departed += 1;
    this.#waitingBytes -= answer.messageBytes;
    return answer;
  }

  #send(call: IncomingCall, { message, messageBytes, trailers }: Answer): void {
    const { sendQueue } = this.#shared;
    const endsHere = trailers.byteLength === 0;
    const flags = endsHere ? FrameFlag.end : 0;
    const header = sendQueue.header.message(flags, call.slot, call.generation, messageBytes);
    sendQueue.send(call, header, noBytes, message, messageBytes);
    if (!endsHere) sendEnd(sendQueue, call, 0, trailers, noBytes);
    this.#onSent(call);
  }
}
