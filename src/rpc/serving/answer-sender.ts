// SPDX-License-Identifier: MIT
// Answers of our handlers on their way: each is sent, as soon as the peer's window allows. Their memory is bounded where
// handlers are started (admission.ts).

import type { Metadata } from '../../base/metadata.ts';
import { FrameFlag } from '../../wire/frame-header.ts';
import { encodeMetadata } from '../../wire/metadata-bytes.ts';
import { type Codec, keepWaiting } from '../contract/codec.ts';
import {
  type Body,
  bodyBytesOf,
  discard,
  encodeBody,
  isDetached,
} from '../contract/encode-message.ts';
import { chargeOf, type SendCredit, Window } from '../sending/credit.ts';
import { sendEnd } from '../sending/send-frame.ts';
import type { Link } from '../sending/session-shared.ts';
import type { WaitingPlace } from '../stalls.ts';
import type { IncomingCall } from './incoming-call.ts';

/** What a handler gave, encoded. */
export interface Answer {
  readonly codec: Codec<unknown>;
  body: Body;
  readonly bodyBytes: number;
  readonly trailers: Uint8Array;
}

const nothing = new Uint8Array(0);

/** @throws {SidecallError} `ENCODE`, or what the metadata's encoder throws. */
export function encodeAnswer(
  link: Link,
  codec: Codec<unknown>,
  value: unknown,
  trailers: Metadata,
): Answer {
  const encodedTrailers = encodeMetadata(trailers, link.metadataMaxBytes);
  const body = encodeBody(link, codec, value);
  return { codec, body, bodyBytes: bodyBytesOf(body), trailers: encodedTrailers };
}

export class AnswerQueue implements WaitingPlace {
  readonly waitReason = 'answer-window';
  departed = 0;
  readonly #link: Link;
  readonly #onSent: (call: IncomingCall) => void;
  readonly #onLost: (call: IncomingCall) => void;
  readonly #waiting = new Map<IncomingCall, Answer>();
  #waitingBytes = 0;

  /**
   * `onSent`: the answer was given to the send queue, so its call is over. `onLost`: its bytes were detached
   * while it waited.
   */
  constructor(
    link: Link,
    onSent: (call: IncomingCall) => void,
    onLost: (call: IncomingCall) => void,
  ) {
    this.#link = link;
    this.#onSent = onSent;
    this.#onLost = onLost;
  }

  /** Answers that wait for the window. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** More answers wait than a peer that keeps up would let stand. */
  get isUnread(): boolean {
    const { schedule, own } = this.#link;
    return this.#waiting.size > 0 || schedule.answerBytes >= own.sendQueueMaxBytes;
  }

  /** Bytes of all answers that wait, for the window or in the send queue. */
  get bytes(): number {
    return this.#waitingBytes + this.#link.schedule.answerBytes;
  }

  /** Takes an answer and sends what may go. Returns why it may not be sent at all, or undefined. */
  add(call: IncomingCall, answer: Answer): string | undefined {
    const refusal = this.#refusal(answer);
    if (refusal !== undefined) {
      discard(answer.body);
      return refusal;
    }
    call.isBorrowed = answer.codec.reusesBytes === true; // what the queue keeps is copied
    const answers = this.#link.sendCredit[Window.answers] as SendCredit;
    if (this.#waiting.size === 0 && answers.hasCredit) {
      this.#sendNow(call, answer, answers);
      return undefined;
    }
    answer.body = keepWaiting(answer.codec, answer.body);
    this.#waiting.set(call, answer);
    this.#waitingBytes += answer.bodyBytes;
    this.#link.waits.add(this);
    this.send();
    return undefined;
  }

  #refusal({ bodyBytes }: Answer): string | undefined {
    const { receiveMaxBytes } = this.#link.remote;
    if (bodyBytes <= receiveMaxBytes) return undefined;
    return `the answer of ${bodyBytes} bytes exceeds the caller's receiveMaxBytes ${receiveMaxBytes}`;
  }

  /** Sends while there is window. */
  send(): void {
    const answers = this.#link.sendCredit[Window.answers] as SendCredit;
    for (const [call, answer] of this.#waiting) {
      if (!answers.hasCredit) return;
      this.#remove(call);
      this.#sendNow(call, answer, answers);
    }
  }

  #sendNow(call: IncomingCall, answer: Answer, answers: SendCredit): void {
    if (isDetached(answer.body, answer.bodyBytes)) return this.#onLost(call);
    answers.spend(chargeOf(answer.bodyBytes));
    this.#send(call, answer);
  }

  /** Forgets an answer that nobody waits for any more. */
  drop(call: IncomingCall): void {
    discard(this.#remove(call)?.body);
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
    this.#waitingBytes -= answer.bodyBytes;
    return answer;
  }

  #send(call: IncomingCall, { body, bodyBytes, trailers }: Answer): void {
    const { schedule } = this.#link;
    const endsHere = trailers.byteLength === 0;
    const flags = endsHere ? FrameFlag.end : 0;
    const header = schedule.header.message(flags, call.slot, call.generation, bodyBytes);
    schedule.send(call, header, nothing, body, bodyBytes);
    if (!endsHere) sendEnd(schedule, call, 0, trailers, nothing);
    this.#onSent(call);
  }
}
