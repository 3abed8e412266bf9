// SPDX-License-Identifier: MIT
// Names of channels that are accepted, and channels that wait to be taken.

import { Fifo } from '../../base/fifo.ts';
import { tuning } from '../../base/limits/internal-limits.ts';
import type { Metadata } from '../../base/metadata.ts';
import { nodeError } from '../../base/misuse.ts';
import type { Peer } from '../../base/peer.ts';
import type { Codec } from '../contract/codec.ts';
import type { ChannelHalves } from '../streams/channel-halves.ts';

/** A channel that the peer opened. */
export interface ArrivedChannel {
  readonly core: ChannelHalves;
  readonly name: string;
  readonly metadata: Metadata;
  readonly peer: Peer;
}

/** The settings of an acceptor of one name. */
export interface AcceptorParts<T> {
  /** `CallKind.channel` or `CallKind.duplex`. */
  readonly kind: number;
  readonly name: string;
  readonly codec: Codec<unknown>;
  readonly isBulk: boolean;
  readonly make: (arrived: ArrivedChannel) => T;
}

const done: IteratorReturnResult<undefined> = Object.freeze({ done: true, value: undefined });

/** All names that a session accepts. */
export class ChannelAcceptors {
  readonly #byName = new Map<string, Acceptor<unknown>>();
  #isEnded = false;

  /** The session is closing: no name is accepted any more. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  find(kind: number, name: string): Acceptor<unknown> | undefined {
    return this.#byName.get(`${kind}:${name}`);
  }

  /** @throws {TypeError} `ERR_INVALID_ARG_VALUE` where the name is accepted already. */
  add<T>(parts: AcceptorParts<T>): Acceptor<T> {
    const key = `${parts.kind}:${parts.name}`;
    if (this.#byName.has(key)) {
      const text = `channels named '${parts.name}' are accepted already`;
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
    }
    const acceptor = new Acceptor(parts, () => this.#byName.delete(key));
    if (this.#isEnded) acceptor.end();
    else this.#byName.set(key, acceptor as Acceptor<unknown>);
    return acceptor;
  }

  /** The session is over: what waits is still handed out, and says so itself. */
  end(): void {
    this.#isEnded = true;
    for (const acceptor of [...this.#byName.values()]) acceptor.end();
  }
}

/** Channels of one name, in the order they came. Leaving the loop refuses those that follow. */
export class Acceptor<T> implements AsyncIterableIterator<T, undefined>, AsyncDisposable {
  readonly codec: Codec<unknown>;
  readonly isBulk: boolean;
  readonly #make: (arrived: ArrivedChannel) => T;
  readonly #onEnded: () => void;
  readonly #arrived = new Fifo<ArrivedChannel>();
  readonly #waiting = new Fifo<(result: IteratorResult<T, undefined>) => void>();
  #isEnded = false;

  constructor(parts: AcceptorParts<T>, onEnded: () => void) {
    this.codec = parts.codec;
    this.isBulk = parts.isBulk;
    this.#make = parts.make;
    this.#onEnded = onEnded;
  }

  /** Those that were given up while they waited take no place. */
  get isFull(): boolean {
    this.#arrived.removeAll(({ core }) => core.isFailed);
    return this.#arrived.length >= tuning.waitingChannelsMax;
  }

  push(arrived: ArrivedChannel): void {
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#arrived.push(arrived);
    else waiting({ done: false, value: this.#make(arrived) });
  }

  next(): Promise<IteratorResult<T, undefined>> {
    const arrived = this.#arrived.shift();
    if (arrived !== undefined) return Promise.resolve({ done: false, value: this.#make(arrived) });
    if (this.#isEnded) return Promise.resolve(done);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  return(): Promise<IteratorResult<T, undefined>> {
    this.end();
    for (let arrived = this.#arrived.shift(); arrived; arrived = this.#arrived.shift()) {
      arrived.core.abort(new Error('nobody accepts it any more'));
    }
    return Promise.resolve(done);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  /** Ends the iteration: no further channel comes. */
  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#onEnded();
    for (let waiting = this.#waiting.shift(); waiting; waiting = this.#waiting.shift()) {
      waiting(done);
    }
  }
}
