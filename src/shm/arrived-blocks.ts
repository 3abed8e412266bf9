// SPDX-License-Identifier: MIT
// Messages in the peer's block area: copied, or read in place under a lease. A lease that was not
// given back is given back when it was collected.
import { Buffer } from 'node:buffer';
import type { Clock } from '../base/clock.ts';
import type { ArrivedBlock, HeldLease, LentBytes } from '../wire/transport.ts';
import type { BlockAreas } from './block-areas.ts';
import type { CollectionWatch, OwnedTicket } from './collection-watch.ts';
import type { Ring } from './ring.ts';

/**
 * Released leases of one session. Tickets refer to this object, which forgets its session when that
 * ends; otherwise a lease in the closure of a handler would keep itself alive.
 */
export class LeaseReturns {
  readonly #ring: Ring;
  /** Schedules the publication that tells the peer. */
  #onReturn: (() => void) | undefined;
  readonly #waiting = new Map<number, () => void>();
  readonly #clock: Clock;
  // Numbers and words only: a reference to a lease would keep it from being collected.
  readonly #held = new Map<number, { bytes: number; sinceMs: number; owner: string }>();

  constructor(ring: Ring, clock: Clock, onReturn: () => void) {
    this.#ring = ring;
    this.#clock = clock;
    this.#onReturn = onReturn;
  }

  /** Leases that were given out and not released. */
  get held(): readonly HeldLease[] {
    const now = this.#clock.nowMs();
    return [...this.#held].map(([id, { bytes, sinceMs, owner }]) => {
      return { id, bytes, ageMs: now - sinceMs, owner };
    });
  }

  onLent(id: number, bytes: number, owner: string): void {
    this.#held.set(id, { bytes, sinceMs: this.#clock.nowMs(), owner });
  }

  release(id: number): void {
    this.#ring.releaseLease(id);
    this.#held.delete(id);
    this.#onReturn?.();
    const then = this.#waiting.get(id);
    this.#waiting.delete(id);
    then?.();
  }

  whenReleased(id: number, then: () => void): void {
    if (this.#onReturn !== undefined) this.#waiting.set(id, then);
  }

  /** The session is over: nothing is waited for. */
  close(): void {
    this.#onReturn = undefined;
    this.#waiting.clear();
  }
}

class LeaseTicket implements OwnedTicket {
  readonly returns: LeaseReturns;
  readonly id: number;
  isSettled = false;

  constructor(returns: LeaseReturns, id: number) {
    this.returns = returns;
    this.id = id;
  }

  release(): void {
    if (this.isSettled) return;
    this.isSettled = true;
    this.returns.release(this.id);
  }

  onCollected(): void {
    this.release();
  }
}

/** A lease that is a view of the peer's area, made where its bytes are asked for. */
class AreaLease implements LentBytes {
  readonly byteLength: number;
  readonly ticket: LeaseTicket;
  readonly #area: ArrayBuffer;
  readonly #offset: number;

  constructor(area: ArrayBuffer, offset: number, byteLength: number, ticket: LeaseTicket) {
    this.#area = area;
    this.#offset = offset;
    this.byteLength = byteLength;
    this.ticket = ticket;
  }

  get bytes(): Buffer {
    return Buffer.from(this.#area, this.#offset, this.byteLength);
  }

  release(): void {
    this.ticket.release();
  }

  whenReleased(then: () => void): void {
    this.ticket.returns.whenReleased(this.ticket.id, then);
  }
}

/** The parts of a session that its arrived blocks share. */
export interface Lending {
  readonly ring: Ring;
  readonly returns: LeaseReturns;
  /** undefined: the peer is not trusted not to change what it has sent. */
  readonly areas: BlockAreas | undefined;
  readonly watch: CollectionWatch;
}

/**
 * A message in the peer's block area. It is ours until it was copied, or its lease was released.
 */
export class ArrivedRingBlock implements ArrivedBlock {
  readonly byteLength: number;
  readonly #of: Lending;
  readonly #id: number;
  readonly #offset: number;
  #isTaken = false;

  /** The message that the ring has taken last. */
  constructor(of: Lending) {
    this.#of = of;
    this.#id = of.ring.leaseId;
    this.#offset = of.ring.leaseOffset;
    this.byteLength = of.ring.leaseBytes;
  }

  copyInto(target: Uint8Array): void {
    this.#of.ring.copyLease(this.#id, target);
    this.release();
  }

  lend(owner: string): LentBytes | undefined {
    const { returns, areas, watch } = this.#of;
    const area = this.#isTaken ? undefined : areas?.peers;
    if (area === undefined) return undefined;
    this.#isTaken = true;
    returns.onLent(this.#id, this.byteLength, owner);
    const ticket = new LeaseTicket(returns, this.#id);
    const lease = new AreaLease(area, this.#offset, this.byteLength, ticket);
    watch.add(lease);
    return lease;
  }

  release(): void {
    if (this.#isTaken) return;
    this.#isTaken = true;
    this.#of.returns.release(this.#id);
  }
}
