// SPDX-License-Identifier: MIT
// The members of a net.Socket that protocols use beside the stream: time-outs, and members
// that have no effect here.
import { Duplex, type DuplexOptions } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import { ranges } from '../../base/limits/option-limits.ts';
import { checkInteger } from '../../base/misuse.ts';
import { armDeadline, cancelDeadline, deadlineAfter, type Timed } from '../deadline.ts';

/** A Duplex that protocols of Node take for a socket. */
export abstract class SocketLike extends Duplex {
  /** Bytes that were read from the peer, ever. */
  bytesRead = 0;
  /** Bytes that were given to `write()` and sent, ever. */
  bytesWritten = 0;
  /** Milliseconds of `setTimeout()`, or undefined. */
  timeout: number | undefined;
  readonly connecting = false;
  readonly pending = false;
  /** There is no address: `peer` says who is at the other end. */
  readonly remoteAddress = undefined;
  readonly remoteFamily = undefined;
  readonly remotePort = undefined;
  readonly localAddress = undefined;
  readonly localPort = undefined;
  readonly #clock: Clock;
  readonly #watch: Timed = { timer: undefined, onDeadline: () => this.#onTimer() };
  #movedAt = 0;

  protected constructor(clock: Clock, options: DuplexOptions) {
    super(options);
    this.#clock = clock;
    this.once('close', () => cancelDeadline(this.#watch));
  }

  /** As of a net.Socket. */
  get readyState(): 'open' | 'readOnly' | 'writeOnly' | 'closed' {
    if (this.readable) return this.writable ? 'open' : 'readOnly';
    return this.writable ? 'writeOnly' : 'closed';
  }

  /**
   * Emits 'timeout' after `ms` milliseconds without a read or a write; the stream stays
   * open. 0 switches it off.
   * @param ms 0 to 2,147,483,647.
   * @throws {TypeError | RangeError} for what is no such number.
   */
  setTimeout(ms: number, onTimeout?: () => void): this {
    checkInteger('ms', ms, { ...ranges.timeoutMs, min: 0 });
    cancelDeadline(this.#watch);
    this.timeout = ms === 0 ? undefined : ms;
    if (onTimeout !== undefined) {
      if (ms === 0) this.removeListener('timeout', onTimeout);
      else this.once('timeout', onTimeout);
    }
    this.noteMoved();
    if (ms > 0 && !this.destroyed) this.#arm(ms);
    return this;
  }

  /** Does nothing: messages leave at once. */
  setNoDelay(_isOn?: boolean): this {
    return this;
  }

  /** Does nothing: the kernel tells when the peer has gone. */
  setKeepAlive(_isOn?: boolean, _initialDelayMs?: number): this {
    return this;
  }

  /** Does nothing: `session.ref()` decides. */
  ref(): this {
    return this;
  }

  /** Does nothing: `session.unref()` decides. */
  unref(): this {
    return this;
  }

  /** As of a net.Socket without an address: nothing. */
  address(): Record<string, never> {
    return {};
  }

  /** Ends our half, and destroys the stream once all of it was sent. */
  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once('finish', () => this.destroy());
  }

  /** Something was read or written. */
  protected noteMoved(): void {
    if (this.timeout !== undefined) this.#movedAt = this.#clock.nowMs();
  }

  #arm(ms: number): void {
    armDeadline(this.#clock, this.#watch, deadlineAfter(this.#clock, ms), false);
  }

  #onTimer(): void {
    if (this.timeout === undefined || this.destroyed) return;
    const leftMs = this.#movedAt + this.timeout - this.#clock.nowMs();
    if (leftMs > 0) return this.#arm(Math.ceil(leftMs));
    this.emit('timeout');
  }
}
