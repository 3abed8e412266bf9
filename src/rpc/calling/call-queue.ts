// SPDX-License-Identifier: MIT
// Calls of ours that wait to be sent, in their order.
import { Fifo } from '../../base/fifo.ts';
import type { WaitingPlace, WaitReason } from '../stalls.ts';
import type { OutgoingCall } from './outgoing-call.ts';

export class CallQueue implements WaitingPlace {
  readonly #calls = new Fifo<OutgoingCall>();
  readonly #reasonOf: (call: OutgoingCall) => WaitReason;
  departed = 0;

  /** `reasonOf`: why the first of them cannot be sent. */
  constructor(reasonOf: (call: OutgoingCall) => WaitReason) {
    this.#reasonOf = reasonOf;
  }

  get waiting(): number {
    return this.#calls.length;
  }

  get waitReason(): WaitReason {
    const first = this.#calls.peek();
    return first === undefined ? 'slot' : this.#reasonOf(first);
  }

  peek(): OutgoingCall | undefined {
    return this.#calls.peek();
  }

  push(call: OutgoingCall): void {
    this.#calls.push(call);
  }

  shift(): OutgoingCall | undefined {
    this.departed += 1;
    return this.#calls.shift();
  }

  /** False: it does not wait here. */
  remove(call: OutgoingCall): boolean {
    const isFound = this.#calls.remove(call);
    if (isFound) this.departed += 1;
    return isFound;
  }

  /** Those for which `is` holds, which wait no longer. */
  removeAll(is: (call: OutgoingCall) => boolean): OutgoingCall[] {
    const removed: OutgoingCall[] = [];
    for (let left = this.#calls.length; left > 0; left -= 1) {
      const call = this.#calls.shift() as OutgoingCall;
      if (is(call)) removed.push(call);
      else this.#calls.push(call);
    }
    this.departed += removed.length;
    return removed;
  }
}
