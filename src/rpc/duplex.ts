// SPDX-License-Identifier: MIT
// Raw bytes both ways, as a stream of Node's.
import { Duplex } from 'node:stream';
import { SidecallError } from '../errors.ts';
import { fixed } from '../limits.ts';
import type { Metadata } from '../metadata.ts';
import type { Peer } from '../peer.ts';
import type { ArrivedChannel } from './acceptors.ts';
import type { ChannelCore } from './channel-core.ts';
import { IdleWatch } from './idle.ts';

/**
 * A byte stream over a session. Writing is held back by the reader at the other end; `end()` ends our half,
 * and 'finish' says that the peer has all of it. `destroy()` gives both halves up; once everything was read
 * it ends ours.
 */
export class SessionDuplex extends Duplex {
  /** What it was opened by. */
  readonly name: string;
  /** Key-values that the opening end sent. */
  readonly metadata: Metadata;
  /** Who is at the other end. */
  readonly peer: Peer;
  readonly #core: ChannelCore;
  #failure: Error | undefined;

  /** @internal */
  constructor({ core, name, metadata, peer }: ArrivedChannel, idleTimeoutMs: number | undefined) {
    super({ allowHalfOpen: true, highWaterMark: fixed.fragmentBytes });
    this.#core = core;
    this.name = name;
    this.metadata = metadata;
    this.peer = peer;
    if (idleTimeoutMs !== undefined) new IdleWatch(core, idleTimeoutMs);
    core.closed.catch((error) => this.#onLost(error));
  }

  /** @internal */
  override _read(): void {
    this.#core.reader.next().then(
      ({ done, value }) => this.push(done === true ? null : value),
      (error) => this.#onLost(error),
    );
  }

  /** What is read last is handed out before the failure is told. */
  override read(size?: number): unknown {
    const chunk: unknown = super.read(size);
    if (this.#failure !== undefined) this.#tellFailure();
    return chunk;
  }

  /** @internal */
  override _write(chunk: Buffer, _encoding: string, then: (error?: Error | null) => void): void {
    this.#writePieces(chunk).then(() => then(), then);
  }

  /** @internal */
  override _final(then: (error?: Error | null) => void): void {
    this.#core.end().then(() => then(), then);
  }

  /** @internal */
  override _destroy(error: Error | null, then: (error?: Error | null) => void): void {
    // As a socket: who has read to the end and leaves nothing unwritten parts in peace. Node's iterator
    // does so, with an AbortError of its own.
    const isDone = this.readableEnded && this.writableLength === 0;
    const isQuiet = isDone && (error === null || error.name === 'AbortError');
    const words = 'the stream was destroyed';
    if (isQuiet) this.#core.end().catch(() => undefined);
    else this.#core.abort(error ?? new SidecallError('ERR_SIDECALL_CANCELLED', words));
    then(error);
  }

  /** No longer than a frame each: they take turns with what others send, and no message limit counts. */
  async #writePieces(chunk: Buffer): Promise<void> {
    const { writer } = this.#core;
    for (let at = 0; at < chunk.byteLength; at += fixed.fragmentBytes) {
      await writer.send(chunk.subarray(at, at + fixed.fragmentBytes));
    }
  }

  #onLost(error: unknown): void {
    this.#failure ??= error instanceof Error ? error : new Error(String(error));
    this.#tellFailure();
  }

  #tellFailure(): void {
    const isRead = this.readableLength === 0 && this.#core.reader.queuedBytes === 0;
    if (isRead && this.#failure !== undefined) this.destroy(this.#failure);
  }
}
