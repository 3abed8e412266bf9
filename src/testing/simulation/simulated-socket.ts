// SPDX-License-Identifier: MIT
// A Unix socket between two simulated processes: bytes arrive later, in other pieces, and the end
// of a process is seen as the kernel shows it.
import { Buffer } from 'node:buffer';
import type { LaneSocket, OpenSocket, SocketOpener } from '../../wire/lane-socket.ts';
import type { SimulatedProcess } from './process.ts';

type Then = () => void;

interface Write {
  bytes: Uint8Array;
  readonly then: (error?: Error | null) => void;
}

/** Bytes on their way in one direction. */
class Pipe {
  readonly chunks: Uint8Array[] = [];
  bytes = 0;
  /** No byte follows: the writing end was shut, or its process has ended. */
  isEnded = false;
  /** The reading end is closed: writes fail. */
  isBroken = false;
  /** The reading end was closed with bytes unread: the writing end reads ECONNRESET, once. */
  isReset = false;
  readonly capacity: number;

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  push(bytes: Uint8Array): void {
    this.chunks.push(bytes);
    this.bytes += bytes.length;
  }

  /** Up to `max` bytes, as they follow each other: the kernel knows no borders of writes. */
  take(max: number): Uint8Array {
    const all =
      this.chunks.length === 1 ? (this.chunks[0] as Uint8Array) : Buffer.concat(this.chunks);
    const taken = all.subarray(0, max);
    this.chunks.length = 0;
    if (taken.length < all.length) this.chunks.push(all.subarray(max));
    this.bytes -= taken.length;
    return taken;
  }
}

/** Milliseconds that bytes travel, at most: one of these for each connection. */
const delaysMaxMs = [0.01, 0.2, 0.2, 3];
const capacities = [2_304, 16_384, 212_992];
/** A full socket takes bytes again once it has this much room. */
const leastRoom = 700;
const readMaxBytes = 65_536;
const doorbell = new Uint8Array([1]);

/** Two ends that are connected. */
export function socketPair(
  near: SimulatedProcess,
  far: SimulatedProcess,
): [SimulatedSocket, SimulatedSocket] {
  const { random } = near.world;
  const there = new Pipe(random.pick(capacities));
  const back = new Pipe(random.pick(capacities));
  const delayMaxMs = random.pick(delaysMaxMs);
  const ends: [SimulatedSocket, SimulatedSocket] = [
    new SimulatedSocket(near, back, there, delayMaxMs),
    new SimulatedSocket(far, there, back, delayMaxMs),
  ];
  ends[0].peer = ends[1];
  ends[1].peer = ends[0];
  return ends;
}

/** A socket that one simulated process holds; its peer is the other end. */
export class SimulatedSocket implements LaneSocket {
  peer!: SimulatedSocket;
  closed = false;
  readonly process: SimulatedProcess;
  readonly #in: Pipe;
  readonly #out: Pipe;
  readonly #writes: Write[] = [];
  readonly #listeners: Record<'end' | 'close', Then[]> = { end: [], close: [] };
  readonly #onError: ((error: NodeJS.ErrnoException) => void)[] = [];
  #onBytes: ((bytes: Uint8Array) => void) | undefined;
  #isReading = false;
  #isReadPlanned = false;
  #isPumpPlanned = false;
  #isDestroyed = false;
  #isEndSeen = false;
  #onFinished: Then | undefined;
  readonly #delayMaxMs: number;
  #isFull = false;

  constructor(process: SimulatedProcess, incoming: Pipe, outgoing: Pipe, delayMaxMs: number) {
    this.process = process;
    this.#in = incoming;
    this.#out = outgoing;
    this.#delayMaxMs = delayMaxMs;
    process.whenDead(() => {
      this.#shut();
      this.#forget();
    });
  }

  /** As the openers of real sockets. */
  get opener(): SocketOpener {
    return (onBytes): OpenSocket => {
      this.#onBytes = onBytes;
      return { socket: this, drain: () => this.#drain() };
    };
  }

  on(
    event: 'end' | 'error' | 'close',
    then: Then | ((error: NodeJS.ErrnoException) => void),
  ): this {
    if (event === 'error') this.#onError.push(then);
    else this.#listeners[event].push(then as Then);
    return this;
  }

  once(event: 'close', then: Then): this {
    return this.on(event, then); // 'close' comes once
  }

  write(bytes: Uint8Array, then: (error?: Error | null) => void): boolean {
    this.#writes.push({ bytes, then });
    this.#planPump(0);
    return this.#out.bytes < this.#out.capacity;
  }

  end(then: Then): void {
    this.#onFinished = then;
    this.#planPump(0);
  }

  pause(): void {
    this.#isReading = false;
  }

  resume(): void {
    this.#isReading = true;
    this.#planRead();
  }

  destroy(): void {
    if (this.#isDestroyed) return;
    this.#shut();
    const failed = this.#writes.splice(0);
    this.process.plan(0, () => {
      for (const { then } of failed) then(new Error('ERR_STREAM_DESTROYED'));
      this.closed = true;
      this.#emit('close');
    });
  }

  ref(): void {}

  unref(): void {}

  /** Bytes of an incorrect process, among those that it sends. */
  inject(bytes: Uint8Array): void {
    if (this.#isDestroyed || this.#out.isBroken) return;
    this.#out.push(bytes);
    this.peer.#planRead();
  }

  /** Sends one byte past what `write()` holds, as the addon rings a doorbell. */
  ring(): void {
    if (this.#isDestroyed || this.#out.isBroken || this.#out.bytes >= this.#out.capacity) return;
    this.#out.push(doorbell);
    this.peer.#planRead();
  }

  /** The kernel takes nothing for this end, until it is called again with false. */
  setFull(isFull: boolean): void {
    this.#isFull = isFull;
    if (!isFull) this.#planPump(0);
  }

  /** The system reports an error that the peer has not caused. */
  fail(): void {
    if (this.#isDestroyed || this.process.isDead) return;
    this.process.plan(0, () => this.#break(systemError('EIO')));
  }

  /** The kernel closes this end: the other one reads what is on its way, then the end. */
  #shut(): void {
    if (this.#isDestroyed) return;
    this.#isDestroyed = true;
    this.#in.isBroken = true;
    this.#in.isReset = this.#in.bytes > 0;
    this.#out.isEnded = true;
    this.peer.#planRead();
    this.peer.#planPump(this.#delay());
  }

  /** A registry of blocks refers to this socket: blocks of a dead process have to be collected. */
  #forget(): void {
    this.#onBytes = undefined;
    this.#onFinished = undefined;
    this.#writes.length = 0;
    this.#onError.length = 0;
    this.#listeners.end.length = 0;
    this.#listeners.close.length = 0;
  }

  #planPump(afterMs: number): void {
    if (this.#isPumpPlanned || this.process.isDead) return;
    this.#isPumpPlanned = true;
    this.process.plan(afterMs, () => this.#pump());
  }

  /** Hands over what has room: often only a part of what was written. */
  #pump(): void {
    this.#isPumpPlanned = false;
    if (this.#isDestroyed) return;
    const { random } = this.process;
    for (let write = this.#writes[0]; write !== undefined; write = this.#writes[0]) {
      if (this.#out.isBroken) return this.#failWrite();
      const room = this.#out.capacity - this.#out.bytes;
      if (room < Math.min(leastRoom, write.bytes.length) || this.#isFull) return;
      const most = Math.min(room, write.bytes.length);
      const part = random.chance(80) ? most : 1 + random.below(most);
      if (!this.process.point()) return;
      this.#out.push(new Uint8Array(write.bytes.subarray(0, part)));
      write.bytes = write.bytes.subarray(part);
      this.peer.#planRead();
      if (write.bytes.length > 0) return this.#planPump(this.#delay());
      this.#writes.shift();
      write.then();
      if (this.#isDestroyed) return;
    }
    const finished = this.#onFinished;
    this.#onFinished = undefined;
    if (finished === undefined) return;
    this.#out.isEnded = true;
    this.peer.#planRead();
    finished();
  }

  #failWrite(): void {
    const error = systemError('EPIPE');
    const { then } = this.#writes.shift() as Write;
    then(error);
    this.#break(error);
  }

  #break(error: NodeJS.ErrnoException): void {
    if (this.#isDestroyed) return;
    this.destroy();
    for (const then of this.#onError) if (!this.process.isDead) then(error);
  }

  #planRead(): void {
    if (this.#isReadPlanned || this.process.isDead) return;
    this.#isReadPlanned = true;
    this.process.plan(this.#delay(), () => this.#read());
  }

  #read(): void {
    this.#isReadPlanned = false;
    if (!this.#isReading || this.#isDestroyed || this.#onBytes === undefined) return;
    const { random } = this.process;
    if (this.#in.bytes > 0) {
      const max = random.chance(70) ? readMaxBytes : 1 + random.below(64);
      const bytes = this.#in.take(max);
      this.peer.#planPump(this.#delay());
      this.#onBytes(bytes);
    } else if (this.#in.isEnded && !this.#isEndSeen) {
      this.#isEndSeen = true;
      if (this.#out.isReset) return this.#break(systemError('ECONNRESET'));
      this.#emit('end');
      this.process.plan(this.#delay(), () => this.destroy());
      return;
    }
    if (this.#in.bytes > 0 || this.#in.isEnded) this.#planRead();
  }

  #drain(): void {
    while (this.#in.bytes > 0 && !this.#isDestroyed) this.#onBytes?.(this.#in.take(readMaxBytes));
  }

  #emit(event: 'end' | 'close'): void {
    if (this.process.isDead) return;
    for (const then of [...this.#listeners[event]]) then();
  }

  #delay(): number {
    return this.process.random.fraction() * this.#delayMaxMs;
  }
}

function systemError(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(code), { code });
}
