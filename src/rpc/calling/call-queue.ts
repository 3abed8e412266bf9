// SPDX-License-Identifier: MIT
// Calls of ours that wait to be sent, in their order.
import { Fifo } from '../../base/fifo.ts';
import type { WaitReason } from '../../base/wait-reasons.ts';
import { chargeOf } from '../sending/credit.ts';
import { Departures, type WaitQueue } from '../stalls.ts';
import type { OutgoingCall } from './outgoing-call.ts';

export class CallQueue implements WaitQueue {
  readonly #calls = new Fifo<OutgoingCall>();
  readonly #reasonOf: (call: OutgoingCall) => WaitReason | undefined;
  readonly #all: { waiting: number };
  readonly departed = new Departures();
  /** Bytes of their messages, as a window counts them. */
  bytes = 0;

  /** `reasonOf`: why the first of them cannot be sent; `all`: the calls of all queues. */
  constructor(reasonOf: (call: OutgoingCall) => WaitReason | undefined, all: { waiting: number }) {
    this.#reasonOf = reasonOf;
    this.#all = all;
  }

  get waiting(): number {
    return this.#calls.length;
  }

  get waitReason(): WaitReason {
    const first = this.#calls.peek();
    return first === undefined ? 'slot' : (this.#reasonOf(first) ?? 'send-queue');
  }

  push(call: OutgoingCall): void {
    call.place = this;
    this.bytes += chargeOf(call.messageBytes);
    this.#calls.push(call);
    this.#all.waiting += 1;
  }

  /** The first `max` calls. */
  first(max: number): readonly OutgoingCall[] {
    return this.#calls.items(max);
  }

  /** Takes the first call out if it can be sent. */
  next(): OutgoingCall | undefined {
    const first = this.#calls.peek();
    if (first === undefined || this.#reasonOf(first) !== undefined) return undefined;
    this.#calls.shift();
    this.#onTaken(first);
    return first;
  }

  remove(call: OutgoingCall): void {
    if (this.#calls.remove(call)) this.#onTaken(call);
  }

  /** Takes out those for which `is` holds. */
  removeAll(is: (call: OutgoingCall) => boolean): OutgoingCall[] {
    const removed = this.#calls.removeAll(is);
    for (const call of removed) this.#onTaken(call);
    return removed;
  }

  #onTaken(call: OutgoingCall): void {
    call.place = undefined;
    this.#all.waiting -= 1;
    this.bytes -= chargeOf(call.messageBytes);
    this.departed.add();
  }
}
