// SPDX-License-Identifier: MIT
// Blocks of our outbox, which are filled in place. A block that was neither sent nor freed is freed
// when it was collected.
import { Buffer } from 'node:buffer';
import type { OwnBlock } from '../wire/transport.ts';
import { type OwnedTicket, watchCollection } from './collection-watch.ts';
import type { Ring } from './ring.ts';

/** A block of ours, as the transport sends it. */
export interface RingBlock extends OwnBlock {
  readonly offset: number;
  readonly byteLength: number;
  /** The peer has it. */
  onLent(): void;
}

/** The life of a block: it is either freed or lent, once. */
class BlockTicket implements OwnedTicket {
  readonly ring: Ring;
  readonly offset: number;
  isSettled = false;

  constructor(ring: Ring, offset: number) {
    this.ring = ring;
    this.offset = offset;
  }

  free(): void {
    if (this.isSettled) return;
    this.isSettled = true;
    this.ring.releaseBlock(this.offset);
  }

  onCollected(): void {
    this.free();
  }
}

/** The life of a block with an array buffer of its own, whose mapping may go with it. */
class DetachableTicket extends BlockTicket {
  override onCollected(): void {
    this.free();
    this.ring.releaseObject(true);
  }
}

/** A block with an array buffer of its own, which is detached when the block is sent. */
export class DetachableBlock implements RingBlock {
  readonly sharesMemory = false;
  readonly bytes: Buffer;
  readonly byteLength: number;
  readonly #ticket: DetachableTicket;

  constructor(ring: Ring, bytes: Buffer, offset: number) {
    this.bytes = bytes;
    this.byteLength = bytes.length;
    this.#ticket = new DetachableTicket(ring, offset);
    watchCollection(bytes.buffer, this.#ticket);
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

  onLent(): void {
    this.#ticket.isSettled = true;
  }
}

/** A block that is a view of our area, made where its bytes are asked for. */
export class AreaBlock implements RingBlock {
  readonly sharesMemory = true;
  readonly byteLength: number;
  readonly ticket: BlockTicket;
  readonly #area: ArrayBuffer;

  constructor(ring: Ring, area: ArrayBuffer, offset: number, byteLength: number) {
    this.#area = area;
    this.byteLength = byteLength;
    this.ticket = new BlockTicket(ring, offset);
  }

  get offset(): number {
    return this.ticket.offset;
  }

  get bytes(): Buffer {
    return Buffer.from(this.#area, this.offset, this.byteLength);
  }

  seal(): void {
    // Views of it stay as they are: the program is trusted not to write into what it has sent.
  }

  release(): void {
    this.ticket.free();
  }

  onLent(): void {
    this.ticket.isSettled = true;
  }
}
