// SPDX-License-Identifier: MIT
// A Duplex of bytes over one stream of shmipc-go.
import { Buffer } from 'node:buffer';
import { Duplex } from 'node:stream';
import { systemClock, throwLater } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { Fifo } from '../base/fifo.ts';

/** The session, as its streams see it. */
export interface StreamOwner {
  /** Sends behind what was sent before; `then` is called when it is on its way, or has failed. */
  send(stream: ShmipcStream, bytes: Uint8Array, then: (error?: Error | null) => void): void;
  /** A reader has taken a piece of what had arrived. */
  onRead(piece: Uint8Array): void;
  onDestroyed(stream: ShmipcStream, error: Error | null): void;
}

/**
 * A stream of bytes with the peer; made by {@link ShmipcSession.open}, or by the peer. A write is
 * one message of shmipc-go, or several where it is long; messages are not kept apart.
 *
 * shmipc-go has no half-close. `end()` says nothing to the peer, so that its answer can still come:
 * `close()`, or leaving a `for await` over the stream, ends both directions, as the peer's close
 * does.
 */
export class ShmipcStream extends Duplex {
  /** The number of the stream in its session. */
  readonly id: number;
  readonly #owner: StreamOwner;
  readonly #arrived = new Fifo<Uint8Array>();
  #wantsMore = false;
  #isClosedByPeer = false;
  #hasEnded = false;
  #failure: SidecallError | undefined;
  #isClosing = false;

  /** @internal */
  constructor(id: number, owner: StreamOwner) {
    // Chunks are handed over one at a time, so that a failure comes behind the last one.
    super({ allowHalfOpen: true, readableHighWaterMark: 1 });
    this.id = id;
    this.#owner = owner;
  }

  /** The peer has closed the stream: it reads nothing more. */
  get isClosedByPeer(): boolean {
    return this.#isClosedByPeer;
  }

  /** Closes both directions, behind what was written. Resolves when that is on its way. */
  async close(): Promise<void> {
    if (this.closed) return;
    const isOver = new Promise<void>((resolve) => this.once('close', () => resolve()));
    this.#isClosing = true;
    // A write that was under way when the session ended has no callback before.
    if (this.#failure !== undefined) this.destroy(this.#failure);
    else this.end(() => this.destroy());
    await isOver;
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** @internal */
  receive(bytes: Uint8Array): void {
    if (this.#isClosedByPeer || this.destroyed) return this.#owner.onRead(bytes);
    this.#arrived.push(bytes);
    if (this.#wantsMore) this.#run();
  }

  /** @internal */
  receiveClose(): void {
    if (this.#isClosedByPeer) return;
    this.#isClosedByPeer = true;
    if (this.#wantsMore) this.#run();
  }

  /** @internal The session is over: an error, behind what has arrived. */
  fail(error: SidecallError): void {
    // An end that has arrived comes to the reader as an end.
    if (this.#isClosedByPeer) return;
    this.#failure = error;
    this.#isClosedByPeer = true;
    const isRead = this.#arrived.length === 0 && this.readableLength === 0;
    if (isRead || this.#isClosing) this.destroy(error);
  }

  override _read(): void {
    this.#wantsMore = true;
    this.#hand();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, then: (error?: Error | null) => void) {
    if (chunk.length === 0) return then();
    if (this.#isClosedByPeer) return then(closedByPeer());
    this.#owner.send(this, chunk, then);
  }

  override _writev(
    chunks: readonly { readonly chunk: Buffer }[],
    then: (error?: Error | null) => void,
  ): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), 'utf8', then);
  }

  override _destroy(error: Error | null, then: (error?: Error | null) => void): void {
    const left = this.#arrived.items();
    this.#arrived.clear();
    for (const bytes of left) this.#owner.onRead(bytes);
    this.#owner.onDestroyed(this, error);
    then(error);
  }

  /** Runs the listeners of the program; an error that they throw is its own. */
  #run(): void {
    try {
      this.#hand();
    } catch (error) {
      throwLater(error);
    }
  }

  #hand(): void {
    while (this.#wantsMore && !this.#hasEnded) {
      const bytes = this.#arrived.shift();
      if (bytes === undefined) break;
      this.#wantsMore = this.push(bytes);
      this.#owner.onRead(bytes);
    }
    if (this.#isClosedByPeer && this.#arrived.length === 0 && !this.#hasEnded) {
      this.#hasEnded = true;
      const failure = this.#failure;
      // The reader takes the last chunk in this turn.
      if (failure !== undefined) return void systemClock.nextTick(() => this.destroy(failure));
      this.push(null);
      // The peer takes no more.
      if (!this.writableEnded) this.end();
    }
  }
}

function closedByPeer(): SidecallError {
  return new SidecallError('ERR_SIDECALL_PEER_GONE', 'shmipc: the peer has closed the stream');
}
