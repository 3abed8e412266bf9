// SPDX-License-Identifier: MIT
// The streams by their ids, and late frames. An id is a slot and its generation: slots are reused,
// so ids never run out, and a frame of an earlier generation is recognised for what it is.
import { protocol } from '../../wire/frame-header.ts';

/** The generation after this one: 1 to 2^32 - 1, then 1 again; 0 means "never opened". */
export function nextGeneration(generation: number): number {
  return generation === 0xffff_ffff ? 1 : generation + 1;
}

function isOlder(generation: number, current: number): boolean {
  return ((current - generation) | 0) > 0;
}

/**
 * Slots beyond the number that a side announces, for calls of the built-in services: the
 * health of a side can be checked however many calls are open. A call there is short,
 * and counts in no window.
 */
const extraSlots = 4;

/**
 * Where a slot stands in the arrays: the extra ones first, so that there are no holes. -1: there is
 * no such slot.
 */
function indexOf(slot: number, slotsMax: number): number {
  if (slot < slotsMax) return slot + extraSlots;
  return slot < slotsMax + extraSlots ? slot - slotsMax : -1;
}

/** A stream that knows where it stands in the table. */
export interface Slotted {
  slot: number;
  generation: number;
}

/** Streams that we opened: we choose the slots, as many as the peer announced. */
export class OpenedStreams<T extends Slotted> {
  readonly #slotsMax: number;
  readonly #streams: (T | undefined)[] = new Array(extraSlots).fill(undefined);
  readonly #generations: number[] = new Array(extraSlots).fill(0);
  /** Slots whose generations have begun again at 1. */
  readonly #wrapped = new Set<number>();
  readonly #free: number[] = [];
  readonly #freeExtra: number[] = [];
  // True where the peer itself ended the last generation of a slot: a further frame
  // of it breaks the protocol.
  readonly #endedByPeer: boolean[] = new Array(extraSlots).fill(false);
  #size = 0;
  /** Told whenever a slot is free again. */
  onFreed: (() => void) | undefined;

  constructor(slotsMax: number) {
    this.#slotsMax = slotsMax;
    for (let extra = 0; extra < extraSlots; extra += 1) this.#freeExtra.push(slotsMax + extra);
  }

  get size(): number {
    return this.#size;
  }

  get hasRoom(): boolean {
    return this.#free.length > 0 || this.#streams.length < this.#slotsMax + extraSlots;
  }

  get hasExtra(): boolean {
    return this.#freeExtra.length > 0;
  }

  /** Gives `stream` a slot. NOTE: only where there is room. */
  add(stream: T): void {
    this.#put(stream, this.#free.pop() ?? this.#streams.length - extraSlots);
  }

  /** Gives `stream` one of the extra slots. NOTE: only where there is one. */
  addExtra(stream: T): void {
    this.#put(stream, this.#freeExtra.pop() as number);
  }

  /**
   * Frees the slot. `wasSent` false: the peer never heard of this generation, so it comes again.
   * `endedBy`: the side that sent the last frame; nothing may follow the peer's.
   */
  remove(stream: T, wasSent: boolean, endedBy: 'peer' | 'us'): void {
    const { slot } = stream;
    const at = slot < this.#slotsMax ? slot + extraSlots : indexOf(slot, this.#slotsMax);
    this.#streams[at] = undefined;
    this.#endedByPeer[at] = endedBy === 'peer';
    if (!wasSent) this.#generations[at] = this.#generationBefore(at, stream.generation);
    this.#size -= 1;
    if (slot < this.#slotsMax) this.#free.push(slot);
    else this.#freeExtra.push(slot);
    this.onFreed?.();
  }

  /**
   * The open stream, or undefined for a late frame. @throws {SidecallError} `ERR_SIDECALL_PROTOCOL`
   * otherwise.
   */
  find(slot: number, generation: number): T | undefined {
    const at = indexOf(slot, this.#slotsMax);
    const current = this.#generations[at];
    if (current === undefined) throw protocol('frame for a stream that was never opened');
    if (generation === current && current !== 0) {
      const stream = this.#streams[at];
      if (stream === undefined && this.#endedByPeer[at]) {
        throw protocol('frame for a stream that the peer had ended');
      }
      return stream;
    }
    if (current !== 0 && isOlder(generation, current)) return undefined;
    throw protocol('frame for a stream that was never opened');
  }

  /** The open stream of exactly this id, if there is one. */
  peek(slot: number, generation: number): T | undefined {
    const at = slot < this.#slotsMax ? slot + extraSlots : indexOf(slot, this.#slotsMax);
    return this.#generations[at] === generation ? this.#streams[at] : undefined;
  }

  /** All that are open, for the end of the session. */
  open(): T[] {
    return this.#streams.filter((stream) => stream !== undefined);
  }

  /** The generation of a slot before this one; 0: the slot was never opened before. */
  #generationBefore(at: number, generation: number): number {
    if (generation > 1) return generation - 1;
    return this.#wrapped.has(at) ? 0xffff_ffff : 0;
  }

  #put(stream: T, slot: number): void {
    const at = slot < this.#slotsMax ? slot + extraSlots : indexOf(slot, this.#slotsMax);
    const before = this.#generations[at] ?? 0;
    const generation = nextGeneration(before);
    if (generation < before) this.#wrapped.add(at);
    stream.slot = slot;
    stream.generation = generation;
    this.#streams[at] = stream;
    this.#generations[at] = generation;
    this.#endedByPeer[at] = false;
    this.#size += 1;
  }
}

/** Streams that the peer opened: it chooses the slots, below the number that we announced. */
export class AcceptedStreams<T extends Slotted> {
  /** Slots that the hello announced; the extra ones follow. */
  readonly slotsMax: number;
  readonly #streams: (T | undefined)[] = [];
  readonly #generations: number[] = [];

  constructor(slotsMax: number) {
    this.slotsMax = slotsMax;
  }

  /** The slot is one of the extra ones. */
  isExtra(slot: number): boolean {
    return slot >= this.slotsMax;
  }

  /**
   * Notes a new generation. @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` unless it is the next
   * of a free slot.
   */
  open(slot: number, generation: number): void {
    const at = slot < this.slotsMax ? slot + extraSlots : indexOf(slot, this.slotsMax);
    if (at === -1) throw protocol('stream slot beyond the number announced');
    if (this.#streams[at] !== undefined) throw protocol('stream opened twice');
    if (generation !== nextGeneration(this.#generations[at] ?? 0)) {
      throw protocol('stream with the wrong generation');
    }
    while (this.#generations.length < at) this.#generations.push(0); // no holes: a dense array
    this.#generations[at] = generation;
  }

  /** Puts a stream in the slot that was opened for it. */
  add(stream: T): void {
    const { slot } = stream;
    this.#streams[slot < this.slotsMax ? slot + extraSlots : indexOf(slot, this.slotsMax)] = stream;
  }

  remove(stream: T): void {
    const { slot } = stream;
    const at = slot < this.slotsMax ? slot + extraSlots : indexOf(slot, this.slotsMax);
    if (this.#streams[at] === stream) this.#streams[at] = undefined;
  }

  /**
   * The open stream, or undefined for a late frame. @throws {SidecallError} `ERR_SIDECALL_PROTOCOL`
   * otherwise.
   */
  find(slot: number, generation: number): T | undefined {
    const at = indexOf(slot, this.slotsMax);
    const current = this.#generations[at];
    if (current === undefined) throw protocol('frame for a stream that was never opened');
    if (generation === current && current !== 0) return this.#streams[at];
    if (current !== 0 && isOlder(generation, current)) return undefined;
    throw protocol('frame for a stream that was never opened');
  }

  /** The open stream of exactly this id, if there is one. */
  peek(slot: number, generation: number): T | undefined {
    const at = indexOf(slot, this.slotsMax);
    return this.#generations[at] === generation ? this.#streams[at] : undefined;
  }

  all(): T[] {
    return this.#streams.filter((stream) => stream !== undefined);
  }
}
