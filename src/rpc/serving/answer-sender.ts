// SPDX-License-Identifier: MIT
// Answers of our handlers on their way: each is sent as soon as the peer's window allows, and ends
// its call. Their memory is bounded where handlers are started (admission.ts).
import { isBytes } from '../../base/brands.ts';
import { noBytes } from '../../base/ignore-errors.ts';
import { isSmallPart } from '../../base/message-slabs.ts';
import { FrameFlag } from '../../wire/frame-header.ts';
import { type Codec, keepWaiting } from '../contract/codec.ts';
import {
  detachedError,
  isBlock,
  isDetached,
  type Message,
  releaseMessage,
} from '../contract/encode-message.ts';
import { type SendCredit, Window } from '../sending/credit.ts';
import { sendEnd } from '../sending/end-frames.ts';
import { Departures, type WaitQueue } from '../stalls.ts';
import type { AcceptedCalls } from './accepted-calls.ts';
import { faultEnd, plainEnd, reportFailure } from './failure-reply.ts';
import type { IncomingCall } from './incoming-call.ts';

/** An encoded answer. */
export interface Answer {
  readonly codec: Codec<unknown>;
  message: Message;
  readonly messageBytes: number;
  readonly trailers: Uint8Array;
}

/** The encoded message goes with the trailers, in memory that outlives the request. */
export function answerOf(
  call: IncomingCall,
  codec: Codec<unknown>,
  encoded: Message,
  messageBytes: number,
  trailers: Uint8Array,
): Answer {
  let message = encoded;
  // The lease goes back when the call is over, and the answer may still wait then.
  if (isBytes(message) && call.memory?.lease?.isUnder(message) === true) {
    message = new Uint8Array(message);
  }
  return { codec, message, messageBytes, trailers };
}

/**
 * A borrowed request goes back, unless most of its memory is the answer, which counts for it. A
 * short part of it is copied: a peer that reads no answers must not hold what nothing counts.
 */
function returnUnlessAnswer(call: IncomingCall, answer: Answer): void {
  const borrowed = call.memory?.borrowed;
  if (borrowed === undefined) return;
  const { message } = answer;
  if (isBytes(message) && borrowed.isUnder(message)) {
    if (2 * message.length >= borrowed.memoryBytes) return;
    answer.message = new Uint8Array(message);
  }
  call.returnRequest();
}

export class AnswerSender implements WaitQueue {
  readonly waitReason = 'answer-window';
  readonly departed = new Departures();
  readonly #calls: AcceptedCalls<IncomingCall>;
  readonly #waiting = new Map<IncomingCall, Answer>();

  constructor(calls: AcceptedCalls<IncomingCall>) {
    this.#calls = calls;
  }

  /** Answers that wait for the window. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Sends an answer in one frame where nothing waits: the short way of {@link AnswerSender.add}.
   * False: nothing was done.
   */
  sendNow(call: IncomingCall, message: Message, messageBytes: number): boolean {
    const { shared } = this.#calls;
    const { sendQueue, remote } = shared;
    const credit = shared.sendCredit[Window.answers] as SendCredit;
    const isShort =
      messageBytes <= sendQueue.fragmentBytes && messageBytes <= remote.receiveMaxBytes;
    const mayGo = this.#calls.waitingAnswers === 0 && credit.left > 0 && sendQueue.isFree;
    if (!isShort || !mayGo || call.memory !== undefined || isBlock(message)) return false;
    const header = sendQueue.header.answer(call.slot, call.generation, messageBytes);
    if (!sendQueue.sendNow(call, header, message, messageBytes)) return false;
    credit.spendFor(messageBytes);
    return true;
  }

  /** Sends an answer, or has it wait for the window. A too long one fails its call. */
  add(call: IncomingCall, answer: Answer): void {
    const { shared } = this.#calls;
    const { receiveMaxBytes } = shared.remote;
    if (answer.messageBytes > receiveMaxBytes) {
      releaseMessage(answer.message);
      call.returnRequest();
      const text = `the answer of ${answer.messageBytes} bytes exceeds the caller's receiveMaxBytes ${receiveMaxBytes}`;
      return call.answer(plainEnd('resource_exhausted', text));
    }
    returnUnlessAnswer(call, answer);
    call.isBorrowed = answer.codec.reusesBytes === true; // what the queue keeps is copied
    const credit = shared.sendCredit[Window.answers] as SendCredit;
    if (this.#waiting.size === 0 && credit.hasCredit) return this.#send(call, answer, credit);
    this.#wait(call, answer);
    this.resume();
  }

  /** Sends while there is window. */
  resume(): void {
    if (this.#waiting.size === 0) return;
    const credit = this.#calls.shared.sendCredit[Window.answers] as SendCredit;
    for (const [call, answer] of this.#waiting) {
      if (!credit.hasCredit) return;
      this.#remove(call, answer);
      this.#send(call, answer, credit);
    }
  }

  clear(): void {
    this.#waiting.clear();
    this.#calls.waitingAnswers = 0;
    this.#calls.waitingAnswerBytes = 0;
  }

  #wait(call: IncomingCall, answer: Answer): void {
    const { message } = answer;
    const isPart = isBytes(message) && isSmallPart(message);
    answer.message = isPart ? new Uint8Array(message) : keepWaiting(answer.codec, message);
    this.#waiting.set(call, answer);
    this.#calls.waitingAnswers += 1;
    this.#calls.waitingAnswerBytes += answer.messageBytes;
    const remove = (): void => {
      this.#remove(call, answer);
      releaseMessage(answer.message);
      call.returnRequest();
    };
    call.place = { waitReason: this.waitReason, remove };
    this.#calls.shared.waits.add(this);
  }

  #remove(call: IncomingCall, answer: Answer): void {
    call.place = undefined; // it holds the answer
    if (!this.#waiting.delete(call)) return;
    this.departed.add();
    this.#calls.waitingAnswers -= 1;
    this.#calls.waitingAnswerBytes -= answer.messageBytes;
  }

  #send(call: IncomingCall, answer: Answer, credit: SendCredit): void {
    const { shared } = this.#calls;
    const { message, messageBytes, trailers } = answer;
    if (isDetached(message, messageBytes)) {
      call.returnRequest();
      const error = detachedError(call.opening.method);
      reportFailure(shared, call, error);
      return call.answer(faultEnd(shared, error));
    }
    credit.spendFor(messageBytes);
    const { sendQueue } = shared;
    const endsHere = trailers.length === 0;
    const flags = endsHere ? FrameFlag.end : 0;
    const header = sendQueue.header.message(flags, call.slot, call.generation, messageBytes);
    this.#give(call, header, answer);
    if (!endsHere) sendEnd(sendQueue, call, 0, trailers, noBytes);
    call.close();
  }

  /**
   * Gives an answer to the send queue. A borrowed request goes back when the answer, which may be
   * in its memory, has left.
   */
  #give(call: IncomingCall, header: Uint8Array, { message, messageBytes }: Answer): void {
    const { sendQueue } = this.#calls.shared;
    if (call.memory?.borrowed === undefined || call.isBorrowed) {
      sendQueue.send(call, header, noBytes, message, messageBytes);
      return call.returnRequest();
    }
    const onTaken = (): void => call.returnRequest();
    if (sendQueue.send(call, header, noBytes, message, messageBytes, onTaken)) onTaken();
  }
}
