// SPDX-License-Identifier: MIT
// Transport over a net.Socket: frames of one turn leave in one write, whole frames come out of
// reads. Bytes beyond the share of one turn wait, and reading pauses.
import { Buffer } from 'node:buffer';
import { SidecallError } from '../base/errors.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import { type Moves, moved } from '../base/states.ts';
import { type EventLoop, systemLoop } from '../loop/event-loop.ts';
import type { Polled } from '../loop/poller.ts';
import { FrameDecoder } from '../wire/frame-decoder.ts';
import { frameMaxBytes, writeU32 } from '../wire/frame-header.ts';
import type { LaneSocket, SocketOpener } from '../wire/lane-socket.ts';
import type {
  Bulk,
  FrameReceiver,
  LaneCapacity,
  MomentReceiver,
  Transport,
} from '../wire/transport.ts';
import { maxBytesOf, put } from './payload-bytes.ts';
import { noteArrived } from './trim-heap.ts';

const lengthBytes = 4;
const slabBytes = 128 * 1024;
const sparesMax = 8;
const copiedMaxBytes = 32 * 1024;
// The first frames of a turn leave early, so that the peer works while we go on, and each further
// batch of the turn is twice as long. With 16 calls of 1 kB under way this made 290,000 calls a
// second of 152,000, with 64 small ones 515,000 of 290,000.
const earlyBytes = 4096;
const earlyFrames = 4;
// Between two looks at the clock: handlers may take long.
const batchFrames = 16;
// Memory that frames are gathered in, shared by the sessions of the thread while they are idle.
const spareSlabs: Buffer[] = [];

/**
 * `open`: frames go both ways. `closing`: we end the session, and what has not been handed out is
 * dropped with its end. `ending`: the peer's direction is over; what it sent before is handed out.
 * `over`: the end was told.
 */
type SocketState = 'open' | 'closing' | 'ending' | 'over';

const moves: Moves<SocketState> = {
  open: ['ending', 'closing', 'over'],
  ending: ['closing', 'over'],
  closing: ['over'],
  over: [],
};

export class SocketTransport implements Transport, Polled {
  readonly lane = 'socket';
  readonly frameMaxBytes = frameMaxBytes;
  readonly consumedPosition = undefined;
  readonly tellsTime = true;
  moments: MomentReceiver | undefined;
  sentPosition = 0;
  readonly owner: number;
  readonly capacity: LaneCapacity | undefined;
  readonly #loop: EventLoop;
  readonly #open: SocketOpener;
  #socket: LaneSocket | undefined;
  #drain: (() => void) | undefined;
  #receiver!: FrameReceiver;
  #decoder!: FrameDecoder;
  #slab: Buffer | undefined;
  #filled = 0;
  #frames = 0;
  #early = earlyFrames;
  #inFlight = 0;
  readonly #writes: Uint8Array[] = []; // what #inFlight counts, the oldest first
  #writeAtExit: ((bytes: Uint8Array) => void) | undefined;
  #isRefusing = false;
  #state: SocketState = 'open';
  isAwake = false;
  /** The number of the frame that is not whole, and the instant at which it began. */
  #cutFrame = 0;
  #cutAt = 0;
  /** Read, and not handed out: nothing more is read meanwhile. */
  #backlog: Uint8Array[] = [];
  /** The peer has ended its direction: a frame that is not whole was cut off. */
  #isEndSaid = false;
  #endError: SidecallError | undefined;
  /** The begin, the time limit and the frames of this turn. */
  #turnBegan = 0;
  #turnMaxMs = 0;
  #turnFrames = 0;

  /** `owner`: the other process, by `ownerOf()`; `capacity`: the buffers of the socket. */
  constructor(open: SocketOpener, owner: number, loop = systemLoop, capacity?: LaneCapacity) {
    this.capacity = capacity;
    this.#loop = loop;
    this.#open = open;
    this.owner = owner;
  }

  #isOver(): boolean {
    return this.#state === 'over';
  }

  start(receiver: FrameReceiver): void {
    this.#receiver = receiver;
    this.#decoder = new FrameDecoder(receiver, () => this.#isOver() || this.#isTurnOver());
    const { socket, drain, atExit } = this.#open((bytes) => this.#onBytes(bytes));
    this.#drain = drain;
    this.#socket = socket;
    // No turn follows: all that was taken to be sent leaves now, and each later frame at once.
    const flush = (): readonly Uint8Array[] => {
      this.#early = 0;
      this.#flush();
      return this.#writes;
    };
    atExit?.(flush, (write) => {
      this.#writeAtExit = write;
      this.#receiver.onRoom(); // what waits in the session
    });
    // One direction shut is the end of the session: allowHalfOpen stays off.
    socket.on('end', () => this.#end(true)).on('close', () => this.#end(false));
    socket.on('error', () => undefined).resume(); // 'close' follows an error
  }

  trySend(header: Uint8Array, payload: Uint8Array | string | undefined, bulk: Bulk): boolean {
    if (this.#isOver()) return true; // the end is on its way to those that wait
    const max = bulk !== false ? tuning.socketBulkMaxBytes : tuning.socketWriteMaxBytes;
    if (this.#inFlight + this.#filled >= max && this.#writeAtExit === undefined) {
      this.#isRefusing = true;
      return false;
    }
    const room = lengthBytes + header.length + maxBytesOf(payload);
    const slab = this.#slabWith(room);
    const start = this.#filled;
    const headerAt = start + lengthBytes;
    slab.set(header, headerAt);
    const payloadAt = headerAt + header.length;
    const payloadBytes = put(slab, payload, payloadAt);
    writeU32(slab, start, header.length + payloadBytes);
    this.#filled = payloadAt + payloadBytes;
    this.sentPosition += this.#filled - start;
    this.#frames += 1;
    const isEarly = this.#frames >= this.#early || this.#filled >= earlyBytes;
    if ((isEarly && bulk === false) || this.#writeAtExit !== undefined) {
      this.#early *= 2;
      this.#flush();
    }
    return true;
  }

  drainLast(error: SidecallError): void {
    if (this.#isOver()) return;
    this.#endError = error;
    this.#endBehindLast();
  }

  async close(): Promise<void> {
    const socket = this.#socket;
    if (socket === undefined || this.#isOver()) return;
    if (this.#state !== 'closing') this.#moveTo('closing');
    // Its end has come already, and what came before it waited to be handed out.
    if (socket.closed) return this.#finish(undefined);
    this.#flush();
    await new Promise<void>((resolve) => {
      socket.once('close', resolve);
      // Once the kernel has everything, the peer will read it whether we stay or not.
      socket.end(() => socket.destroy());
    });
  }

  destroy(): void {
    if (this.#isOver()) return;
    this.#moveTo('over');
    this.#backlog = [];
    this.#loop.poller.deactivate(this);
    this.#socket?.destroy();
    this.#recycle(this.#slab);
    this.#slab = undefined;
  }

  get isBehind(): boolean {
    return this.#backlog.length > 0;
  }

  get unfinishedSince(): number | undefined {
    const isCut = this.#decoder.isMidFrame && !this.isBehind && this.#state === 'open';
    return isCut ? this.#cutAt : undefined;
  }

  ref(): void {
    this.#socket?.ref();
  }

  unref(): void {
    this.#socket?.unref();
  }

  /** @internal Goes on with what waits. */
  serve(maxMs: number): void {
    this.#turnMaxMs = maxMs;
    this.#beginTurn();
    let bytes = 0;
    while (bytes < tuning.drainBytesMax && !this.#isOver()) {
      const [chunk] = this.#backlog;
      if (chunk === undefined) break;
      const taken = this.#decode(chunk);
      bytes += taken;
      if (taken === chunk.length) this.#backlog.shift();
      else {
        this.#backlog[0] = chunk.subarray(taken);
        return;
      }
    }
  }

  /** @internal Reading goes on once nothing waits. */
  rest(): boolean {
    if (this.isBehind && !this.#isOver()) return false;
    if (this.#state === 'ending') this.#end(false);
    else if (!this.#isOver()) this.#socket?.resume();
    return true;
  }

  #onBytes(bytes: Uint8Array): void {
    if (this.#isOver()) return;
    noteArrived(bytes.length);
    let taken = 0;
    this.#turnMaxMs = this.isBehind ? 0 : this.#loop.budget.shareLeftMs();
    if (this.#turnMaxMs > 0) {
      this.#beginTurn();
      taken = this.#decode(bytes);
      this.#loop.budget.spend(this.#loop.clock.nowMs() - this.#turnBegan);
    }
    if (taken === bytes.length || this.#isOver()) return;
    // A copy: the bytes are another session's once this returns.
    this.#backlog.push(Buffer.from(bytes.subarray(taken)));
    this.#socket?.pause();
    this.#loop.poller.activate(this);
  }

  #beginTurn(): void {
    this.#turnBegan = this.#loop.clock.nowMs();
    this.#turnFrames = 0;
    this.moments?.reach(this.#turnBegan);
  }

  /** Hands out frames until the share of this turn is used up. Returns the bytes taken. */
  #decode(bytes: Uint8Array): number {
    try {
      const taken = this.#decoder.push(bytes);
      if (this.#decoder.cutFrames !== this.#cutFrame) {
        this.#cutFrame = this.#decoder.cutFrames;
        this.#cutAt = this.#turnBegan;
      }
      return taken;
    } catch (error) {
      this.#finish(SidecallError.from(error));
      return bytes.length;
    }
  }

  #isTurnOver(): boolean {
    this.#turnFrames += 1;
    if (this.#turnFrames > tuning.drainRecordsMax) return true;
    const isLook = this.#turnFrames % batchFrames === 0;
    return isLook && this.#loop.clock.nowMs() - this.#turnBegan >= this.#turnMaxMs;
  }

  /** The slab of this turn, with room for `bytes` more. Its first frame arranges for the flush. */
  #slabWith(bytes: number): Buffer {
    if (this.#slab !== undefined && this.#filled + bytes <= this.#slab.length) return this.#slab;
    if (this.#slab === undefined) this.#loop.clock.nextTick(flushLater, this);
    else this.#flush();
    const spare = bytes <= slabBytes ? spareSlabs.pop() : undefined;
    this.#slab = spare ?? Buffer.allocUnsafeSlow(Math.max(bytes, slabBytes));
    this.#filled = 0;
    return this.#slab;
  }

  /** Everything of this turn in one write. */
  flush(): void {
    this.#early = earlyFrames;
    this.#flush();
  }

  #flush(): void {
    const slab = this.#slab;
    const bytes = this.#filled;
    this.#slab = undefined;
    this.#filled = 0;
    this.#frames = 0;
    if (slab === undefined) return;
    if (bytes === 0 || this.#isOver()) return this.#recycle(slab);
    if (this.#writeAtExit !== undefined) {
      this.#writeAtExit(slab.subarray(0, bytes));
      return this.#recycle(slab);
    }
    this.#inFlight += bytes;
    // Where the kernel takes nothing, a few bytes that wait must not hold a slab each.
    const isCopied = bytes <= copiedMaxBytes && (this.#socket?.writableLength ?? 0) > 0;
    const batch = isCopied ? new Uint8Array(slab.subarray(0, bytes)) : slab.subarray(0, bytes);
    if (isCopied) this.#recycle(slab);
    this.#writes.push(batch);
    this.#socket?.write(batch, (error) => {
      this.#inFlight -= bytes;
      this.#writes.shift();
      if (!isCopied) this.#recycle(slab);
      if (error) this.#endBehindLast();
      else if (this.#isRefusing && !this.#isOver()) {
        this.#isRefusing = false;
        this.#receiver.onRoom();
      }
    });
  }

  /** The peer's end is closed, but what it had sent before is still to be read. */
  #endBehindLast(): void {
    if (this.#isOver()) return;
    try {
      this.#drain?.();
    } catch {
      // ECONNRESET behind the last byte: the end that is reported below
    }
    this.#end(false);
  }

  /**
   * The end of the peer's bytes; `isSaid`: by an end of stream, not by a lost connection. Bytes
   * that have arrived are handed out first, in the usual turns.
   */
  #end(isSaid: boolean): void {
    if (this.#isOver()) return;
    this.#isEndSaid ||= isSaid;
    if (this.#state === 'open') this.#moveTo('ending');
    if (this.#state === 'ending' && this.isBehind) return;
    const isCutOff = this.#isEndSaid && this.#decoder.isMidFrame;
    this.#finish(this.#endError ?? (isCutOff ? cutOff() : undefined));
  }

  #moveTo(state: SocketState): void {
    this.#state = moved(moves, this.#state, state);
  }

  #finish(error: SidecallError | undefined): void {
    if (this.#isOver()) return;
    this.destroy();
    this.#receiver.onEnd(error);
  }

  #recycle(slab: Buffer | undefined): void {
    if (slab?.length !== slabBytes || spareSlabs.length >= sparesMax) return;
    spareSlabs.push(slab);
  }
}

function flushLater(transport: SocketTransport): void {
  transport.flush();
}

function cutOff(): SidecallError {
  return new SidecallError('ERR_SIDECALL_PEER_GONE', 'the peer ended in the middle of a frame');
}
