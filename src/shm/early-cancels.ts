// SPDX-License-Identifier: MIT
// Frames that are copied out of a ring in the middle of a handler, to find the cancel of its call.

import { Buffer } from 'node:buffer';
import { Fifo } from '../base/fifo.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import type { FrameDecoder } from '../wire/frame-decoder.ts';
import { FrameType, headerBytes, readU32 } from '../wire/frame-header.ts';
import type { FrameReceiver } from '../wire/transport.ts';
import { DrainResult, type Ring } from './ring.ts';

/** Records of one drain: the clock is looked at in between, since handlers may take long. */
export const batchRecords = 16;

/**
 * Bytes at the beginning of the thread's slab that are being handed out. A handler that looks
 * ahead, on this session or another, must not lose what is behind its own frame.
 */
export const handedOut = { bytes: 0 };

export class LookAhead {
  readonly #ring: Ring;
  readonly #decoder: FrameDecoder;
  readonly #receiver: FrameReceiver;
  readonly #frames = new Fifo<Uint8Array>();
  /** Bytes of the frames that wait to be handed out. */
  bytes = 0;
  // The amount that was searched already: a handler may call `cancelledNow()` many times.
  #offeredRest = -1;
  #offeredFrames = -1;

  constructor(ring: Ring, decoder: FrameDecoder, receiver: FrameReceiver) {
    this.#ring = ring;
    this.#decoder = decoder;
    this.#receiver = receiver;
  }

  /** More may be copied out. */
  get hasRoom(): boolean {
    return this.bytes < tuning.cancelAheadMaxBytes;
  }

  /**
   * Drains the ring once in the middle of a handler. The slab may be in the middle of being handed
   * out: it is put back. Returns one of {@link DrainResult}.
   */
  drain(): number {
    const { slab } = this.#ring;
    const saved = handedOut.bytes > 0 ? slab.slice(0, handedOut.bytes) : undefined;
    const left = this.#ring.drain(batchRecords);
    const { filledBytes } = this.#ring;
    // A copy: a handler that is told of a cancel may look ahead, too.
    const drained =
      left === DrainResult.corrupt ? undefined : Buffer.from(slab.subarray(0, filledBytes));
    if (saved !== undefined) slab.set(saved);
    for (let at = 0; drained !== undefined && at < filledBytes; ) {
      const end = at + 4 + readU32(drained, at);
      const frame = drained.subarray(at, end);
      at = end;
      if (this.#offer(frame)) continue;
      this.#frames.push(frame);
      this.bytes += frame.length;
    }
    return left;
  }

  /**
   * Offers the resets behind the frame that is being handed out. A reset that was taken counts as
   * late when its turn comes.
   */
  offerWaiting(): void {
    const rest = this.#decoder.rest;
    if (rest !== undefined && rest.length !== this.#offeredRest) {
      this.#offeredRest = rest.length;
      for (let at = 0; at + 4 < rest.length; ) {
        const end = at + 4 + readU32(rest, at);
        this.#offer(rest.subarray(at, end));
        at = end;
      }
    }
    if (this.#frames.length !== this.#offeredFrames) {
      this.#offeredFrames = this.#frames.length;
      for (const frame of this.#frames.items()) this.#offer(frame);
    }
  }

  /** The next frame that was copied out, whose turn to be handed out has come. */
  shift(): Uint8Array | undefined {
    const frame = this.#frames.shift();
    if (frame === undefined) return undefined;
    this.bytes -= frame.length;
    this.#offeredFrames = -1; // another handler looks for another cancel
    return frame;
  }

  #offer(frame: Uint8Array): boolean {
    const isWhole = frame.length === 4 + headerBytes(FrameType.reset); // else it breaks the rules in its turn
    if (frame[4] !== FrameType.reset || !isWhole) return false;
    return this.#receiver.takeAhead(frame.subarray(4, 4 + headerBytes(FrameType.reset)));
  }
}
