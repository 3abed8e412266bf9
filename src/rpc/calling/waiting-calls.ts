// SPDX-License-Identifier: MIT
// The queues of calls that wait for a slot, for credit or for the send queue.
import { tuning } from '../../base/tuning.ts';
import { CallKind } from '../../wire/frame-header.ts';
import { armDeadline, deadlineAfter } from '../deadline.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import { CallQueue } from './call-queue.ts';
import type { OpenCalls } from './open-calls.ts';
import type { OutgoingCall } from './outgoing-call.ts';
import { isBulk, whyWaits } from './send-call.ts';

export class WaitingCalls {
  readonly #shared: SessionShared;
  readonly #builtIn: CallQueue;
  // Notifications by handlers of the peer's notifications. They go first, and their handlers need
  // not wait for it: two sides whose handlers notify back would else wait for each other, each with
  // a window full of unsettled handlers.
  readonly #replies: CallQueue;
  readonly #notifications: CallQueue;
  readonly #short: CallQueue;
  // Calls with a long message wait apart: the send queue has a bound of its own for those.
  readonly #long: CallQueue;
  /** All of them, the first to be looked at first. */
  readonly #queues: readonly CallQueue[];

  constructor(calls: OpenCalls<OutgoingCall>) {
    this.#shared = calls.shared;
    const queue = (): CallQueue => new CallQueue((call) => whyWaits(calls, call));
    this.#builtIn = queue();
    this.#replies = queue();
    this.#notifications = queue();
    this.#short = queue();
    this.#long = queue();
    this.#queues = [this.#builtIn, this.#replies, this.#notifications, this.#short, this.#long];
  }

  get count(): number {
    let count = 0;
    for (const { waiting } of this.#queues) count += waiting;
    return count;
  }

  /** A notification waits whose promise has resolved. */
  get hasReplies(): boolean {
    return this.#replies.waiting > 0;
  }

  /** Calls of its kind wait: it has to wait behind them. */
  isBehind(call: OutgoingCall): boolean {
    return this.#queueOf(call).waiting > 0;
  }

  add(call: OutgoingCall): void {
    const { request } = call;
    if (request.isTransient && request.message instanceof Uint8Array) {
      request.message = new Uint8Array(request.message);
    }
    const queue = this.#queueOf(call);
    const isFirst = queue.bytes < this.#shared.own.streamWindowBytes;
    queue.push(call);
    this.#shared.waits.add(queue);
    if (!request.isReply) return;
    // As much as one window holds, and always one: it is what lets the handlers of both sides
    // settle.
    if (isFirst) return call.resolve(undefined);
    // Beyond that the other side may be waiting for us as we wait for it.
    if (call.deadline === undefined) armDeadline(call, deadlineAfter(tuning.replyWaitMaxMs));
  }

  /** Takes out the next call that can be sent. */
  next(): OutgoingCall | undefined {
    for (const queue of this.#queues) {
      const call = queue.waiting === 0 ? undefined : queue.next();
      if (call !== undefined) return call;
    }
    return undefined;
  }

  /** Takes out all calls whose promise has not settled. */
  takeUnsettled(): OutgoingCall[] {
    return this.#queues.flatMap((queue) => queue.removeAll(({ isSettled }) => !isSettled));
  }

  /** Takes out the notifications that are left. */
  takeReplies(): OutgoingCall[] {
    return this.#replies.removeAll(() => true);
  }

  #queueOf({ request }: OutgoingCall): CallQueue {
    if (request.isBuiltIn) return this.#builtIn;
    if (request.isReply) return this.#replies;
    if (request.kind === CallKind.notification) return this.#notifications;
    return isBulk(this.#shared, request) ? this.#long : this.#short;
  }
}
