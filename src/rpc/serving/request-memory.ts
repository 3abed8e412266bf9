// SPDX-License-Identifier: MIT
// The memory of a request that goes back when its handlers have settled: memory that its codec
// borrows, or a lease. Behind interceptors, which may answer first, it goes back when the handlers
// behind them have settled, too.
import type { Lease } from '../contract/leases.ts';
import type { MessageAssembly } from '../streams/message-assembly.ts';

/** The function of a context that notes a handler behind interceptors. */
export const holdsRequest: unique symbol = Symbol('sidecall.holdsRequest');

/** A context of a call, whose request its handlers read. */
export interface RequestHolder {
  /** @internal */
  [holdsRequest](handler: Promise<unknown>): void;
}

export class RequestMemory {
  /** The memory of a request that its codec borrows; undefined: it has gone back, or is a lease. */
  borrowed: MessageAssembly | undefined;
  /** The request, if it is a lease. */
  readonly lease: Lease | undefined;
  #running = 0;
  #owesBorrowed = false;
  #owesLease = false;

  constructor(borrowed: MessageAssembly | undefined, lease: Lease | undefined) {
    this.borrowed = borrowed;
    this.lease = lease;
  }

  /** A handler behind interceptors runs: it reads the request until it has settled. */
  holdFor(handler: Promise<unknown>): void {
    this.#running += 1;
    const onSettled = (): void => this.#onSettled();
    handler.then(onSettled, onSettled);
  }

  /** The borrowed memory goes back: at once, or when the handlers have settled. */
  returnBorrowed(): void {
    this.#owesBorrowed = this.#running > 0;
    if (this.#owesBorrowed) return;
    this.borrowed?.release();
    this.borrowed = undefined;
  }

  /** The lease goes back, unless the application keeps it. */
  settleLease(): void {
    this.#owesLease = this.#running > 0;
    if (!this.#owesLease) this.lease?.settle();
  }

  #onSettled(): void {
    this.#running -= 1;
    if (this.#owesBorrowed) this.returnBorrowed();
    if (this.#owesLease) this.settleLease();
  }
}
