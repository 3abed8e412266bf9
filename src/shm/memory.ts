// SPDX-License-Identifier: MIT
// The two outboxes of a connection while its hello is under way: ours is made, the peer's is checked.
import { randomBytes } from 'node:crypto';
import { SidecallError } from '../errors.ts';
import { frameMaxBytes } from '../frame.ts';
import type { NativeAddon } from '../native.ts';
import { HelloFeature, type HelloMemory, type MemoryShape } from '../uds/hello.ts';
import { wordsOf } from '../words.ts';
import { type BlockAgreement, Ring } from './ring.ts';

/** Of the header in front of each record. */
const recordOverheadBytes = 8;

export interface MemorySettings {
  /** Capacity of our outbox: a power of two. */
  readonly ringBytes: number;
  /** Bytes of our outbox for messages that are read where they lie: a multiple of 16 KiB. */
  readonly blockAreaBytes: number;
  /** Do we take messages that lie in the peer's? */
  readonly takesBlocks: boolean;
  /** Bytes that all outboxes of this process may take together. */
  readonly shareMaxBytes: number;
}

export class RingMemory implements HelloMemory {
  readonly shape: MemoryShape;
  readonly features: number;
  readonly #native: NativeAddon;
  readonly #settings: MemorySettings;
  readonly #handle: number;
  #descriptor = -1;
  #isOpen = true;
  /** What stood in the way of a ring, as far as this side did it. */
  failure: string | undefined;

  constructor(native: NativeAddon, settings: MemorySettings) {
    this.#native = native;
    this.#settings = settings;
    const { ringBytes: capacity, blockAreaBytes: blockArea } = settings;
    this.shape = { capacity, blockArea, nonce: randomBytes(16) };
    this.features = settings.takesBlocks ? HelloFeature.takesBlocks : 0;
    this.#handle = native.openRing();
  }

  /** Largest frame that a record of our outbox holds, header included. */
  get frameMaxBytes(): number {
    const recordMaxBytes = Math.min(frameMaxBytes + recordOverheadBytes, this.shape.capacity / 2);
    return recordMaxBytes - recordOverheadBytes;
  }

  create(): number | undefined {
    const { capacity, blockArea, nonce } = this.shape;
    const { shareMaxBytes } = this.#settings;
    try {
      const descriptor = this.#native.createOutbox(
        this.#handle,
        capacity,
        blockArea,
        nonce,
        shareMaxBytes,
      );
      if (descriptor >= 0) {
        this.#descriptor = descriptor;
        return descriptor;
      }
      this.failure = `ringMemoryMaxBytes ${shareMaxBytes} is used up by the rings of this process`;
    } catch (error) {
      this.failure = `shared memory could not be made: ${wordsOf(error)}`;
    }
    return undefined;
  }

  noteSent(why: string | undefined): void {
    this.#closeDescriptor();
    if (why !== undefined) this.failure = `our shared memory could not be sent: ${why}`;
  }

  accept(descriptor: number, { capacity, blockArea, nonce }: MemoryShape): boolean {
    const refusal = this.#native.acceptOutbox(this.#handle, descriptor, capacity, blockArea, nonce);
    if (refusal === undefined) return true;
    if (refusal.isViolation) {
      throw new SidecallError('ERR_SIDECALL_PROTOCOL', `the peer offers ${refusal.what}`);
    }
    this.failure = `the peer offers ${refusal.what}`;
    return false;
  }

  drop(descriptor: number): void {
    this.#native.dropReceived(descriptor);
  }

  /** Both halves were accepted by a peer of these features. @throws what duplicating the socket throws. */
  join(fd: number, peerFeatures: number): Ring {
    const agreement: BlockAgreement = {
      mayLend: (peerFeatures & HelloFeature.takesBlocks) !== 0,
      mayBorrow: this.#settings.takesBlocks,
    };
    const ring = new Ring(this.#native, this.#handle, fd, agreement);
    this.#isOpen = false;
    return ring;
  }

  /** Gives back what was made, unless it was joined. Twice is once. */
  close(): void {
    this.#closeDescriptor();
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#native.closeRing(this.#handle);
  }

  #closeDescriptor(): void {
    if (this.#descriptor >= 0) this.#native.closeDescriptor(this.#descriptor);
    this.#descriptor = -1;
  }
}
