// SPDX-License-Identifier: MIT
// Raw bytes both ways, as a stream of Node that behaves as a net.Socket does.

import { isError } from '../../base/brands.ts';
import { SidecallError } from '../../base/errors.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import type { Metadata } from '../../base/metadata.ts';
import type { Peer } from '../../base/peer.ts';
import { IdleTimeout } from '../idle-timeout.ts';
import type { ArrivedChannel } from '../serving/accept-channels.ts';
import type { ChannelHalves } from '../streams/channel-halves.ts';
import { SocketLike } from './socket-like.ts';

/** The options of a duplex beside its channel. */
export interface DuplexSettings {
  readonly idleTimeoutMs: number | undefined;
  readonly allowHalfOpen: boolean | undefined;
}

/**
 * A byte stream over a session. Writing is held back by the reader at the other end; `end()` ends
 * our half, and 'finish' says that the peer has all of it. As with a `net.Socket`: when the peer
 * ends, so do we, unless `allowHalfOpen` is set; `destroy()`, with an error or without, leaves:
 * what was sent before arrives at the other end, and then its 'end'. The other end is destroyed
 * with an error only while it is writing. A refused name, a time-out and the loss of the session
 * are errors at both ends.
 */
export class SessionDuplex extends SocketLike {
  /** The name that it was opened with. */
  readonly name: string;
  /** Key-values that the opening end sent. */
  readonly metadata: Metadata;
  /** The process at the other end. */
  readonly peer: Peer;
  readonly #core: ChannelHalves;
  #failure: Error | undefined;
  #hasEndedWithPeer = false;

  /** @internal */
  constructor({ core, name, metadata, peer }: ArrivedChannel, settings: DuplexSettings) {
    const { idleTimeoutMs, allowHalfOpen = false } = settings;
    super(core.clock, { allowHalfOpen: true, highWaterMark: wireLimits.fragmentBytes });
    this.#core = core;
    this.name = name;
    this.metadata = metadata;
    this.peer = peer;
    if (idleTimeoutMs !== undefined) new IdleTimeout(core.clock, core, idleTimeoutMs);
    core.closed.catch((error) => this.#onLost(error));
    if (!allowHalfOpen) this.once('end', () => this.#endWithPeer());
    this.read(0); // as a socket: the first bytes are here before the first read
  }

  /** @internal */
  override _read(): void {
    this.#core.reader.next().then(
      ({ done, value }) => {
        this.noteMoved();
        if (done === true) return this.push(null);
        this.bytesRead += (value as Uint8Array).length;
        return this.push(value);
      },
      (error) => this.#onLost(error),
    );
  }

  /** The last bytes are handed out before the failure is told. */
  override read(size?: number): unknown {
    const chunk: unknown = super.read(size);
    if (this.#failure !== undefined) this.#tellFailure();
    return chunk;
  }

  /**
   * As of a stream of Node. Once our half has ended with the peer's, a write fails by its
   * callback alone: protocols on top (TLS, for one) write a last message without a check that the
   * other end is still open.
   */
  // biome-ignore lint/suspicious/noExplicitAny: the overloads of Node's
  override write(chunk: any, ...rest: any[]): boolean {
    if (!this.#hasEndedWithPeer) return super.write(chunk, ...rest);
    const then: unknown = rest.at(-1);
    const text = `${this.name}: the other end has ended the stream`;
    if (typeof then === 'function') {
      this.#core.clock.nextTick(
        then as (error: Error) => void,
        new SidecallError('ERR_SIDECALL_END_OF_STREAM', text),
      );
    }
    return false;
  }

  /** @internal */
  override _write(chunk: Buffer, _encoding: string, then: (error?: Error | null) => void): void {
    this.#writePieces(chunk).then(
      () => then(),
      (error) => then(asError(error)),
    );
  }

  /** @internal */
  override _final(then: (error?: Error | null) => void): void {
    this.#core.end().then(
      () => then(),
      // The peer has left, and wants nothing more: as with a socket, that is no failure of our end.
      (error) => then(isLeft(error) ? null : asError(error)),
    );
  }

  /** @internal */
  override _destroy(error: Error | null, then: (error?: Error | null) => void): void {
    this.#core.close();
    then(error);
  }

  /**
   * Writes a chunk in pieces of at most one frame: they take turns with other streams, and
   * no message limit applies.
   */
  async #writePieces(chunk: Buffer): Promise<void> {
    const { writer } = this.#core;
    for (let at = 0; at < chunk.length; at += wireLimits.fragmentBytes) {
      const piece = chunk.subarray(at, at + wireLimits.fragmentBytes);
      await writer.send(piece);
      this.bytesWritten += piece.length;
      this.noteMoved();
    }
  }

  #endWithPeer(): void {
    if (!this.writable) return;
    this.end();
    this.#hasEndedWithPeer = true;
  }

  #onLost(error: unknown): void {
    this.#failure ??= asError(error);
    this.#tellFailure();
  }

  #tellFailure(): void {
    const isRead = this.readableLength === 0 && this.#core.reader.queuedBytes === 0;
    const failure = this.#failure;
    if (!isRead || failure === undefined) return;
    if (!isLeft(failure)) this.destroy(failure);
    // The reader's end is on its way, where it came: 'end' first, as with a socket.
    else if (this.writableLength > 0) this.destroy(failure);
    else if (this.#core.isPeerEnded && !this.readableEnded) this.once('end', () => this.destroy());
    else this.destroy();
  }
}

/** The peer gave the stream up: it left. */
function isLeft(error: unknown): boolean {
  return SidecallError.is(error) && error.code === 'ERR_SIDECALL_CANCELLED';
}

function asError(error: unknown): Error {
  return isError(error) ? error : new Error(String(error));
}
