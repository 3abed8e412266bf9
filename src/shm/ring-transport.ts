// SPDX-License-Identifier: MIT
// Transport over two outboxes in shared memory. The socket carries doorbells, and the news of
// death.

import type { Socket } from 'node:net';
import { nextTick, nowMs, setImmediate } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { Fifo } from '../base/fifo.ts';
import { tuning } from '../base/tuning.ts';
import { wireLimits } from '../base/wire-limits.ts';
import { noteArrived } from '../uds/freed-memory.ts';
import type { SocketOpener } from '../uds/net-socket.ts';
import { FrameDecoder } from '../wire/frame-decoder.ts';
import { FrameType, headerBytes, protocol, readU32 } from '../wire/frame-header.ts';
import { activate, deactivate, type Polled } from '../wire/poller.ts';
import type { FrameReceiver, OwnBlock, Transport } from '../wire/transport.ts';
import { shareLeftMs, spendTurn } from '../wire/turn-share.ts';
import { ArrivedRingBlock, LeaseReturns, RingBlock } from './blocks.ts';
import { PollBudget } from './poll-budget.ts';
import { blockReferenceBytes, Left, type Ring, Written } from './ring.ts';

const doorbell = 1;
// The peer works while we go on: frames become visible a few at a time, not all at the end of the
// turn.
const publishEvery = 4;
// Looks of a ring that is polled alone, before the loop goes on: a turn of it costs as much as some
// of them.
const polledLooks = 200;
// Between two looks at the clock: handlers may take long.
const batchRecords = 16;
// Memory for the payload of a large record that has no place of its own. One per thread: it
// is filled and handed out in one go.
let scratch: Uint8Array | undefined;
// Bytes of the thread's slab that are being handed out.
let dispatching = 0;
// A frame of this size is a piece of a long message, and the next one takes a while to come.
const longFrameBytes = 32 * 1024;
let isExpectingLong = false;

/** The parts of a ring transport. */
export interface RingParts {
  readonly ring: Ring;
  /** The process at the other end, by `ownerOf()`. */
  readonly owner: number;
  /** Largest frame, header included: what a record of our own outbox holds. */
  readonly frameMaxBytes: number;
  /** Messages in the peer's block area may be read there: it is trusted not to change them. */
  readonly lendsInPlace: boolean;
  readonly open: SocketOpener;
  readonly pollBudgetUs: number;
}

export class RingTransport implements Transport, Polled {
  readonly lane = 'ring';
  readonly owner: number;
  readonly frameMaxBytes: number;
  isAwake = false;
  readonly #ring: Ring;
  readonly #open: SocketOpener;
  readonly #budget: PollBudget;
  #socket!: Socket;
  #receiver!: FrameReceiver;
  #decoder!: FrameDecoder;
  #sentPosition = 0;
  #consumedPosition: number | undefined;
  #seenPosition: number | undefined;
  #unpublished = 0;
  #isPublishQueued = false;
  /** Frames written now are published when what was drained has been dispatched. */
  #isServing = false;
  #isRefusing = false;
  /** Leases went back of which the peer was not told yet. */
  #hasReleases = false;
  readonly #lendsInPlace: boolean;
  readonly #returns: LeaseReturns;
  #hasRecords = false;
  #hasWritten = false;
  /** The last frame, in either direction, was a piece of a long message. */
  #isMidway = false;
  #isBehind = false;
  #owesSince: number | undefined;
  #isEnding = false;
  #endError: SidecallError | undefined;
  #isOver = false;
  // Frames that were copied out in the middle of a handler.
  readonly #ahead = new Fifo<Uint8Array>();
  #aheadBytes = 0;
  // The amount that was looked through already: a handler may ask many times.
  #offeredRest = -1;
  #offeredAhead = -1;

  constructor(parts: RingParts) {
    this.#ring = parts.ring;
    this.owner = parts.owner;
    this.frameMaxBytes = parts.frameMaxBytes;
    this.#open = parts.open;
    this.#lendsInPlace = parts.lendsInPlace;
    this.#returns = new LeaseReturns(parts.ring, () => this.#onReturn());
    this.#budget = new PollBudget(parts.pollBudgetUs);
  }

  get sentPosition(): number {
    return this.#sentPosition;
  }

  get consumedPosition(): number | undefined {
    return this.#consumedPosition;
  }

  start(receiver: FrameReceiver): void {
    this.#receiver = receiver;
    this.#decoder = new FrameDecoder(receiver, () => this.#isOver);
    activate(this); // a session starts awake: the peer may have published already, without ringing
    const { socket } = this.#open((bytes) => this.#onDoorbells(bytes));
    this.#socket = socket;
    // Never paused: a paused socket is a deaf session.
    socket
      .on('error', () => undefined) // 'close' follows
      .on('end', () => this.#onPeerGone())
      .on('close', () => this.#onPeerGone())
      .resume();
  }

  trySend(header: Uint8Array, payload: Uint8Array | string | undefined, bulk: boolean): boolean {
    if (this.#isOver) return true; // the end is on its way to whoever waits
    return this.#onWritten(this.#ring.write(header, payload, bulk), bulk);
  }

  allocate(bytes: number): OwnBlock | undefined {
    const block = this.#isOver ? undefined : this.#ring.allocate(bytes);
    return block && new RingBlock(this.#ring, block.bytes, block.offset);
  }

  trySendBlock(header: Uint8Array, prefix: Uint8Array, block: OwnBlock): boolean {
    if (this.#isOver) return true;
    const { offset, byteLength } = block as RingBlock;
    const written = this.#ring.writeBlock(header, prefix, offset, byteLength);
    if (written === Written.written) (block as RingBlock).onLent();
    return this.#onWritten(written, false);
  }

  blockCounts(): { inUse: number; held: number } {
    return this.#ring.blockCounts;
  }

  /**
   * Copies out what has arrived, and gives out only resets; the rest is handed out in its turn,
   * before anything that is drained later. The slab may be in the middle of being handed out: it is
   * put back.
   */
  lookAhead(): boolean {
    if (this.#isOver) return false;
    this.#offerWaiting();
    while (!this.#isOver && this.#aheadBytes < tuning.cancelAheadMaxBytes) {
      this.#wake(); // what is copied out has to be handed out
      const left = this.#drainAhead();
      // Corrupt: the next turn finds it again. A long frame stays where it is, and hides what
      // follows.
      if (left === Left.nothing) return true;
      if (left !== Left.more) return false;
    }
    return false;
  }

  drainLast(error: SidecallError): void {
    // The position that the peer has taken stays unknown: without the end of the socket somebody
    // else may still hold its end, and read what we had published.
    this.#beginEnd(error);
  }

  async close(): Promise<void> {
    if (this.#isOver) return;
    this.publish(); // from here on it is in memory that the peer keeps
    const socket = this.#socket;
    this.destroy();
    // A peer that has gone before has closed it already, and its last records were still to be
    // read.
    if (!socket.closed) await new Promise<void>((resolve) => socket.once('close', resolve));
  }

  destroy(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    deactivate(this);
    this.#returns.close();
    this.#ring.close();
    this.#socket?.destroy();
  }

  ref(): void {
    this.#socket.ref();
  }

  unref(): void {
    this.#socket.unref();
  }

  /** @internal */
  serve(maxMs: number, isAlone = false): void {
    if (this.#isOver) return;
    this.#isServing = true;
    try {
      noteArrived(this.#receive(maxMs, isAlone && this.#budget.isOn ? polledLooks : 0));
      if (this.#isRefusing && !this.#isOver) this.#lookForRoom();
    } catch (error) {
      this.#finish(SidecallError.from(error));
    } finally {
      this.#isServing = false;
      if (this.#unpublished > 0 || this.#hasReleases) this.publish();
      if (this.#isEnding && !this.#isBehind) this.#finish(this.#endError);
    }
  }

  /** @internal */
  rest(now: number): boolean {
    if (this.#isOver) return true;
    if (this.#hasWritten) {
      this.#hasWritten = false;
      this.#budget.onWritten(now);
    }
    if (this.#hasRecords) {
      this.#hasRecords = false;
      this.#budget.onRecords(now, true);
      return false;
    }
    if (this.#isEnding || this.#isBehind || !this.#budget.isSpent(now, this.#isMidway))
      return false;
    const result = this.#ring.prepareToSleep();
    this.#unpublished = 0;
    if (result === Written.corrupt) {
      this.#finish(corrupt());
      return true;
    }
    if (result === Written.written) {
      this.#owesSince = undefined;
      this.#budget.onSleep();
      return true;
    }
    this.#checkOwed(now);
    return false;
  }

  /** @internal */
  publish(): void {
    this.#unpublished = 0;
    if (this.#isOver) return;
    if (this.#ring.publish()) this.#hasReleases = false;
    else this.#wake(); // the poller tries again: nobody else would
  }

  /** @internal */
  publishQueued(): void {
    this.#isPublishQueued = false;
    if (this.#unpublished > 0) this.publish();
  }

  /**
   * Drains the records of one turn, for up to `maxMs` milliseconds: a batch is copied out and
   * released before it is dispatched. Returns their bytes.
   */
  #receive(maxMs: number, firstLooks: number): number {
    let looks = firstLooks;
    let bytes = 0;
    let records = 0;
    let begun = 0;
    for (;;) {
      this.#handOutAhead();
      if (this.#isOver) return bytes;
      const left = this.#ring.drain(batchRecords, looks);
      looks = 0;
      if (left === Left.corrupt) throw corrupt();
      this.#isBehind = left !== Left.nothing;
      const { filledBytes, largeBytes } = this.#ring;
      records += this.#ring.records;
      if (filledBytes > 0) {
        this.#hasRecords = true;
        this.#isMidway = false;
        bytes += filledBytes;
        this.#handOut(filledBytes, largeBytes);
      }
      if (largeBytes > 0 && !this.#isOver) {
        this.#hasRecords = true;
        records += 1;
        bytes += largeBytes;
        this.#isMidway = largeBytes >= longFrameBytes;
        if (this.#isMidway) this.#expectLong();
        this.#receiveLarge(filledBytes, largeBytes);
      }
      if (left === Left.block && !this.#isOver) {
        this.#hasRecords = true;
        records += 1;
        this.#receiveBlock();
      }
      this.#handOutAhead();
      if (this.#isOver || left === Left.nothing) return bytes;
      if (bytes >= tuning.drainBytesMax || records >= tuning.drainRecordsMax) return bytes;
      const now = nowMs();
      if (begun === 0) begun = now;
      else if (now - begun >= maxMs) return bytes;
    }
  }

  /**
   * A handler that looks ahead, on this session or another, must not lose what is behind its own
   * frame.
   */
  #handOut(filledBytes: number, largeBytes: number): void {
    dispatching = filledBytes + (largeBytes > 0 ? wireLimits.frameHeaderMaxBytes : 0);
    try {
      this.#decoder.push(this.#ring.slab.subarray(0, filledBytes));
    } finally {
      dispatching = 0;
    }
  }

  /** One drain in the middle of a handler. One of {@link Left}. */
  #drainAhead(): number {
    const { slab } = this.#ring;
    const saved = dispatching > 0 ? slab.slice(0, dispatching) : undefined;
    const left = this.#ring.drain(batchRecords);
    const { filledBytes } = this.#ring;
    // A copy: whoever is told of a cancel may look ahead himself.
    const drained = left === Left.corrupt ? undefined : Buffer.from(slab.subarray(0, filledBytes));
    if (saved !== undefined) slab.set(saved);
    for (let at = 0; drained !== undefined && at < filledBytes; ) {
      const end = at + 4 + readU32(drained, at);
      const frame = drained.subarray(at, end);
      at = end;
      if (this.#offer(frame)) continue;
      this.#ahead.push(frame);
      this.#aheadBytes += frame.byteLength;
    }
    return left;
  }

  /**
   * Resets behind the frame that is being handed out. One that was taken is found to be late in its
   * turn.
   */
  #offerWaiting(): void {
    const rest = this.#decoder.rest;
    if (rest !== undefined && rest.byteLength !== this.#offeredRest) {
      this.#offeredRest = rest.byteLength;
      for (let at = 0; at + 4 < rest.byteLength; ) {
        const end = at + 4 + readU32(rest, at);
        this.#offer(rest.subarray(at, end));
        at = end;
      }
    }
    if (this.#ahead.length !== this.#offeredAhead) {
      this.#offeredAhead = this.#ahead.length;
      for (const frame of this.#ahead.items()) this.#offer(frame);
    }
  }

  #offer(frame: Uint8Array): boolean {
    const isWhole = frame.byteLength === 4 + headerBytes(FrameType.reset); // else it breaks the rules in its turn
    if (frame[4] !== FrameType.reset || !isWhole) return false;
    return this.#receiver.takeAhead(frame.subarray(4, 4 + headerBytes(FrameType.reset)));
  }

  #handOutAhead(): void {
    for (let frame = this.#ahead.shift(); frame !== undefined; frame = this.#ahead.shift()) {
      this.#aheadBytes -= frame.byteLength;
      this.#offeredAhead = -1; // another handler looks for another cancel
      this.#hasRecords = true;
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
    dispatching = headAt + size;
    try {
      this.#receiver.onFrame(header, payload);
    } finally {
      dispatching = 0;
    }
  }

  /** A frame whose message lies in the peer's block area. */
  #receiveBlock(): void {
    const ring = this.#ring;
    if (ring.takeBlock() !== Written.written) throw corrupt();
    const { slab, filledBytes, leaseId: id, leaseBytes: byteLength } = ring;
    const headerAt = blockReferenceBytes;
    const size = headerBytes(slab[headerAt] as number);
    if (size === 0 || headerAt + size > filledBytes) throw protocol('frame of unknown type');
    const mayLend = this.#lendsInPlace;
    const block = new ArrivedRingBlock(ring, this.#returns, { id, byteLength, mayLend });
    const header = slab.subarray(headerAt, headerAt + size);
    dispatching = filledBytes;
    try {
      this.#receiver.onFrame(header, slab.subarray(headerAt + size, filledBytes), block);
    } finally {
      dispatching = 0;
      block.drop();
    }
  }

  #onWritten(written: number, isBulk: boolean): boolean {
    if (written !== Written.written) return this.#refuse(written);
    this.#sentPosition = this.#ring.writtenPosition;
    this.#hasWritten = true;
    this.#isMidway = isBulk;
    this.#unpublished += 1;
    if (this.#unpublished >= publishEvery) this.publish();
    else this.#queuePublish();
    return true;
  }

  #onReturn(): void {
    this.#hasReleases = true;
    this.#unpublished += 1;
    this.#queuePublish();
  }

  #queuePublish(): void {
    if (this.#isPublishQueued || this.#isServing) return;
    this.#isPublishQueued = true;
    nextTick(publishLater, this);
  }

  #lookForRoom(): void {
    const result = this.#ring.hasRoom();
    if (result === Written.corrupt) throw corrupt();
    if (result !== Written.written) return;
    this.#isRefusing = false;
    this.#receiver.onRoom();
  }

  #refuse(result: number): boolean {
    if (result === Written.full) {
      this.#isRefusing = true;
      this.#wake();
      return false;
    }
    if (result !== Written.corrupt) throw new Error(`a write that the ring refused: ${result}`);
    setImmediate(() => this.#finish(corrupt()));
    return true;
  }

  #wake(): void {
    if (!this.isAwake) this.#ring.wake();
    activate(this);
  }

  #onDoorbells(bytes: Uint8Array): void {
    if (this.#isOver) return;
    for (let at = 0; at < bytes.byteLength; at += 1) {
      if (bytes[at] === doorbell) continue;
      return this.#finish(protocol('byte on the socket of a ring that is not a doorbell'));
    }
    // Bytes first, epoch second, drain third, new announcement last: docs/design.md says why.
    if (!this.#ring.onDoorbell(bytes.byteLength)) {
      return this.#finish(protocol('doorbell while this side was awake'));
    }
    // Where others have used up this turn, the poller serves it in its own.
    const begun = nowMs();
    const maxMs = shareLeftMs();
    if (maxMs > 0) this.serve(maxMs);
    if (!this.#isOver) activate(this);
    if (!this.#hasRecords || this.#isOver) return;
    this.#hasRecords = false;
    const now = nowMs();
    spendTurn(now - begun);
    this.#budget.onRecords(now, false);
  }

  #onPeerGone(): void {
    this.#beginEnd(undefined);
    if (!this.#isOver) this.#consumedPosition = this.#seenPosition;
  }

  /**
   * Begins the end: records published before it are delivered in the usual turns, nothing after it;
   * then it is over.
   */
  #beginEnd(error: SidecallError | undefined): void {
    if (this.#isOver || this.#isEnding) return;
    this.#isEnding = true;
    this.#endError = error;
    if (!this.#ring.freeze()) return this.#finish(corrupt());
    this.#seenPosition = this.#ring.seenPosition; // at once: the register is every ring's
    activate(this);
  }

  #checkOwed(now: number): void {
    if (!this.#ring.owesDoorbell) {
      this.#owesSince = undefined;
      return;
    }
    this.#owesSince ??= now;
    if (now - this.#owesSince < tuning.doorbellOwedMaxMs) return;
    const text = `the kernel had no memory for a doorbell for ${tuning.doorbellOwedMaxMs} ms`;
    this.#finish(new SidecallError('ERR_SIDECALL_SYSTEM', text, { delivered: 'unknown' }));
  }

  #finish(error: SidecallError | undefined): void {
    if (this.#isOver) return;
    this.destroy();
    this.#receiver.onEnd(error);
  }
}

function publishLater(transport: RingTransport): void {
  transport.publishQueued();
}

function corrupt(): SidecallError {
  return new SidecallError('ERR_SIDECALL_RING_CORRUPT');
}

function scratchOf(bytes: number): Uint8Array {
  if (scratch === undefined || scratch.byteLength < bytes) {
    scratch = new Uint8Array(
      Math.max(bytes, wireLimits.fragmentBytes + wireLimits.frameHeaderMaxBytes),
    );
  }
  return scratch.subarray(0, bytes);
}
