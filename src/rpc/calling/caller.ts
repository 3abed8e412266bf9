// SPDX-License-Identifier: MIT
// The half of a session that calls: a call is prepared, sent or put in a queue, and answered.

import type { Clock } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import { causedBy } from '../../base/incident.ts';
import { tuning } from '../../base/limits/internal-limits.ts';
import type { Random } from '../../base/random.ts';
import { CallKind, sendsMany } from '../../wire/frame-header.ts';
import type { OutgoingState } from '../call-states.ts';
import type { CallOptions } from '../contract/call-options.ts';
import { releaseBlockIn } from '../contract/leases.ts';
import { type CallTrace, traceCall } from '../counting/call-trace.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import { shortWay } from '../short-way.ts';
import { AnswerReceiver } from './answer-receiver.ts';
import type { MethodCall, SessionTarget } from './call-target.ts';
import { releaseAnswer } from './late-frames.ts';
import { OpenCalls } from './open-calls.ts';
import type { OutgoingCall } from './outgoing-call.ts';
import { emptyCall, prepareCall } from './prepare-call.ts';
import { sendCall, sendNow } from './send-call.ts';
import { WaitingCalls } from './waiting-calls.ts';

export class Caller implements SessionTarget {
  readonly outlivesSessions = false;
  readonly clock: Clock;
  readonly random: Random;
  readonly #calls: OpenCalls<OutgoingCall>;
  readonly #waiting: WaitingCalls;
  /** The number of calls that wait to be sent. */
  readonly #all: { readonly waiting: number };
  /** The receiver of frames of streams that we opened. */
  readonly answers: AnswerReceiver;

  constructor(shared: SessionShared) {
    this.clock = shared.clock;
    this.random = shared.random;
    this.#calls = new OpenCalls(shared);
    this.#waiting = new WaitingCalls(this.#calls);
    this.#all = this.#waiting.all;
    this.answers = new AnswerReceiver(this.#calls);
  }

  /** Calls that have not settled yet, notifications at work included. */
  get pending(): number {
    return this.#calls.streams.size - this.#calls.givenUp.waiting + this.waiting;
  }

  get work(): number {
    return this.#calls.streams.size + this.waiting;
  }

  get onFreed(): (() => void) | undefined {
    return this.#calls.streams.onFreed;
  }

  set onFreed(onFreed: (() => void) | undefined) {
    this.#calls.streams.onFreed = onFreed;
  }

  /** Calls and notifications that wait to be sent. */
  get waiting(): number {
    return this.#all.waiting;
  }

  /** Calls that were sent, ever. */
  get begun(): number {
    return this.#calls.begun;
  }

  /**
   * True: a call of ours has been sent in part, or a notification waits whose promise has resolved.
   */
  get isSending(): boolean {
    if (this.#waiting.hasReplies) return true;
    const open = this.#calls.streams.open();
    return open.some(({ queued, kind }) => queued > 0 && !sendsMany(kind));
  }

  /** Calls that have a slot and have not ended. */
  get openCalls(): readonly OutgoingCall[] {
    return this.#calls.streams.open();
  }

  /** Calls that wait to be sent, at most `max`: the first of each queue. */
  waitingCalls(max: number): readonly OutgoingCall[] {
    return this.#waiting.first(max);
  }

  /** The state of the call of this stream, for simulations; undefined: there is none. */
  stateOf(slot: number, generation: number): OutgoingState | undefined {
    return this.#calls.streams.peek(slot, generation)?.state;
  }

  /** A call with one answer, or a notification. Rejects, never throws. */
  call(callable: MethodCall, value: unknown, options: CallOptions | undefined): Promise<unknown> {
    const trace = traceCall(this.#calls.shared, callable.name, callable.kind);
    if (trace === undefined) return this.#open(callable, value, options, trace).promise;
    return trace.run(() => this.#open(callable, value, options, trace).promise);
  }

  /** Never throws: what is wrong rejects the call's promise, and fails its halves. */
  openStream(callable: MethodCall, value: unknown, options: CallOptions | undefined): OutgoingCall {
    const trace = traceCall(this.#calls.shared, callable.name, callable.kind);
    if (trace === undefined) return this.#open(callable, value, options, trace);
    return trace.run(() => this.#open(callable, value, options, trace));
  }

  #open(
    callable: MethodCall,
    value: unknown,
    options: CallOptions | undefined,
    trace: CallTrace | undefined,
  ): OutgoingCall {
    let call: OutgoingCall;
    try {
      call = prepareCall(this.#calls, callable, value, options);
    } catch (error) {
      releaseBlockIn(value);
      call = emptyCall(this.#calls, callable);
      call.trace = trace;
      call.refuse(error);
      return call;
    }
    if (trace !== undefined) {
      call.trace = trace;
      trace.sentBytes = call.messageBytes;
    }
    if (this.#all.waiting === 0 && shortWay.isOn && sendNow(this.#calls, call)) return call;
    if (!this.#waiting.mustWait(call)) sendCall(this.#calls, call);
    else if (this.waiting < tuning.waitingCallsMax) this.#waiting.add(call);
    else call.refuse(new SidecallError('ERR_SIDECALL_LIMIT_STREAMS', waitingText));
    return call;
  }

  /** Sends the calls that wait and need not wait any longer, in order. */
  resume(): void {
    if (this.#all.waiting === 0) return;
    for (let call = this.#waiting.next(); call; call = this.#waiting.next()) {
      sendCall(this.#calls, call);
    }
  }

  /** From now on every new call fails with this; those that wait fail at once, those open go on. */
  refuse(error: SidecallError): void {
    this.#calls.refusal ??= error;
    for (const call of this.#waiting.takeUnsettled()) {
      const refusal = new SidecallError(error.code, textOf(call, error), { delivered: 'no' });
      call.reject(causedBy(error, refusal));
    }
  }

  /**
   * As {@link Caller.refuse}; those that are open but of which nothing was sent fail, too.
   * Notifications leave.
   */
  refuseUnsent(error: SidecallError): void {
    this.refuse(error);
    for (const call of this.#calls.streams.open()) {
      const isNotification = call.kind === CallKind.notification;
      if (call.isWritten || !call.isOpen || isNotification) continue;
      call.close('us');
      const refusal = new SidecallError(error.code, textOf(call, error), { delivered: 'no' });
      call.reject(causedBy(error, refusal));
    }
  }

  /** The session is over: everything rejects, each with what is known of its delivery. */
  end(error: SidecallError): void {
    const calls = this.#calls;
    // The failure stays the reason for later calls, not an earlier goaway.
    if (error.code !== 'ERR_SIDECALL_CLOSED') calls.refusal = error;
    this.refuse(error);
    for (const call of this.#waiting.takeReplies()) call.fail(error);
    const { consumedPosition } = calls.shared.transport;
    for (const call of calls.streams.open()) {
      if (!call.isOpen) {
        releaseAnswer(calls.shared, call); // given up before
        continue;
      }
      const wasTaken = consumedPosition === undefined || call.sentPosition <= consumedPosition;
      const delivered = call.isWritten && wasTaken ? 'unknown' : 'no';
      call.close('us');
      if (call.isSettled) continue;
      const { cause } = error;
      const failure = new SidecallError(error.code, textOf(call, error), { cause, delivered });
      call.reject(causedBy(error, failure), false);
    }
  }
}

/** The text of a call that fails with its session: it names the method. */
function textOf(call: OutgoingCall, error: SidecallError): string {
  return `${call.method}: ${error.message}`;
}

const waitingText = `${tuning.waitingCallsMax} calls already wait on this session; the peer does not keep up`;
