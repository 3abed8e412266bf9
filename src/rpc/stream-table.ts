// SPDX-License-Identifier: MIT
// Whose frame this is, or that it came late. An id is a slot and its generation: slots are reused, so
// ids never run out, and a frame of an earlier generation is recognised for what it is.
import { protocol } from '../frame.ts';

/** The generation after this one: 1 to 2^32 - 1, then 1 again; 0 means "never opened". */
export function nextGeneration(generation: number): number {
  return generation === 0xffff_ffff ? 1 : generation + 1;
}

function isOlder(generation: number, current: number): boolean {
  return ((current - generation) | 0) > 0;
}

/** A stream that knows where it stands in the table. */
export interface Slotted {
  slot: number;
  generation: number;
}

/** Streams that we opened: we choose the slots, as many as the peer announced. */
export class OpenedStreams<T extends Slotted> {
  readonly #slotsMax: number;
  readonly #streams: (T | undefined)[] = [];
  readonly #generations: number[] = [];
  readonly #free: number[] = [];
  // Where the peer itself ended the last generation of a slot, one more frame of it is a lie.
  readonly #endedByPeer: boolean[] = [];

  constructor(slotsMax: number) {
    this.#slotsMax = slotsMax;
  }

  get size(): number {
    return this.#streams.length - this.#free.length;
  }

  get hasRoom(): boolean {
    return this.#free.length > 0 || this.#streams.length < this.#slotsMax;
  }

  /** Gives `stream` a slot. NOTE: only where there is room. */
  add(stream: T): void {
    const slot = this.#free.pop() ?? this.#streams.length;
    const generation = nextGeneration(this.#generations[slot] ?? 0);
    stream.slot = slot;
    stream.generation = generation;
    this.#streams[slot] = stream;
    this.#generations[slot] = generation;
    this.#endedByPeer[slot] = false;
  }

  /** Frees the slot. `wasSent` false: the peer never heard of this generation, so it comes again. */
  remove(stream: T, how: { wasSent: boolean; endedByPeer: boolean }): void {
    const { slot } = stream;
    this.#streams[slot] = undefined;
    this.#endedByPeer[slot] = how.endedByPeer;
    if (!how.wasSent) this.#generations[slot] = stream.generation - 1;
    this.#free.push(slot);
  }

  /** The open stream, or undefined for a late frame. @throws {SidecallError} `PROTOCOL` otherwise. */
  find(slot: number, generation: number): T | undefined {
    const current = this.#generations[slot];
    if (current === undefined) throw protocol('frame for a stream that was never opened');
    if (generation === current) {
      const stream = this.#streams[slot];
      if (stream === undefined && this.#endedByPeer[slot]) {
        throw protocol('frame for a stream that it had ended');
      }
      return stream;
    }
    if (isOlder(generation, current)) return undefined;
    throw protocol('frame for a stream that was never opened');
  }

  /** All that are open, for the end of the session. */
  open(): T[] {
    return this.#streams.filter((stream) => stream !== undefined);
  }
}

/** Streams that the peer opened: it chooses the slots, below the number that we announced. */
export class AcceptedStreams<T extends Slotted> {
  readonly #slotsMax: number;
  readonly #streams: (T | undefined)[] = [];
  readonly #generations: number[] = [];

  constructor(slotsMax: number) {
    this.#slotsMax = slotsMax;
  }

  /** Notes a new generation. @throws {SidecallError} `PROTOCOL` unless it is the next of a free slot. */
  open(slot: number, generation: number): void {
    if (slot >= this.#slotsMax) throw protocol('stream beyond the number announced');
    if (this.#streams[slot] !== undefined) throw protocol('stream opened twice');
    if (generation !== nextGeneration(this.#generations[slot] ?? 0)) {
      throw protocol('stream with the wrong generation');
    }
    while (this.#generations.length < slot) this.#generations.push(0); // no holes: a dense array
    this.#generations[slot] = generation;
  }

  /** Puts a stream in the slot that was opened for it. */
  add(stream: T): void {
    this.#streams[stream.slot] = stream;
  }

  remove(stream: T): void {
    if (this.#streams[stream.slot] === stream) this.#streams[stream.slot] = undefined;
  }

  /** The open stream, or undefined for a late frame. @throws {SidecallError} `PROTOCOL` otherwise. */
  find(slot: number, generation: number): T | undefined {
    const current = this.#generations[slot];
    if (current === undefined) throw protocol('frame for a stream that was never opened');
    if (generation === current && current !== 0) return this.#streams[slot];
    if (current !== 0 && isOlder(generation, current)) return undefined;
    throw protocol('frame for a stream that was never opened');
  }

  /** The open stream of exactly this id, if there is one. */
  peek(slot: number, generation: number): T | undefined {
    return this.#generations[slot] === generation ? this.#streams[slot] : undefined;
  }

  all(): T[] {
    return this.#streams.filter((stream) => stream !== undefined);
  }
}
