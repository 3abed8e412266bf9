// SPDX-License-Identifier: MIT
// The two outboxes of a connection while its hello is under way: ours is made, the peer's is
// checked.
import { Buffer } from 'node:buffer';
import { randomFillSync } from 'node:crypto';
import type { NativeAddon } from '../addon/addon-api.ts';
import type { Clock } from '../base/clock.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { pause } from '../base/pause.ts';
import type { HelloMemory } from '../uds/hello.ts';
import { HelloFeature, type MemoryShape } from '../uds/hello-bytes.ts';
import type { LaneCapacity } from '../wire/transport.ts';
import { type BlockAgreement, frameMaxFor, Ring } from './ring.ts';

export interface MemorySettings {
  /** Capacity of our outbox: a power of two. */
  readonly ringBytes: number;
  /** Bytes of our outbox for messages that are read where they lie: a multiple of 16 KiB. */
  readonly blockAreaBytes: number;
  /** True: messages in the peer's block area are accepted. */
  readonly takesBlocks: boolean;
  /** Bytes that all outboxes of this process may take together. */
  readonly shareMaxBytes: number;
  /** True: wait for memory that other rings are about to release. */
  readonly waits: boolean;
  /** The peer, by `ownerOf()`. */
  readonly owner: number;
  /** The signal of the hello, which ends each wait. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
}

// Pause between two attempts; attempts for memory of a ring whose session is about to close; and
// for memory that is being unmapped. They are counted, since on a busy machine one pause can take
// longer than all of them, and this process has had no turn to see that session end.
const waitMs = 10;
const attemptsForSession = 10;
const attemptsForThread = 100;

const usedUp = -1;
const underWay = -2;

const nonceBytes = 16;
const drawn = Buffer.alloc(64 * nonceBytes);
let drawnAt = drawn.length;

/** Random bytes. The system is asked for many at once: each question takes as long. */
function drawNonce(): Uint8Array {
  if (drawnAt === drawn.length) {
    randomFillSync(drawn);
    drawnAt = 0;
  }
  const nonce = Uint8Array.prototype.slice.call(drawn, drawnAt, drawnAt + nonceBytes);
  drawnAt += nonceBytes;
  return nonce;
}

export class RingMemory implements HelloMemory {
  readonly shape: MemoryShape;
  readonly features: number;
  readonly #native: NativeAddon;
  readonly #settings: MemorySettings;
  readonly #handle: number;
  #descriptor = -1;
  #isOpen = true;
  #peerBytes = 0;
  /** The reason on this side why there is no ring; undefined: none. */
  failure: string | undefined;

  constructor(native: NativeAddon, settings: MemorySettings) {
    this.#native = native;
    this.#settings = settings;
    const { ringBytes: capacity, blockAreaBytes: blockArea } = settings;
    this.shape = { capacity, blockArea, nonce: drawNonce() };
    this.features = settings.takesBlocks ? HelloFeature.takesBlocks : 0;
    this.#handle = native.openRing();
    if (!isListening) native.listenForNotifications(onNotification);
    isListening = true;
  }

  /** Largest frame that a record of our outbox holds, header included. */
  get frameMaxBytes(): number {
    return frameMaxFor(this.shape.capacity);
  }

  async create(): Promise<number | undefined> {
    const { capacity, blockArea, nonce } = this.shape;
    const { shareMaxBytes, waits, owner, signal, clock } = this.#settings;
    const native = this.#native;
    const fits = capacity + blockArea < shareMaxBytes;
    const handle = this.#handle;
    try {
      const make = (): number =>
        native.createOutbox(handle, capacity, blockArea, nonce, shareMaxBytes, owner);
      let made = make();
      for (let attempts = 1; made === usedUp && waits && fits; attempts += 1) {
        if (attempts > (native.isReclaiming() ? attemptsForThread : attemptsForSession)) break;
        await pause(clock, waitMs, signal);
        signal.throwIfAborted();
        if (!this.#isOpen) return undefined;
        made = make();
      }
      while (made === underWay) {
        await nextNotification(handle, signal);
        if (!this.#isOpen) return undefined; // the number may be another connection's by now
        made = native.takeOutbox(handle);
      }
      if (made >= 0) {
        this.#descriptor = made;
        return made;
      }
      this.failure = `ringMemoryMaxBytes ${shareMaxBytes} is used up by the rings of this process`;
    } catch (error) {
      signal.throwIfAborted();
      this.failure = `shared memory could not be made: ${errorText(error)}`;
    }
    return undefined;
  }

  noteSent(why: string | undefined): void {
    this.#closeDescriptor();
    if (why !== undefined) this.failure = `our shared memory could not be sent: ${why}`;
  }

  async accept(descriptor: number, { capacity, blockArea, nonce }: MemoryShape): Promise<boolean> {
    this.#peerBytes = capacity;
    const { takesBlocks, owner, signal } = this.#settings;
    const native = this.#native;
    const handle = this.#handle;
    if (!native.acceptOutbox(handle, descriptor, capacity, blockArea, nonce, takesBlocks, owner)) {
      this.failure = "the system has no thread left to check the peer's shared memory";
      return false;
    }
    for (;;) {
      await nextNotification(handle, signal);
      if (!this.#isOpen) return false;
      const taken = native.takeAccepted(handle);
      if (taken === true) return true;
      if (taken === false) continue;
      this.failure = `the peer offers ${taken.what}`;
      if (taken.isViolation) throw new SidecallError('ERR_SIDECALL_PROTOCOL', this.failure);
      return false;
    }
  }

  /** The outboxes of both sides, in bytes. NOTE: once both were accepted. */
  get laneCapacity(): LaneCapacity {
    return { send: this.shape.capacity, receive: this.#peerBytes };
  }

  releaseDescriptor(descriptor: number): void {
    this.#native.dropReceived(descriptor, this.#settings.owner);
  }

  /**
   * Joins both outboxes, which were accepted. `peerFeatures`: bits of the peer's hello.
   * @throws what duplicating the socket throws.
   */
  join(fd: number, peerFeatures: number): Ring {
    const agreement: BlockAgreement = {
      mayLend: (peerFeatures & HelloFeature.takesBlocks) !== 0,
      mayBorrow: this.#settings.takesBlocks,
    };
    const ring = new Ring(this.#native, this.#handle, fd, agreement);
    this.#isOpen = false;
    return ring;
  }

  /** Gives back what was made, unless it was joined. A second call has no further effect. */
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

/** Hellos that wait for a thread, by the numbers of their rings. */
const waiting = new Map<number, Set<() => void>>();
let isListening = false;

function onNotification(ring: number): void {
  for (const wake of [...(waiting.get(ring) ?? [])]) wake();
}

/**
 * Resolves when a thread may have made or checked the memory of this ring. Two may wait for one
 * ring, ours and the peer's.
 * @throws the reason of the signal.
 */
async function nextNotification(ring: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  await new Promise<void>((resolve) => {
    const wakes = waiting.get(ring) ?? new Set();
    const wake = (): void => {
      wakes.delete(wake);
      if (wakes.size === 0) waiting.delete(ring);
      signal.removeEventListener('abort', wake);
      resolve();
    };
    waiting.set(ring, wakes.add(wake));
    signal.addEventListener('abort', wake);
  });
  signal.throwIfAborted();
}
