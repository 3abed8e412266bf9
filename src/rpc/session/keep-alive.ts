// SPDX-License-Identifier: MIT
// Watches the peer's event loop by pings at an interval, and tells when it stands still and when it
// turns again. Ends nothing.
import type { Clock } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import { emitEvent } from '../../base/events.ts';
import { tuning } from '../../base/limits/internal-limits.ts';
import {
  armDeadline,
  cancelDeadline,
  deadlineAfter,
  type SharedTimer,
  type Timed,
} from '../deadline.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import type { Pings } from './pings.ts';

/** Checked options of `keepAlive`. */
export interface KeepAliveSettings {
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

export class KeepAlive implements Timed {
  timer: SharedTimer | undefined;
  readonly #clock: Clock;
  readonly #shared: SessionShared;
  readonly #settings: KeepAliveSettings;
  readonly #pings: Pings;
  #isEnded = false;

  /** Begins, and ends when `closed` settles. */
  constructor(
    settings: KeepAliveSettings,
    {
      shared,
      pings,
      closed,
    }: {
      readonly shared: SessionShared;
      readonly pings: Pings;
      readonly closed: Promise<unknown>;
    },
  ) {
    this.#clock = shared.clock;
    this.#shared = shared;
    this.#settings = settings;
    this.#pings = pings;
    this.#arm(settings.intervalMs);
    void closed.then(() => this.#end());
  }

  onDeadline(): void {
    void this.#look();
  }

  async #look(): Promise<void> {
    const { intervalMs, timeoutMs } = this.#settings;
    const since = this.#clock.nowMs();
    const isAnswered = await this.#isAnswered(timeoutMs);
    if (this.#isEnded) return;
    // A process that was stopped itself has not read the answer yet.
    const lateMs = this.#clock.nowMs() - since - timeoutMs;
    if (!isAnswered && lateMs > tuning.lateTimerMs) return this.#arm(0);
    if (!isAnswered) await this.#tellUntilItAnswers();
    if (!this.#isEnded) this.#arm(intervalMs);
  }

  async #isAnswered(waitMs: number): Promise<boolean> {
    const first = await this.#pings.liveness(waitMs, false);
    if (first.loop === 'turning') return true;
    // The answer may have come in this very turn of the loop, which reads after its timers.
    await new Promise<void>((resolve) => this.#clock.setImmediate(resolve));
    return (await this.#pings.liveness(0, false)).loop === 'turning';
  }

  async #tellUntilItAnswers(): Promise<void> {
    const { busyForMs } = await this.#pings.liveness(0, false);
    if (this.#isEnded) return;
    const sentAt = this.#clock.nowMs() - busyForMs;
    const waitedMs = Math.round(busyForMs);
    const text = `no answer to a ping for ${waitedMs} ms (keepAlive.timeoutMs ${this.#settings.timeoutMs}): the peer's event loop stands still, or its process does; the session goes on`;
    const error = new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text);
    this.#tell('unresponsive', error, waitedMs);
    await this.#pings.answered();
    if (this.#isEnded) return;
    this.#tell('responsive', error, Math.round(this.#clock.nowMs() - sentAt));
  }

  #tell(type: 'unresponsive' | 'responsive', error: SidecallError, waitedMs: number): void {
    const { onEvent, peer } = this.#shared;
    emitEvent(onEvent, { type, error, peer, waitedMs });
  }

  #end(): void {
    this.#isEnded = true;
    cancelDeadline(this);
  }

  #arm(ms: number): void {
    armDeadline(this.#clock, this, deadlineAfter(this.#clock, ms), false);
  }
}
