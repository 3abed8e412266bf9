// SPDX-License-Identifier: MIT
// The goaway of both sides: each sends it once, and answers the peer's after the
// last frame of its last call.
import type { Clock } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import { tuning } from '../../base/limits/internal-limits.ts';
import { FrameFlag, protocol } from '../../wire/frame-header.ts';
import {
  armDeadline,
  cancelDeadline,
  deadlineAfter,
  type SharedTimer,
  type Timed,
} from '../deadline.ts';
import type { SendQueue } from '../sending/send-queue.ts';

export class Goaway {
  readonly #sendQueue: SendQueue;
  #isSaid = false;
  #owesAnswer = false;
  /** The peer has answered ours: it sends no more calls. */
  isAnswered = false;
  /** The peer has said its own. */
  isPeerLeaving = false;

  constructor(sendQueue: SendQueue) {
    this.#sendQueue = sendQueue;
  }

  say(): void {
    this.#isSaid = true;
    this.#send(0);
  }

  /** The peer's goaway, or its answer. @throws {SidecallError} `ERR_SIDECALL_PROTOCOL`. */
  onFrame(isAnswer: boolean): void {
    if (isAnswer) {
      if (!this.#isSaid || this.isAnswered) throw protocol('answer to a goaway that was not sent');
      this.isAnswered = true;
      return;
    }
    if (this.isPeerLeaving) throw protocol('second goaway');
    this.isPeerLeaving = true;
    this.#owesAnswer = true;
  }

  /** The peer waits for our answer, which stands behind the last frame of our last call. */
  get owesAnswer(): boolean {
    return this.#owesAnswer;
  }

  /** Says that no other call follows. */
  answer(): void {
    this.#owesAnswer = false;
    this.#send(FrameFlag.end);
  }

  #send(flags: number): void {
    this.#sendQueue.sendControl(this.#sendQueue.header.goaway(flags));
  }
}

/** A session as its latest end sees it. */
interface Endable {
  readonly closed: Promise<unknown>;
  fail(error: SidecallError): void;
}

/** A timer that fails a session after the peer's goaway, even with calls under way. */
export class GoawayTimeout implements Timed {
  timer: SharedTimer | undefined;
  readonly #clock: Clock;
  readonly #session: Endable;
  readonly #timeoutMs: number;
  #until = 0;

  constructor(clock: Clock, session: Endable, timeoutMs: number) {
    this.#clock = clock;
    this.#session = session;
    this.#timeoutMs = timeoutMs;
    this.#arm(timeoutMs);
    void session.closed.then(() => cancelDeadline(this));
  }

  onDeadline(): void {
    // A timer that is this late belongs to a process that was stopped. The peer's close may have
    // arrived meanwhile, unread.
    if (this.#clock.nowMs() - this.#until > tuning.lateTimerMs)
      return this.#arm(tuning.idleCloseMs);
    const text = `the peer said goaway and did not close within ${this.#timeoutMs} ms`;
    this.#session.fail(new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text));
  }

  #arm(ms: number): void {
    this.#until = deadlineAfter(this.#clock, ms);
    armDeadline(this.#clock, this, this.#until, false);
  }
}
