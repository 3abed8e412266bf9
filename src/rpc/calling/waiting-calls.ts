// SPDX-License-Identifier: MIT
// The queues of calls that wait for a slot, for credit or for the send queue.
import { isBytes } from '../../base/brands.ts';
import { tuning } from '../../base/limits/internal-limits.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import type { WaitReason } from '../../base/wait-reasons.ts';
import { CallKind } from '../../wire/frame-header.ts';
import { queuedBytesOf } from '../contract/encode-message.ts';
import { armDeadline, deadlineAfter } from '../deadline.ts';
import { type SendCredit, Window } from '../sending/credit.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import { CallQueue } from './call-queue.ts';
import type { OpenCalls } from './open-calls.ts';
import type { OutgoingCall } from './outgoing-call.ts';

export class WaitingCalls {
  readonly #calls: OpenCalls<OutgoingCall>;
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
  /** The number of calls in all queues. */
  readonly all = { waiting: 0 };
  /** All of them, the first to be looked at first. */
  readonly #queues: readonly CallQueue[];

  constructor(calls: OpenCalls<OutgoingCall>) {
    this.#calls = calls;
    this.#shared = calls.shared;
    const queue = (): CallQueue => new CallQueue((call) => waitReasonOf(calls, call), this.all);
    this.#builtIn = queue();
    this.#replies = queue();
    this.#notifications = queue();
    this.#short = queue();
    this.#long = queue();
    this.#queues = [this.#builtIn, this.#replies, this.#notifications, this.#short, this.#long];
  }

  /** A notification waits whose promise has resolved. */
  get hasReplies(): boolean {
    return this.#replies.waiting > 0;
  }

  /** The call cannot be sent now, or calls of its kind wait already. */
  mustWait(call: OutgoingCall): boolean {
    const isBehind = this.all.waiting > 0 && this.#queueOf(call).waiting > 0;
    return isBehind || waitReasonOf(this.#calls, call) !== undefined;
  }

  add(call: OutgoingCall): void {
    const queue = this.#queueOf(call);
    const isFirst = queue.bytes < this.#shared.own.streamWindowBytes;
    // The sender may use the memory again: of a reply that resolves below, at once.
    const isReused = call.isTransient || (call.isReply && isFirst);
    if (isReused && isBytes(call.message)) {
      call.message = new Uint8Array(call.message);
    }
    queue.push(call);
    this.#shared.moments.begin(call);
    this.#shared.waits.add(queue);
    if (!call.isReply) return;
    // Up to one window of replies, and at least one, resolve at once: so the handlers
    // of both sides can settle.
    if (isFirst) return call.resolve(undefined);
    // Further replies get a deadline, since both sides may be waiting for each other.
    const { clock } = this.#shared;
    if (call.deadline === undefined) {
      armDeadline(clock, call, deadlineAfter(clock, tuning.replyWaitMaxMs));
    }
  }

  /** Takes out the next call that can be sent. */
  next(): OutgoingCall | undefined {
    if (this.all.waiting === 0) return undefined;
    for (const queue of this.#queues) {
      const call = queue.waiting === 0 ? undefined : queue.next();
      if (call !== undefined) return call;
    }
    return undefined;
  }

  /** The first of each queue, `max` together: each queue may wait for another reason. */
  first(max: number): readonly OutgoingCall[] {
    const queues = this.#queues.filter(({ waiting }) => waiting > 0);
    return queues.flatMap((queue) => queue.first(Math.floor(max / queues.length)));
  }

  /** Takes out all calls whose promise has not settled. */
  takeUnsettled(): OutgoingCall[] {
    return this.#queues.flatMap((queue) => queue.removeAll(({ isSettled }) => !isSettled));
  }

  /** Takes out the notifications that are left. */
  takeReplies(): OutgoingCall[] {
    return this.#replies.removeAll(() => true);
  }

  #queueOf(call: OutgoingCall): CallQueue {
    if (call.isBuiltIn) return this.#builtIn;
    if (call.isReply) return this.#replies;
    if (call.kind === CallKind.notification) return this.#notifications;
    return isBulk(this.#shared, call) ? this.#long : this.#short;
  }
}

/** The message waits behind those of short calls. */
function isBulk({ sendQueue }: SessionShared, call: OutgoingCall): boolean {
  const queuedBytes = queuedBytesOf(call.message, call.messageBytes);
  return call.isBulk || sendQueue.isBulk(call.metadata.length + queuedBytes);
}

/** Why the call cannot be sent now; undefined: it can. */
function waitReasonOf(calls: OpenCalls<OutgoingCall>, call: OutgoingCall): WaitReason | undefined {
  const { shared, streams } = calls;
  const { sendQueue, own } = shared;
  if (sendQueue.isHeld) return 'send-queue';
  if (streams.hasExtra && takesExtra(calls, call)) return undefined;
  if (!streams.hasRoom) return 'slot';
  if (!call.credit.hasCredit) {
    return call.kind === CallKind.notification ? 'notification-window' : 'request-window';
  }
  const hasRoom = sendQueue.hasRoom(isBulk(shared, call), own.sendQueueMaxBytes);
  return hasRoom ? undefined : 'send-queue';
}

/** A call of a built-in service that finds no slot or no credit. */
export function takesExtra(
  { shared, streams }: OpenCalls<OutgoingCall>,
  { isBuiltIn, messageBytes }: OutgoingCall,
): boolean {
  if (!isBuiltIn || messageBytes > wireLimits.extraMaxBytes) return false;
  const { hasCredit } = shared.sendCredit[Window.requests] as SendCredit;
  return !(streams.hasRoom && hasCredit);
}
