// SPDX-License-Identifier: MIT
// Messages of a stream that wait for its reader. Short ones lie one behind the other in
// memory that they share: an object for each would cost more than the window charges for it.
import { Buffer } from 'node:buffer';
import { Fifo } from '../../base/fifo.ts';
import { ownedCopy } from '../../base/message-slabs.ts';
import { chargeOf } from '../sending/credit.ts';
import type { MessageAssembly } from './message-assembly.ts';

/** A whole message. */
export interface Arrived {
  readonly bytes: Uint8Array;
  /** Its memory, where that is to be given back. */
  readonly assembly: MessageAssembly | undefined;
  /**
   * Bytes that it takes of the window of its stream, and of that of all streams unless it
   * `isBeyond` that.
   */
  readonly charge: number;
  readonly isBeyond: boolean;
}

const shortMaxBytes = 1024;
const lengthBytes = 2;
const firstRunBytes = 512;
const runMaxBytes = 16 * 1024;

/** Short messages that arrived one after the other, each behind its length. */
class Run {
  #memory = Buffer.allocUnsafeSlow(firstRunBytes);
  #filled = 0;
  #at = 0;

  /** False: it is full. */
  push(bytes: Uint8Array): boolean {
    const end = this.#filled + lengthBytes + bytes.length;
    if (end > runMaxBytes) return false;
    if (end > this.#memory.length) {
      const memory = Buffer.allocUnsafeSlow(Math.max(end, 2 * this.#memory.length));
      memory.set(this.#memory.subarray(0, this.#filled));
      this.#memory = memory;
    }
    this.#memory.writeUInt16LE(bytes.length, this.#filled);
    this.#memory.set(bytes, this.#filled + lengthBytes);
    this.#filled = end;
    return true;
  }

  /** A copy of the first one. */
  shift(): Buffer {
    const start = this.#at + lengthBytes;
    this.#at = start + this.#memory.readUInt16LE(this.#at);
    return ownedCopy(this.#memory.subarray(start, this.#at));
  }

  get isEmpty(): boolean {
    return this.#at === this.#filled;
  }
}

/** In the order of arrival. */
export class ArrivedQueue {
  readonly #items = new Fifo<Arrived | Run>();
  /** The last item, if it is a run. */
  #run: Run | undefined;

  /** `bytes` are copied where they have no `assembly`. */
  push(
    bytes: Uint8Array,
    assembly: MessageAssembly | undefined,
    charge: number,
    isBeyond: boolean,
  ): void {
    const isShort = bytes.length <= shortMaxBytes && assembly === undefined && !isBeyond;
    // A message that waits alone, as most do, is taken soon.
    if (isShort && this.#items.length > 0) return this.#pushShort(bytes);
    const kept = assembly === undefined ? ownedCopy(bytes) : bytes;
    this.#run = undefined;
    this.#items.push({ bytes: kept, assembly, charge, isBeyond });
  }

  shift(): Arrived | undefined {
    const first = this.#items.peek();
    if (!(first instanceof Run)) {
      this.#items.shift();
      return first;
    }
    const bytes = first.shift();
    if (first.isEmpty) {
      this.#items.shift();
      if (first === this.#run) this.#run = undefined;
    }
    return { bytes, assembly: undefined, charge: chargeOf(bytes.length), isBeyond: false };
  }

  #pushShort(bytes: Uint8Array): void {
    if (this.#run?.push(bytes) === true) return;
    this.#run = new Run();
    this.#run.push(bytes);
    this.#items.push(this.#run);
  }
}
