// SPDX-License-Identifier: MIT
// A transport within one process: the RPC layer is tested over it, and so can programs be.

import { Buffer } from 'node:buffer';
import { type Clock, systemClock } from '../base/clock.ts';
import { Fifo } from '../base/fifo.ts';
import { noBytes } from '../base/ignore-errors.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import { FrameType, frameMaxBytes } from './frame-header.ts';
import type { Bulk, FrameReceiver, Transport } from './transport.ts';

interface Frame {
  readonly header: Uint8Array;
  readonly payload: Uint8Array;
}

/** Two ends that are each other's peer. Frames arrive in a later turn, never inside `trySend`. */
export function loopbackPair(clock = systemClock): [LoopbackTransport, LoopbackTransport] {
  const near = new LoopbackTransport(clock);
  const far = new LoopbackTransport(clock);
  near.join(far);
  far.join(near);
  return [near, far];
}

/** One end of a {@link loopbackPair}. */
export class LoopbackTransport implements Transport {
  readonly lane = 'loopback';
  readonly frameMaxBytes = frameMaxBytes;
  readonly #clock: Clock;
  sentPosition = 0;
  #consumed = 0;
  #peer!: LoopbackTransport;
  #receiver: FrameReceiver | undefined;
  readonly #arrived = new Fifo<Frame>();
  #arrivedBytes = 0;
  #isScheduled = false;
  #isRefusing = false;
  #isEnded = false;
  #isClosing = false;
  /** Frames stay where they are while this is set, as with a peer whose process was stopped. */
  isHeld = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @internal */
  join(peer: LoopbackTransport): void {
    this.#peer = peer;
  }

  get consumedPosition(): number {
    return this.#peer.#consumed;
  }

  start(receiver: FrameReceiver): void {
    this.#receiver = receiver;
    this.#schedule();
  }

  trySend(header: Uint8Array, payload: Uint8Array | string | undefined, bulk: Bulk): boolean {
    if (this.#isEnded || this.#isClosing) return true;
    const max = bulk !== false ? tuning.socketBulkMaxBytes : tuning.socketWriteMaxBytes;
    if (this.#peer.#arrivedBytes >= max) {
      this.#isRefusing = true;
      return false;
    }
    const bytes =
      typeof payload === 'string' ? Buffer.from(payload) : new Uint8Array(payload ?? noBytes);
    this.#peer.#arrived.push({ header: header.slice(), payload: bytes });
    this.#peer.#arrivedBytes += header.length + bytes.length;
    this.sentPosition += header.length + bytes.length;
    this.#peer.#schedule();
    return true;
  }

  lookAhead(): boolean {
    const kept: Frame[] = [];
    for (let frame = this.#arrived.shift(); frame !== undefined; frame = this.#arrived.shift()) {
      const isReset = frame.header[0] === FrameType.reset && frame.payload.length === 0;
      if (!isReset || this.#receiver?.takeAhead(frame.header) !== true) kept.push(frame);
      else {
        this.#arrivedBytes -= frame.header.length;
        this.#consumed += frame.header.length;
      }
    }
    for (const frame of kept) this.#arrived.push(frame);
    return true;
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    this.#peer.#schedule();
    if (this.#peer.#isEnded) this.#end();
    while (!this.#isEnded) await new Promise<void>((resolve) => this.#clock.setImmediate(resolve));
  }

  destroy(): void {
    this.#peer.#isClosing = true;
    this.#end();
    this.#peer.#schedule();
  }

  ref(): void {}

  unref(): void {}

  /** Lets held frames go. */
  release(): void {
    this.isHeld = false;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled || this.isHeld || this.#receiver === undefined) return;
    this.#isScheduled = true;
    this.#clock.setImmediate(() => this.#deliver());
  }

  #deliver(): void {
    this.#isScheduled = false;
    for (let frame = this.#arrived.shift(); frame !== undefined; frame = this.#arrived.shift()) {
      const bytes = frame.header.length + frame.payload.length;
      this.#arrivedBytes -= bytes;
      this.#consumed += bytes;
      const { header, payload } = frame;
      if (!this.#isEnded) this.#receiver?.onFrame(header, 0, payload, 0, payload.length);
      if (this.isHeld) return;
    }
    if (this.#peer.#isRefusing) {
      this.#peer.#isRefusing = false;
      this.#peer.#receiver?.onRoom();
    }
    if (this.#peer.#isClosing || this.#peer.#isEnded) this.#end();
  }

  #end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#receiver?.onEnd(undefined);
    if (this.#peer.#isClosing) this.#peer.#end();
  }
}
