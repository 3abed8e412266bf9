// SPDX-License-Identifier: MIT
// The streams of a session, those that were closed, and what waits for their readers.
import { ignore } from '../base/ignore-errors.ts';
import { ShmipcStream, type StreamOwner } from './shmipc-stream.ts';

// Ids of closed streams that are remembered: the peer may have sent before it saw the close.
const closedIdsMax = 16_384;
const firstId = 2;
const idMax = 0xffff_ffff;
// Memory that a piece of a message costs while it waits, beside its bytes.
const pieceBytes = 512;

export class OpenStreams {
  readonly #streams = new Map<number, ShmipcStream>();
  readonly #closedIds = new Set<number>();
  #lastId = firstId - 1;
  #unreadBytes = 0;
  #unreadCost = 0;

  get size(): number {
    return this.#streams.size;
  }

  /** Bytes that have arrived and wait for their readers. */
  get unreadBytes(): number {
    return this.#unreadBytes;
  }

  /** The same with the memory that the pieces cost. */
  get unreadCost(): number {
    return this.#unreadCost;
  }

  /** The id of the next stream that the client opens. */
  nextId(): number {
    do this.#lastId = this.#lastId === idMax ? firstId : this.#lastId + 1;
    while (this.#streams.has(this.#lastId));
    return this.#lastId;
  }

  add(id: number, owner: StreamOwner): ShmipcStream {
    const stream = new ShmipcStream(id, owner);
    // A session that ends must not end the process: a stream may have no reader yet.
    stream.on('error', ignore);
    this.#streams.set(id, stream);
    return stream;
  }

  get(id: number): ShmipcStream | undefined {
    return this.#streams.get(id);
  }

  all(): readonly ShmipcStream[] {
    return [...this.#streams.values()];
  }

  /** False: it was removed before. */
  remove(id: number): boolean {
    return this.#streams.delete(id);
  }

  /** Remembers a stream that we have closed: bytes of it may still be on their way. */
  remember(id: number): void {
    this.#closedIds.add(id);
    const [oldest] = this.#closedIds;
    if (this.#closedIds.size > closedIdsMax) this.#closedIds.delete(oldest as number);
  }

  isRemembered(id: number): boolean {
    return this.#closedIds.has(id);
  }

  /** The peer has closed it, too. */
  forget(id: number): void {
    this.#closedIds.delete(id);
  }

  countArrived(piece: Uint8Array): void {
    this.#unreadBytes += piece.length;
    this.#unreadCost += piece.length + pieceBytes;
  }

  countRead(piece: Uint8Array): void {
    this.#unreadBytes -= piece.length;
    this.#unreadCost -= piece.length + pieceBytes;
  }
}
