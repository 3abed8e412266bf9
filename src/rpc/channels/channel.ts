// SPDX-License-Identifier: MIT
// Messages both ways without calls.

import { SidecallError } from '../../base/errors.ts';
import { rejected } from '../../base/ignore-errors.ts';
import type { Metadata } from '../../base/metadata.ts';
import { checkFunction, nodeError } from '../../base/misuse.ts';
import type { Peer } from '../../base/peer.ts';
import type { CallOptions } from '../contract/call-options.ts';
import { IdleTimeout } from '../idle-timeout.ts';
import type { ArrivedChannel } from '../serving/accept-channels.ts';
import type { ChannelHalves } from '../streams/channel-halves.ts';
import { checkWait, type WaitOptions, waitFor } from '../wait.ts';

/** Options of the end that opens a channel. */
export interface ChannelOptions extends Pick<CallOptions, 'timeoutMs' | 'signal' | 'metadata'> {
  /** The name by which the other end accepts it: 1 to 256 bytes. */
  readonly name: string;
  /** As with methods. Both ends choose for themselves. */
  readonly priority?: 'normal' | 'bulk' | undefined;
  /** As `windowBytes` of a call. */
  readonly windowBytes?: number | undefined;
  /** Milliseconds without a message in either direction after which it ends. Default: none. */
  readonly idleTimeoutMs?: number | undefined;
}

/** The channels that a session accepts, to be iterated. */
export type Accepted<T> = AsyncIterableIterator<T, undefined> & AsyncDisposable;

/** Options of the end that accepts channels. */
export type AcceptOptions = Pick<ChannelOptions, 'name' | 'priority' | 'idleTimeoutMs'>;

/** Options of byte streams, at both ends. */
export interface HalfOpenOptions {
  /**
   * Our half stays open when the peer has ended its own: `end()` ends it. Default: it ends, too, as
   * with a `net.Socket`.
   */
  readonly allowHalfOpen?: boolean | undefined;
}

/** Options of the end that opens a byte stream. */
export interface DuplexOptions extends ChannelOptions, HalfOpenOptions {}

/** Options of the end that accepts byte streams. */
export interface AcceptDuplexOptions extends AcceptOptions, HalfOpenOptions {}

/** Called with what arrives on a channel, one at a time. */
export interface ChannelSubscriber<T> {
  /**
   * A message. The next one comes when the promise it returned has settled; a rejection cancels the
   * channel.
   */
  readonly message: (message: T) => unknown;
  /** The peer has ended its half. */
  readonly end?: (() => void) | undefined;
  /** The channel is over otherwise. */
  readonly error?: ((error: unknown) => void) | undefined;
}

/**
 * One end of a channel: messages of one codec in both directions, each with its own flow control.
 * Iterate it once for what comes in; leaving the loop before the end cancels the channel.
 */
export class Channel<T, Input = T> implements AsyncIterableIterator<T, undefined>, AsyncDisposable {
  /** The name that it was opened with. */
  readonly name: string;
  /** Key-values that the opening end sent. */
  readonly metadata: Metadata;
  /** The process at the other end. */
  readonly peer: Peer;
  /**
   * Resolves when both halves have ended and arrived; rejects where the channel was given up, timed
   * out or lost. A rejection that is not awaited is dropped.
   */
  readonly closed: Promise<void>;
  readonly #core: ChannelHalves;
  #isSubscribed = false;

  /** @internal */
  constructor({ core, name, metadata, peer }: ArrivedChannel, idleTimeoutMs: number | undefined) {
    this.#core = core;
    this.name = name;
    this.metadata = metadata;
    this.peer = peer;
    this.closed = core.closed;
    if (idleTimeoutMs !== undefined) new IdleTimeout(core.clock, core, idleTimeoutMs);
  }

  /** Bytes that wait on this side: messages to be taken, and messages to be admitted. */
  get queuedBytes(): number {
    return this.#core.reader.queuedBytes + this.#core.writer.waitingBytes;
  }

  /**
   * Sends a message. Resolves when it was admitted: until then its bytes must not change. Any
   * number may be under way; they arrive in the order of the calls.
   * @throws (as rejection) `ERR_SIDECALL_END_OF_STREAM` after `end()`, `ERR_SIDECALL_ENCODE`,
   * `ERR_SIDECALL_MESSAGE_TOO_LARGE`, `ERR_SIDECALL_DEADLINE_EXCEEDED` and `signal.reason` for this
   * message alone, or why the channel is over.
   */
  send(message: Input, options?: WaitOptions): Promise<void> {
    const { writer } = this.#core;
    if (options === undefined) return writer.send(message);
    checkWait('send()', options);
    if (options.signal?.aborted === true) return rejected(options.signal.reason);
    const before = writer.latest;
    const sent = writer.send(message);
    const waiting = writer.latest === before ? undefined : writer.latest;
    return waitFor(
      this.#core.clock,
      sent,
      options,
      (reasonOf) => waiting !== undefined && writer.giveUp(waiting, reasonOf),
    );
  }

  /** The next message; `done` once the peer has ended. Giving up the wait loses no message. */
  next(options?: WaitOptions): Promise<IteratorResult<T, undefined>> {
    const { reader } = this.#core;
    type Next = Promise<IteratorResult<T, undefined>>;
    if (options === undefined) return reader.next() as Next;
    checkWait('next()', options);
    if (options.signal?.aborted === true) return rejected(options.signal.reason);
    const before = reader.latest;
    const arrived = reader.next();
    const waiter = reader.latest === before ? undefined : reader.latest;
    return waitFor(this.#core.clock, arrived, options, (reasonOf) => {
      if (waiter === undefined || !reader.giveUp(waiter)) return false;
      reasonOf('no');
      return true;
    }) as Next;
  }

  /**
   * Ends our half. Resolves when the peer has everything; it may go on sending. A second
   * call has no further effect.
   */
  end(): Promise<void> {
    return this.#core.end();
  }

  /**
   * Gives the channel up at once: what waits rejects with `reason` (default
   * `ERR_SIDECALL_CANCELLED`), at both ends.
   */
  cancel(reason?: unknown): void {
    this.#core.abort(
      reason ?? new SidecallError('ERR_SIDECALL_CANCELLED', 'the channel was given up'),
    );
  }

  /** The end of a loop by `break`: as {@link Channel.cancel}, without an error. */
  return(): Promise<IteratorResult<T, undefined>> {
    return this.#core.reader.return() as Promise<IteratorResult<T, undefined>>;
  }

  /**
   * Calls back instead of being iterated: one message at a time, and the peer has its window back
   * when the promise that `message` returned has settled.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` the second time.
   */
  subscribe(subscriber: ChannelSubscriber<T>): void {
    if (this.#isSubscribed) {
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', 'subscribe() was called before');
    }
    if (typeof subscriber?.message !== 'function') {
      throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'subscribe() needs a function `message`');
    }
    checkFunction('subscribe(): end', subscriber.end);
    checkFunction('subscribe(): error', subscriber.error);
    this.#isSubscribed = true;
    void this.#feed(subscriber);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Ends our half; messages that the peer still sends are dropped until it has ended its half. */
  async [Symbol.asyncDispose](): Promise<void> {
    void this.#feed({ message: () => undefined });
    await this.end().catch(() => undefined);
  }

  async #feed({ message, end, error }: ChannelSubscriber<T>): Promise<void> {
    try {
      for (;;) {
        const step = await this.next();
        if (step.done === true) break;
        await message(step.value);
      }
    } catch (reason) {
      this.cancel(reason);
      error?.(reason);
      return;
    }
    end?.();
  }
}
