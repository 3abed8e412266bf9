// SPDX-License-Identifier: MIT
// Transport over two outboxes in shared memory. The socket carries doorbells, and
// shows the end of the peer.

import { waitAtExit } from '../base/at-exit.ts';
import { SidecallError } from '../base/errors.ts';
import { type Moves, moved } from '../base/states.ts';
import { type EventLoop, systemLoop } from '../loop/event-loop.ts';
import type { Polled } from '../loop/poller.ts';
import { noteArrived } from '../uds/trim-heap.ts';
import { protocol } from '../wire/frame-header.ts';
import type { LaneSocket, SocketOpener } from '../wire/lane-socket.ts';
import type {
  Bulk,
  FrameReceiver,
  LaneCapacity,
  LaneInspection,
  MomentReceiver,
  OwnBlock,
  RingCounts,
  Transport,
} from '../wire/transport.ts';
import { threadContention } from './contention.ts';
import type { RingBlock } from './own-blocks.ts';
import { corrupt, DrainResult, Register, type Ring, RingResult } from './ring.ts';
import type { RingParts } from './ring-parts.ts';
import { RingReceiver } from './ring-receiver.ts';
import { RingSleep } from './ring-sleep.ts';
import { SessionBlocks } from './session-blocks.ts';
import { Unpublished } from './unpublished.ts';

const doorbell = 1;
/**
 * `open`: frames go both ways, and the poller notes whether the ring is awake. `ending`: the peer
 * is gone, or is taken for gone; what it published before is delivered. `over`: the end was told.
 */
type RingState = 'open' | 'ending' | 'over';

const moves: Moves<RingState> = { open: ['ending', 'over'], ending: ['over'], over: [] };

export class RingTransport implements Transport, Polled {
  readonly lane = 'ring';
  readonly fillsAtOnce = true;
  readonly tellsTime = true;
  moments: MomentReceiver | undefined;
  readonly headers: readonly Uint8Array[];
  readonly owner: number;
  readonly frameMaxBytes: number;
  readonly capacity: LaneCapacity | undefined;
  isAwake = false;
  readonly #loop: EventLoop;
  readonly #ring: Ring;
  readonly #open: SocketOpener;
  readonly #sleep: RingSleep;
  #socket!: LaneSocket;
  #receiver!: FrameReceiver;
  #receiving!: RingReceiver;
  sentPosition = 0;
  consumedPosition: number | undefined;
  #seenPosition: number | undefined;
  readonly #unpublished = new Unpublished();
  #isPublishQueued = false;
  /** Frames written now are published when what was drained has been dispatched. */
  #isServing = false;
  #isRefusing = false;
  #isExiting = false;
  /** Leases went back of which the peer was not told yet. */
  #hasReleases = false;
  readonly #blocks: SessionBlocks;
  #state: RingState = 'open';
  #endError: SidecallError | undefined;

  constructor(parts: RingParts) {
    this.#loop = parts.loop ?? systemLoop;
    this.#ring = parts.ring;
    this.headers = parts.ring.headers;
    this.owner = parts.owner;
    this.frameMaxBytes = parts.frameMaxBytes;
    this.capacity = parts.capacity;
    this.#open = parts.open;
    const { ring, lendsInPlace } = parts;
    const onReturn = (): void => this.#onReturn();
    this.#blocks = new SessionBlocks(ring, this.#loop.clock, lendsInPlace, onReturn);
    const contention = parts.loop === undefined ? threadContention(ring.threadTimes) : undefined;
    this.#sleep = new RingSleep(ring, parts.pollBudgetUs, contention);
  }

  #isOver(): boolean {
    return this.#state === 'over';
  }

  get isBehind(): boolean {
    return this.#receiving.isBehind;
  }

  start(receiver: FrameReceiver): void {
    this.#receiver = receiver;
    this.#receiving = new RingReceiver({
      ring: this.#ring,
      receiver,
      blocks: this.#blocks,
      activity: this.#sleep,
      clock: this.#loop.clock,
    });
    this.#loop.poller.activate(this); // a session starts awake: the peer may have published already, without ringing
    const { socket, atExit } = this.#open((bytes) => this.#onDoorbells(bytes));
    this.#socket = socket;
    // No turn follows: all that was written becomes visible now, and each later frame at once.
    const publishAll = (): readonly Uint8Array[] => {
      this.#unpublished.isHeld = false;
      this.publish();
      return [];
    };
    atExit?.(publishAll, () => {
      this.#isExiting = true;
      this.#receiver.onRoom(); // what waits in the session
    });
    // The socket is never paused: a paused one delivers neither doorbells nor the end.
    socket.on('end', () => this.#onPeerGone()).on('close', () => this.#onPeerGone());
    socket.on('error', (error) => this.#onSocketError(error)).resume();
  }

  trySend(header: Uint8Array, payload: Uint8Array | string | undefined, bulk: Bulk): boolean {
    if (this.#state === 'over') return true; // the end is on its way to those that wait
    let written = this.#ring.write(header, payload, bulk);
    while (this.#isExiting && written === RingResult.full && waitAtExit()) {
      this.publish();
      written = this.#ring.write(header, payload, bulk);
    }
    return this.#onWritten(written, bulk !== false);
  }

  allocate(bytes: number): OwnBlock | undefined {
    return this.#isOver() ? undefined : this.#blocks.allocate(bytes);
  }

  trySendBlock(header: Uint8Array, prefix: Uint8Array, block: OwnBlock): boolean {
    if (this.#isOver()) return true;
    const { offset, byteLength } = block as RingBlock;
    const written = this.#ring.writeBlock(header, prefix, offset, byteLength);
    if (written === RingResult.written) (block as RingBlock).onLent();
    return this.#onWritten(written, false);
  }

  ringCounts(): RingCounts {
    return this.#ring.counts;
  }

  inspect(unreadMaxBytes: number): LaneInspection {
    return { memory: this.#ring.copyMemory(unreadMaxBytes), leases: this.#blocks.returns.held };
  }

  /**
   * Copies out what has arrived, and gives out only resets; the rest is handed out in its turn,
   * before anything that is drained later.
   */
  lookAhead(): boolean {
    if (this.#isOver()) return false;
    const { ahead } = this.#receiving;
    ahead.offerWaiting();
    while (!this.#isOver() && ahead.hasRoom) {
      this.#wake(); // what is copied out has to be handed out
      const left = ahead.drain();
      // Corrupt: the next turn finds it again. A long frame stays, and hides what follows.
      if (left === DrainResult.nothing) return true;
      if (left !== DrainResult.more) return false;
    }
    return false;
  }

  drainLast(error: SidecallError): void {
    // The position that the peer has taken stays unknown: without the end of the socket another
    // process may still hold its end, and read what we had published.
    this.#beginEnd(error);
  }

  async close(): Promise<void> {
    if (this.#isOver()) return;
    this.publish(); // from here on it is in memory that the peer keeps
    const socket = this.#socket;
    this.destroy();
    // A peer that has gone has closed it already, while its last records were still to be read.
    if (!socket.closed) await new Promise<void>((resolve) => socket.once('close', resolve));
  }

  destroy(): void {
    if (this.#isOver()) return;
    this.#moveTo('over');
    (this.#receiving as RingReceiver | undefined)?.end(); // undefined: never started
    this.#loop.poller.deactivate(this);
    this.#blocks.close();
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
    if (this.#state === 'over') return;
    this.#isServing = true;
    try {
      noteArrived(this.#receiving.receive(maxMs, this.#sleep.looks(isAlone)));
      if (this.#isRefusing && !this.#isOver()) this.#lookForRoom();
    } catch (error) {
      this.#finish(SidecallError.from(error));
    } finally {
      this.#isServing = false;
      this.#publishRest();
      if (this.#state === 'ending' && !this.#receiving.isBehind) this.#finish(this.#endError);
    }
  }

  /** @internal */
  rest(now: number): boolean {
    if (this.#state === 'over') return true;
    this.moments?.reach(now);
    if (!this.#sleep.isDue(now) || this.#state === 'ending' || this.#receiving.isBehind) {
      return false;
    }
    this.#unpublished.count = 0;
    try {
      return this.#sleep.tryToSleep(now);
    } catch (error) {
      this.#finish(SidecallError.from(error));
      return true;
    }
  }

  /** @internal */
  publish(): void {
    this.#unpublished.clear();
    if (this.#state === 'over') return;
    if (this.#ring.publish()) this.#hasReleases = false;
    else this.#wake(); // the poller tries again: nothing else does
  }

  /** @internal */
  publishQueued(): void {
    this.#isPublishQueued = false;
    this.#publishRest();
    this.moments?.goOn();
  }

  /** The turn is over. */
  #publishRest(): void {
    if (this.#unpublished.count > 0 || this.#hasReleases) this.publish();
    this.#unpublished.goOn();
  }

  #onWritten(written: number, isBulk: boolean): boolean {
    if (written !== RingResult.written) return this.#refuse(written);
    this.sentPosition = this.#ring.registers[Register.written] as number;
    this.#sleep.hasWritten = true;
    this.#sleep.isMidway = isBulk;
    if (this.#unpublished.add(this.#receiving.batch)) this.publish();
    if (!this.#isPublishQueued && !this.#isServing) this.lookSoon();
    return true;
  }

  #onReturn(): void {
    this.#hasReleases = true;
    this.lookSoon();
  }

  lookSoon(): void {
    if (this.#isPublishQueued || this.#isServing) return;
    this.#isPublishQueued = true;
    this.#loop.clock.nextTick(publishLater, this);
  }

  #lookForRoom(): void {
    const result = this.#ring.hasRoom();
    if (result === RingResult.corrupt) throw corrupt();
    if (result !== RingResult.written) return;
    this.#isRefusing = false;
    this.#receiver.onRoom();
  }

  #refuse(result: number): boolean {
    if (result === RingResult.full) {
      this.#isRefusing = true;
      this.#wake();
      this.lookSoon();
      return false;
    }
    if (result !== RingResult.corrupt) throw new Error(`a write that the ring refused: ${result}`);
    this.#loop.clock.setImmediate(() => this.#finish(corrupt()));
    return true;
  }

  #wake(): void {
    if (!this.isAwake) this.#ring.wake();
    this.#loop.poller.activate(this);
  }

  #onDoorbells(bytes: Uint8Array): void {
    if (this.#isOver()) return;
    for (let at = 0; at < bytes.length; at += 1) {
      if (bytes[at] === doorbell) continue;
      return this.#finish(protocol('byte on the socket of a ring that is not a doorbell'));
    }
    // Bytes first, epoch second, drain third, new announcement last: docs/design.md says why.
    if (!this.#ring.onDoorbell(bytes.length)) {
      return this.#finish(protocol('doorbell while this side was awake'));
    }
    // Where others have used up this turn, the poller serves it in its own.
    const begun = this.#loop.clock.nowMs();
    this.moments?.reach(begun);
    const maxMs = this.#loop.budget.shareLeftMs();
    if (maxMs > 0) this.serve(maxMs);
    const now = this.#loop.clock.nowMs();
    this.moments?.reach(now);
    if (this.#isOver()) return;
    if (this.#sleep.onDoorbell(now)) this.#loop.budget.spend(now - begun);
    // A ring that is not polled sleeps again without a turn of the loop.
    const isAsleep = !this.isAwake && maxMs > 0 && !this.#sleep.mayPoll(now) && this.rest(now);
    if (!isAsleep) this.#loop.poller.activate(this);
  }

  /**
   * The peer has closed its end with doorbells unread, and 'close' follows; or the system has
   * failed us. Then the peer lives, and takes ours for closed: nothing is read after that.
   */
  #onSocketError(error: NodeJS.ErrnoException): void {
    if (error.code !== 'ECONNRESET') this.#finish(SidecallError.from(error));
  }

  #onPeerGone(): void {
    this.#beginEnd(undefined);
    if (!this.#isOver()) this.consumedPosition = this.#seenPosition;
  }

  /**
   * Begins the end: records published before it are delivered in the usual turns, nothing after it;
   * then it is over.
   */
  #beginEnd(error: SidecallError | undefined): void {
    if (this.#state !== 'open') return;
    this.#moveTo('ending');
    this.#endError = error;
    if (!this.#ring.freeze()) return this.#finish(corrupt());
    this.#seenPosition = this.#ring.seenPosition; // at once: the register is every ring's
    this.#loop.poller.activate(this);
  }

  #moveTo(state: RingState): void {
    this.#state = moved(moves, this.#state, state);
  }

  #finish(error: SidecallError | undefined): void {
    if (this.#isOver()) return;
    this.destroy();
    this.#receiver.onEnd(error);
  }
}

function publishLater(transport: RingTransport): void {
  transport.publishQueued();
}
