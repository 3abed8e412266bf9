// SPDX-License-Identifier: MIT
// Blocks of our outbox that are filled in place, and blocks of the peer's that are read in
// place. A view keeps its block alive; a block that was not given back is given back when its
// last view has been collected.
import type { Clock } from '../base/clock.ts';
import type { ArrivedBlock, HeldLease, LentBytes, OwnBlock } from '../wire/transport.ts';
import type { Ring } from './ring.ts';

interface Ticket {
  /** The array buffer is gone. Its mapping may go, too. */
  onCollected(): void;
}

// Registry of array buffers, not of blocks and leases, which a view may outlive.
// The tickets hold no view.
const collected = new FinalizationRegistry<Ticket>((ticket) => ticket.onCollected());

/** The life of a block of ours: it is either freed or lent, once. */
class OwnBlockLifetime implements Ticket {
  readonly ring: Ring;
  readonly offset: number;
  isOurs = true;

  constructor(ring: Ring, offset: number) {
    this.ring = ring;
    this.offset = offset;
  }

  free(): void {
    if (!this.isOurs) return;
    this.isOurs = false;
    this.ring.releaseBlock(this.offset);
  }

  onCollected(): void {
    this.free();
    this.ring.releaseObject(true);
  }
}

/** A block of ours, as the transport sends it. */
export class RingBlock implements OwnBlock {
  readonly bytes: Buffer;
  readonly byteLength: number;
  readonly #ticket: OwnBlockLifetime;

  constructor(ring: Ring, bytes: Buffer, offset: number) {
    this.bytes = bytes;
    this.byteLength = bytes.byteLength;
    this.#ticket = new OwnBlockLifetime(ring, offset);
    collected.register(bytes.buffer, this.#ticket);
  }

  get offset(): number {
    return this.#ticket.offset;
  }

  seal(): void {
    this.#ticket.ring.detach(this.bytes.buffer as ArrayBuffer);
  }

  release(): void {
    this.seal();
    this.#ticket.free();
  }

  /** The peer has it. */
  onLent(): void {
    this.#ticket.isOurs = false;
  }
}

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

class LeaseTicket implements Ticket {
  readonly ring: Ring;
  readonly returns: LeaseReturns;
  readonly id: number;
  isHeld = true;

  constructor(ring: Ring, returns: LeaseReturns, id: number) {
    this.ring = ring;
    this.returns = returns;
    this.id = id;
  }

  release(): void {
    if (!this.isHeld) return;
    this.isHeld = false;
    this.returns.release(this.id);
  }

  onCollected(): void {
    this.release();
    this.ring.releaseObject(false);
  }
}

class RingLease implements LentBytes {
  readonly bytes: Buffer;
  readonly #ticket: LeaseTicket;

  constructor(bytes: Buffer, ticket: LeaseTicket) {
    this.bytes = bytes;
    this.#ticket = ticket;
    collected.register(bytes.buffer, ticket);
  }

  release(): void {
    const { ring, isHeld } = this.#ticket;
    if (isHeld) ring.detach(this.bytes.buffer as ArrayBuffer);
    this.#ticket.release();
  }

  whenReleased(then: () => void): void {
    this.#ticket.returns.whenReleased(this.#ticket.id, then);
  }
}

/**
 * A message in the peer's block area. It is ours until it was copied, or its lease was released.
 */
export class ArrivedRingBlock implements ArrivedBlock {
  readonly byteLength: number;
  readonly #ring: Ring;
  readonly #returns: LeaseReturns;
  readonly #id: number;
  readonly #mayLend: boolean;
  #isTaken = false;

  /** `mayLend`: the peer is trusted not to change what it has sent. */
  constructor(
    ring: Ring,
    returns: LeaseReturns,
    of: { id: number; byteLength: number; mayLend: boolean },
  ) {
    this.#ring = ring;
    this.#returns = returns;
    this.#id = of.id;
    this.byteLength = of.byteLength;
    this.#mayLend = of.mayLend;
  }

  copyInto(target: Uint8Array): void {
    this.#ring.copyLease(this.#id, target);
    this.release();
  }

  lend(owner: string): LentBytes | undefined {
    if (!this.#mayLend || this.#isTaken) return undefined;
    const bytes = this.#ring.lend(this.#id);
    if (bytes === undefined) return undefined; // the host wants no external buffers
    this.#isTaken = true;
    this.#returns.onLent(this.#id, this.byteLength, owner);
    return new RingLease(bytes, new LeaseTicket(this.#ring, this.#returns, this.#id));
  }

  release(): void {
    if (this.#isTaken) return;
    this.#isTaken = true;
    this.#returns.release(this.#id);
  }
}
