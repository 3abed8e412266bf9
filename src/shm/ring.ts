// SPDX-License-Identifier: MIT
// The native ring, typed. Figures come through registers, and short frames through memory that both
// sides know, so that a call allocates nothing.

import { Buffer } from 'node:buffer';
import type { NativeAddon } from '../addon/addon-api.ts';
import { copyBytes, lengthOf } from '../base/bytes.ts';
import { SidecallError } from '../base/errors.ts';
import { noBytes } from '../base/ignore-errors.ts';
import { frameMaxBytes, headerBytesOf, headerViews } from '../wire/frame-header.ts';
import type { RingCopies } from '../wire/ring-report.ts';
import type { Bulk, RingCounts } from '../wire/transport.ts';

/** The result of a call. `refused`: a mistake of ours, such as a call after the ring was closed. */
export const RingResult = { written: 1, full: 0, corrupt: -1, refused: -2 } as const;

/** The reason why a drain stopped. */
export const DrainResult = { nothing: 0, more: 1, large: 2, block: 3, corrupt: -1 } as const;

/** The error for a ring whose state no correct peer leaves. */
export function corrupt(): SidecallError {
  return new SidecallError('ERR_SIDECALL_RING_CORRUPT');
}

/** Indices into the registers. */
export const Register = {
  filled: 0,
  largeBytes: 1,
  records: 2,
  /** Our producer's position behind the last frame written. */
  written: 3,
  seen: 4,
  owesDoorbell: 5,
  block: 6,
  blockBytes: 7,
  blockOffset: 8,
} as const;

/**
 * Longest payload that goes through the staging memory; a longer one goes from its own
 * memory into the ring. V8 keeps short arrays on its heap, and asking Node-API for their
 * bytes moves them out of it.
 */
const stagedMaxBytes = 4096;

/** Of the header in front of each record. */
const recordOverheadBytes = 8;

/** Largest frame that a record of an outbox of this capacity holds, header included. */
export function frameMaxFor(capacity: number): number {
  return Math.min(frameMaxBytes + recordOverheadBytes, capacity / 2) - recordOverheadBytes;
}

/** Bytes of the reference to a block, in front of the frame in the slab. */
export const blockReferenceBytes = 24;

/** The agreement of the hello on messages in block areas. */
export interface BlockAgreement {
  /** True: messages may lie in our block area. */
  readonly mayLend: boolean;
  /** True: messages may lie in the peer's block area. */
  readonly mayBorrow: boolean;
}

/** Both outboxes of one connection. NOTE: nothing may be called after `close()` but `close()`. */
export class Ring {
  readonly #native: NativeAddon;
  readonly #handle: number;
  /** The figures of the last call, by {@link Register}. */
  readonly registers: Float64Array;
  /** The memory of the next frame. */
  readonly #staged: Buffer;
  /** Places for its header, by the type of the frame. */
  readonly headers: readonly Uint8Array[];
  /** The memory that `drain()` fills: for each frame a u32 with its length, then the frame. */
  readonly slab: Uint8Array;
  #isClosed = false;
  /** The last numbers of a ring that is closed. */
  #closed: RingCounts | undefined;

  /**
   * NOTE: takes the handle over; both outboxes were accepted. @throws what duplicating `fd` throws.
   */
  constructor(
    native: NativeAddon,
    handle: number,
    fd: number,
    { mayLend, mayBorrow }: BlockAgreement,
  ) {
    const { slab, staged, registers } = native.ringExchange();
    native.joinRing(handle, fd, mayLend, mayBorrow);
    this.#native = native;
    this.#handle = handle;
    this.slab = slab;
    this.#staged = Buffer.from(staged.buffer, staged.byteOffset, staged.length);
    this.headers = headerViews(staged); // no Buffer, whose slice() copies nothing
    this.registers = registers;
  }

  /** Bytes that the last drain put into the slab. */
  get filledBytes(): number {
    return this.registers[Register.filled] as number;
  }

  /**
   * Payload of the large record that the last drain stopped at, or 0; its head follows what is
   * filled.
   */
  get largeBytes(): number {
    return this.registers[Register.largeBytes] as number;
  }

  /** Records that the last drain looked at, padding included. */
  get records(): number {
    return this.registers[Register.records] as number;
  }

  /**
   * The position up to which the peer has certainly consumed. NOTE: valid right after `freeze()` of
   * this ring, and only then.
   */
  get seenPosition(): number {
    return this.registers[Register.seen] as number;
  }

  /** The last `prepareToSleep()` found a doorbell that the kernel had no memory for. */
  get owesDoorbell(): boolean {
    return this.registers[Register.owesDoorbell] === 1;
  }

  /** The result is a number of {@link RingResult}. */
  write(header: Uint8Array, payload: Uint8Array | string = noBytes, bulk: Bulk = false): number {
    const staged = this.#staged;
    const type = header[0] as number;
    const headBytes = headerBytesOf[type] as number;
    if (header !== this.headers[type]) staged.set(header);
    const queue = bulk === 'shared' ? 2 : bulk ? 1 : 0;
    if (typeof payload === 'string') {
      const bytes = headBytes + staged.write(payload, headBytes);
      return this.#native.ringWriteStaged(this.#handle, bytes, queue);
    }
    const payloadBytes = lengthOf.call(payload);
    if (payloadBytes > stagedMaxBytes) {
      return this.#native.ringWriteBytes(this.#handle, headBytes, payload, queue);
    }
    copyBytes.call(staged, payload, headBytes);
    return this.#native.ringWriteStaged(this.#handle, headBytes + payloadBytes, queue);
  }

  /**
   * Makes visible what was written, and rings where the peer sleeps. False: something is owed, a
   * doorbell or leases that go back and found no room.
   */
  publish(): boolean {
    return this.#native.ringPublish(this.#handle) === RingResult.written;
  }

  /** The result is a number of {@link DrainResult}. */
  drain(recordsMax: number, looks = 0): number {
    return this.#native.ringDrain(this.#handle, recordsMax, looks);
  }

  /** Lets the C library use the memory of long messages again. Once per thread is enough. */
  expectLongMessages(): void {
    this.#native.keepFreedBlocks();
  }

  /** The large record from byte `skip` on, which leaves exactly the bytes of `target`. */
  take(skip: number, target: Uint8Array): void {
    if (this.#native.ringTake(this.#handle, skip, target) === RingResult.written) return;
    throw new Error('a record was taken that is not next'); // our own mistake
  }

  /** A block of ours; undefined: there is none, or the host wants no external buffers. */
  allocate(bytes: number): { bytes: Buffer; offset: number } | undefined {
    const block = this.#isClosed ? undefined : this.#native.ringAllocate(this.#handle, bytes);
    if (block === undefined) return undefined;
    return { bytes: block, offset: this.registers[Register.block] as number };
  }

  /** The offset of a block of ours in our area; undefined: there is none. */
  takePlace(bytes: number): number | undefined {
    if (this.#isClosed) return undefined;
    const taken = this.#native.ringTakePlace(this.#handle, bytes);
    return taken === RingResult.written ? (this.registers[Register.block] as number) : undefined;
  }

  /** Frees a block that is not sent. */
  releaseBlock(offset: number): void {
    if (!this.#isClosed) this.#native.ringFreeBlock(this.#handle, offset);
  }

  /** As {@link Ring.write}; the message lies in a block. */
  writeBlock(header: Uint8Array, prefix: Uint8Array, offset: number, bytes: number): number {
    const staged = this.#staged;
    staged.set(header, 0);
    staged.set(prefix, header.length);
    const frameBytes = header.length + prefix.length;
    return this.#native.ringWriteBlock(this.#handle, frameBytes, offset, bytes);
  }

  /**
   * The block frame that the drain stopped at: the slab holds its reference, then the frame.
   * `corrupt` where the reference is invalid. The lease is ours until it is released.
   */
  takeBlock(): number {
    return this.#native.ringTakeBlock(this.#handle);
  }

  /** The id of the lease that was taken last. */
  get leaseId(): number {
    return this.registers[Register.block] as number;
  }

  /** The bytes of the message that was taken last. */
  get leaseBytes(): number {
    return this.registers[Register.blockBytes] as number;
  }

  copyLease(id: number, target: Uint8Array): void {
    if (this.#native.ringCopyLease(this.#handle, id, target) === RingResult.written) return;
    throw new Error('a lease was copied that is not held'); // our own mistake
  }

  /** The offset of the message that was taken last, in the peer's block area. */
  get leaseOffset(): number {
    return this.registers[Register.blockOffset] as number;
  }

  /**
   * The block area of ours, or of the peer's; undefined: there is none, or the host wants no
   * external buffers.
   */
  area(isOurs: boolean): ArrayBuffer | undefined {
    if (this.#isClosed) return undefined;
    return this.#native.ringArea(this.#handle, isOurs ? 1 : 0)?.buffer as ArrayBuffer | undefined;
  }

  /** The peer learns of it with what is published next. */
  releaseLease(id: number): void {
    if (!this.#isClosed) this.#native.ringReleaseLease(this.#handle, id);
  }

  /** Views of it have length 0 from now on. */
  detach(memory: ArrayBuffer): void {
    this.#native.detach(memory);
  }

  /**
   * An array buffer over a block was collected. NOTE: also after `close()`: it holds the mapping.
   */
  releaseObject(isOurs: boolean): void {
    this.#native.ringDropObject(this.#handle, isOurs ? 1 : 0);
  }

  /**
   * Copies of both memories up to the end of what is unread, with zeros elsewhere; undefined:
   * closed. `bytesMax`: of what is unread, in each.
   */
  copyMemory(bytesMax: number): RingCopies | undefined {
    if (this.#isClosed) return undefined;
    const mine = this.#native.copyRingMemory(this.#handle, true, bytesMax);
    const peer = mine && this.#native.copyRingMemory(this.#handle, false, bytesMax);
    if (mine === undefined || peer === undefined) return undefined;
    return { mine, peer, unreadMaxBytes: bytesMax };
  }

  /**
   * The numbers of the ring, or the last ones of a closed ring. Of memory: unread bytes of our
   * outbox and of the peer's, record headers and padding included, and the most that were ever
   * found unread in the peer's.
   */
  get counts(): RingCounts {
    if (this.#closed !== undefined) return this.#closed;
    const ring = this.#handle;
    const register = (at: number): number => this.registers[at] as number;
    this.#native.ringCountDoorbells(ring);
    const doorbells = {
      sent: register(Register.block),
      received: register(Register.blockBytes),
      suppressed: register(Register.records),
    };
    this.#native.ringCountMemory(ring);
    const memory = {
      send: register(Register.block),
      receive: register(Register.blockBytes),
      receiveMax: register(Register.records),
    };
    this.#native.ringCountBlocks(ring);
    const blocks = { inUse: register(Register.block), held: register(Register.blockBytes) };
    return { doorbells, memory, blocks };
  }

  /** Is there room for what was refused last? One of {@link RingResult}. */
  hasRoom(): number {
    return this.#native.ringHasRoom(this.#handle);
  }

  /**
   * Publishes, announces sleep, looks once more. `written`: asleep; `full`: something is to be
   * done.
   */
  prepareToSleep(): number {
    return this.#native.ringPrepareToSleep(this.#handle);
  }

  /** As `NativeAddon.threadTimes`. */
  get threadTimes(): (times: Float64Array) => void {
    return this.#native.threadTimes;
  }

  wake(): void {
    this.#native.ringWake(this.#handle);
  }

  /** False: more doorbells than sleeps were announced. */
  onDoorbell(bytes: number): boolean {
    return this.#native.ringOnDoorbell(this.#handle, bytes) === RingResult.written;
  }

  /** The peer is gone: records that are published later are not read. False: corrupt. */
  freeze(): boolean {
    return this.#native.ringFreeze(this.#handle) === RingResult.written;
  }

  /**
   * Closes the ring. A second call does nothing, since the handle may be that
   * of another ring by then.
   */
  close(): void {
    if (this.#isClosed) return;
    this.#closed = { ...this.counts, blocks: { inUse: 0, held: 0 } };
    this.#isClosed = true;
    this.#native.closeRing(this.#handle);
  }
}
