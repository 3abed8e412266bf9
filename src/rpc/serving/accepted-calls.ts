// SPDX-License-Identifier: MIT
// The calls that the peer has opened: the table of their streams, and what they hold together.
import type { SidecallErrorCode } from '../../base/error-codes.ts';
import { tuning } from '../../base/limits/internal-limits.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import { AcceptedStreams, type Slotted } from '../streams/stream-table.ts';

/** A call, as far as the table knows it. */
interface AcceptedCall extends Slotted {
  /** The call is told when the session is about to close. */
  readonly endsAtDrain: boolean;
  abort(code: SidecallErrorCode): void;
}

export class AcceptedCalls<Call extends AcceptedCall> {
  readonly shared: SessionShared;
  readonly streams: AcceptedStreams<Call>;
  /** Plain calls that are over and that nobody holds: the next ones use their objects. */
  readonly spares: Call[] = [];
  /** New calls are refused; those that were opened before go on, and notifications are taken. */
  isDraining = false;
  /** Calls that are not over. */
  open = 0;
  /** Calls that were opened, ever. */
  begun = 0;
  /** Requests of which a part has arrived. */
  unfinished = 0;
  /** Answers that wait for the window of answers, and their bytes. */
  waitingAnswers = 0;
  waitingAnswerBytes = 0;

  constructor(shared: SessionShared) {
    this.shared = shared;
    this.streams = new AcceptedStreams(shared.own.streamsMax);
  }

  add(call: Call): void {
    this.open += 1;
    this.begun += 1;
    this.streams.add(call);
  }

  /**
   * True: answers wait for their window, or fill the send queue, since the peer does not keep up.
   */
  get isUnread(): boolean {
    const { sendQueue, own } = this.shared;
    return this.waitingAnswers > 0 || sendQueue.messages.answerBytes >= own.sendQueueMaxBytes;
  }

  /** Answers that wait have all the memory that answers may have: faults go without words. */
  get isOverfull(): boolean {
    return this.answerBytes >= tuning.answersMaxBytes;
  }

  /** Bytes of all answers that wait, for the window or in the send queue. */
  get answerBytes(): number {
    return this.waitingAnswerBytes + this.shared.sendQueue.messages.answerBytes;
  }

  /** Calls that would last for ever are told that one side is about to close. */
  endWatches(): void {
    for (const call of this.streams.all()) {
      if (call.endsAtDrain) call.abort('ERR_SIDECALL_GOING_AWAY');
    }
  }
}
