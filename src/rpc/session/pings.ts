// SPDX-License-Identifier: MIT
// The liveness of the peer's event loop, by the ping of the protocol. A missing answer fails
// nothing.

import type { Clock } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import { ranges } from '../../base/limits/option-limits.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { checkInteger, checkKeys } from '../../base/misuse.ts';
import { endWaits, pause } from '../../base/pause.ts';
import type { Peer } from '../../base/peer.ts';
import type { Transport } from '../../wire/transport.ts';
import type { SendQueue } from '../sending/send-queue.ts';

/** The result of `session.liveness()`. */
export interface Liveness {
  /**
   * `gone`: its end of the connection has closed by itself, as the kernel does when a process ends,
   * or there is no process of its number any more.
   */
  readonly process: 'alive' | 'gone';
  /**
   * `turning`: it answered a ping at most a second ago. `busy`: one is unanswered, or the
   * process is gone.
   */
  readonly loop: 'turning' | 'busy';
  /**
   * Milliseconds since the unanswered ping was sent, or since the session ended; 0 while `turning`.
   */
  readonly busyForMs: number;
}

/** True: a process of this number exists. It may be another one by now. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** Pings of one session: one at a time, and no more than the protocol allows. */
export class Pings {
  /** Frames of the peer that it sends only for what it has taken: answers, credit. */
  taken = 0;
  readonly #clock: Clock;
  readonly #peer: Peer;
  readonly #transport: Pick<Transport, 'sentPosition'>;
  readonly #send: (token: number) => void;
  // Wake-ups of the callers that wait for the ping that is under way.
  readonly #waiting = new Set<() => void>();
  #token = 0;
  #isOut = false;
  #sentAt = 0;
  #position = 0;
  #answeredAt = Number.NEGATIVE_INFINITY;
  #answeredPosition = 0;
  #roundTripMs = 0;
  #endedAt = 0;
  #reason: SidecallError | undefined;

  constructor(
    clock: Clock,
    peer: Peer,
    transport: Pick<Transport, 'sentPosition'>,
    send: (token: number) => void,
  ) {
    this.#clock = clock;
    this.#peer = peer;
    this.#transport = transport;
    this.#send = send;
  }

  /**
   * Milliseconds of a round trip. @throws {SidecallError} `ERR_SIDECALL_PEER_UNRESPONSIVE`, or why
   * the session is over.
   */
  async ping(options: { readonly timeoutMs?: number | undefined }): Promise<number> {
    checkKeys('ping()', options, ['timeoutMs']);
    const { timeoutMs } = options;
    if (timeoutMs !== undefined) checkInteger('timeoutMs', timeoutMs, ranges.timeoutMs);
    const since = this.#clock.nowMs();
    await this.#ask(timeoutMs);
    if (this.#reason !== undefined) throw this.#reason;
    if (!this.#isOut) return this.#roundTripMs;
    const waited = Math.round(this.#clock.nowMs() - since);
    const text = `no answer to a ping within ${waited} ms (timeoutMs ${timeoutMs}): the peer's event loop is busy; the session goes on`;
    throw new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text, { delivered: 'no' });
  }

  /** Instant at which the ping was sent that is unanswered; undefined: there is none. */
  get outSince(): number | undefined {
    return this.#isOut ? this.#sentAt : undefined;
  }

  /** The position of the transport up to which the peer has taken everything, by its answers. */
  get answeredPosition(): number {
    return this.#answeredPosition;
  }

  /** Sends the answer to a ping of the peer, of which no answer is asked for in turn. */
  answer(queue: Pick<SendQueue, 'sendControl' | 'header'>, token: number): void {
    const before = this.#transport.sentPosition;
    queue.sendControl(queue.header.pong(token));
    const behind = this.#transport.sentPosition;
    if (this.#answeredPosition === before) this.#answeredPosition = behind;
    if (this.#isOut && this.#position === before) this.#position = behind;
  }

  /** Sends a ping, unless one is under way or the last answer is fresh. */
  begin(): void {
    if (this.#reason === undefined && !this.#isFresh) this.#sendOne();
  }

  /** Resolves when no ping is unanswered, or the session is over. */
  async answered(): Promise<void> {
    if (this.#isOut) await this.#ask(undefined);
  }

  /** The liveness, for the options of a program. @throws {TypeError | RangeError} for misuse. */
  async livenessAsked(options: { readonly waitMs?: number | undefined }): Promise<Liveness> {
    checkKeys('liveness()', options, ['waitMs']);
    return this.liveness(checkInteger('waitMs', options.waitMs, ranges.livenessWaitMs));
  }

  /** `isReferenced`: the wait keeps the process alive. */
  async liveness(waitMs: number, isReferenced = true): Promise<Liveness> {
    await this.#ask(waitMs, isReferenced);
    const process = this.#process;
    if (this.#reason === undefined && !this.#isOut) {
      return { process, loop: 'turning', busyForMs: 0 };
    }
    const since = this.#reason === undefined ? this.#sentAt : this.#endedAt;
    return { process, loop: 'busy', busyForMs: this.#clock.nowMs() - since };
  }

  /** False: no ping of ours has this token. */
  onPong(token: number): boolean {
    if (!this.#isOut || token !== this.#token) return false;
    this.#isOut = false;
    this.#answeredAt = this.#clock.nowMs();
    this.#answeredPosition = this.#position;
    this.#roundTripMs = this.#answeredAt - this.#sentAt;
    this.#wake();
    return true;
  }

  /** The session is over. */
  end(reason: SidecallError): void {
    this.#endedAt = this.#clock.nowMs();
    this.#reason = reason;
    this.#wake();
  }

  get #process(): 'alive' | 'gone' {
    if (this.#reason?.code === 'ERR_SIDECALL_PEER_GONE') return 'gone';
    const { pid, pidIsHint } = this.#peer;
    const isKnown = pid !== undefined && pid > 0 && !pidIsHint;
    const isAlive = isKnown ? isRunning(pid) : this.#reason === undefined;
    return isAlive ? 'alive' : 'gone';
  }

  /** The last answer came less than a ping's interval ago. */
  get #isFresh(): boolean {
    return this.#clock.nowMs() - this.#answeredAt < wireLimits.pingIntervalMs;
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  /**
   * Waits for the ping that is under way, or sends one. While the last answer is fresh it does
   * neither, since the peer allows one ping a second.
   */
  async #ask(timeoutMs: number | undefined, isReferenced = true): Promise<void> {
    if (this.#reason !== undefined || (!this.#isOut && this.#isFresh)) return;
    if (timeoutMs === undefined) {
      const answered = new Promise<void>((resolve) => this.#waiting.add(resolve));
      this.#sendOne();
      return answered;
    }
    const answered = new AbortController();
    const wake = (): void => endWaits(answered);
    this.#waiting.add(wake);
    this.#sendOne();
    await pause(this.#clock, timeoutMs, answered.signal, isReferenced);
    this.#waiting.delete(wake);
  }

  #sendOne(): void {
    if (this.#isOut) return;
    this.#isOut = true;
    this.#token = (this.#token + 1) >>> 0;
    this.#sentAt = this.#clock.nowMs();
    this.#send(this.#token);
    this.#position = this.#transport.sentPosition;
  }
}
