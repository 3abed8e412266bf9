// SPDX-License-Identifier: MIT
// The receiving half of a ring: records become frames, and are handed out.

import type { Clock } from '../base/clock.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import { wireLimits } from '../base/limits/wire-limits.ts';
import { FrameDecoder } from '../wire/frame-decoder.ts';
import { headerBytes, protocol } from '../wire/frame-header.ts';
import type { FrameReceiver } from '../wire/transport.ts';
import { ArrivedRingBlock, type Lending } from './arrived-blocks.ts';
import { batchRecords, handedOut, LookAhead } from './early-cancels.ts';
import { blockReferenceBytes, corrupt, DrainResult, type Ring, RingResult } from './ring.ts';
import type { RingActivity } from './ring-sleep.ts';

// Memory for the payload of a large record that has no place of its own. One per thread: it
// is filled and handed out in one go.
let scratch: Uint8Array | undefined;
// A frame of this size is a piece of a long message, and the next one takes a while to come.
const longFrameBytes = 32 * 1024;
let isExpectingLong = false;

/** The parts of a receiving half. */
export interface ReceivingParts {
  readonly ring: Ring;
  readonly receiver: FrameReceiver;
  readonly blocks: Lending;
  readonly activity: RingActivity;
  readonly clock: Clock;
}

export class RingReceiver {
  readonly ahead: LookAhead;
  #isOver = false;
  /** The last turn left records behind. */
  isBehind = false;
  /** Short records that were drained together last. */
  batch = 0;
  readonly #ring: Ring;
  readonly #receiver: FrameReceiver;
  readonly #decoder: FrameDecoder;
  readonly #blocks: Lending;
  readonly #activity: RingActivity;
  readonly #clock: Clock;

  constructor(parts: ReceivingParts) {
    this.#ring = parts.ring;
    this.#receiver = parts.receiver;
    this.#blocks = parts.blocks;
    this.#activity = parts.activity;
    this.#clock = parts.clock;
    this.#decoder = new FrameDecoder(parts.receiver, () => this.#isOver);
    this.ahead = new LookAhead(parts.ring, this.#decoder, parts.receiver);
  }

  /** The transport has ended: nothing is handed out any more. */
  end(): void {
    this.#isOver = true;
  }

  /**
   * Drains the records of one turn, for up to `maxMs` milliseconds: a batch is copied out and
   * released before it is dispatched. Returns their bytes.
   */
  receive(maxMs: number, firstLooks: number): number {
    const activity = this.#activity;
    let looks = firstLooks;
    let bytes = 0;
    let records = 0;
    let begun = 0;
    for (;;) {
      if (this.ahead.bytes > 0) this.#handOutAhead();
      if (this.#isOver) return bytes;
      const left = this.#ring.drain(batchRecords, looks);
      looks = 0;
      if (left === DrainResult.corrupt) throw corrupt();
      this.isBehind = left !== DrainResult.nothing;
      const { filledBytes, largeBytes } = this.#ring;
      this.batch = this.#ring.records;
      records += this.batch;
      if (filledBytes > 0) {
        activity.hasRecords = true;
        activity.isMidway = false;
        bytes += filledBytes;
        this.#handOut(filledBytes, largeBytes);
      }
      if (largeBytes > 0 && !this.#isOver) {
        activity.hasRecords = true;
        records += 1;
        bytes += largeBytes;
        activity.isMidway = largeBytes >= longFrameBytes;
        if (activity.isMidway) this.#expectLong();
        this.#receiveLarge(filledBytes, largeBytes);
      }
      if (left === DrainResult.block && !this.#isOver) {
        activity.hasRecords = true;
        records += 1;
        this.#receiveBlock();
      }
      if (this.ahead.bytes > 0) this.#handOutAhead();
      if (this.#isOver || left === DrainResult.nothing) return bytes;
      if (bytes >= tuning.drainBytesMax || records >= tuning.drainRecordsMax) return bytes;
      const now = this.#clock.nowMs();
      if (begun === 0) begun = now;
      else if (now - begun >= maxMs) return bytes;
    }
  }

  #handOut(filledBytes: number, largeBytes: number): void {
    handedOut.bytes = filledBytes + (largeBytes > 0 ? wireLimits.frameHeaderMaxBytes : 0);
    try {
      this.#decoder.push(this.#ring.slab, filledBytes);
    } finally {
      handedOut.bytes = 0;
    }
  }

  #handOutAhead(): void {
    for (let frame = this.ahead.shift(); frame !== undefined; frame = this.ahead.shift()) {
      this.#activity.hasRecords = true;
      if (!this.#isOver) this.#decoder.push(frame);
    }
  }

  #expectLong(): void {
    if (isExpectingLong) return;
    isExpectingLong = true;
    this.#ring.expectLongMessages();
  }

  #receiveLarge(headAt: number, frameBytes: number): void {
    const { slab } = this.#ring;
    const size = headerBytes(slab[headAt] as number);
    if (size === 0) throw protocol('frame of unknown type');
    const header = slab.subarray(headAt, headAt + size);
    const bytes = frameBytes - size;
    const payload = this.#receiver.placeFor(header, bytes) ?? scratchOf(bytes);
    if (this.#isOver) return;
    this.#ring.take(size, payload);
    handedOut.bytes = headAt + size;
    try {
      this.#receiver.onFrame(slab, headAt, payload, 0, bytes);
    } finally {
      handedOut.bytes = 0;
    }
  }

  /** A frame whose message lies in the peer's block area. */
  #receiveBlock(): void {
    const ring = this.#ring;
    if (ring.takeBlock() !== RingResult.written) throw corrupt();
    const { slab, filledBytes } = ring;
    const headerAt = blockReferenceBytes;
    const size = headerBytes(slab[headerAt] as number);
    if (size === 0 || headerAt + size > filledBytes) throw protocol('frame of unknown type');
    const block = new ArrivedRingBlock(this.#blocks);
    handedOut.bytes = filledBytes;
    try {
      this.#receiver.onFrame(slab, headerAt, slab, headerAt + size, filledBytes, block);
    } finally {
      handedOut.bytes = 0;
      block.release();
    }
  }
}

function scratchOf(bytes: number): Uint8Array {
  if (scratch === undefined || scratch.length < bytes) {
    scratch = new Uint8Array(
      Math.max(bytes, wireLimits.fragmentBytes + wireLimits.frameHeaderMaxBytes),
    );
  }
  return scratch.subarray(0, bytes);
}
