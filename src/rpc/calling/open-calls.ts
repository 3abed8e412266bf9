// SPDX-License-Identifier: MIT
// The calls that we make on one session: the table of their streams, and what they share.
import type { SidecallError } from '../../base/errors.ts';
import { Fifo } from '../../base/fifo.ts';
import { AnnouncedNames } from '../sending/method-names.ts';
import type { OutgoingMessage } from '../sending/outgoing-messages.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import { Departures, type WaitQueue } from '../stalls.ts';
import { OpenedStreams, type Slotted } from '../streams/stream-table.ts';
import { type Abortable, AbortWatch } from './abort-signals.ts';

export class OpenCalls<Call extends Slotted & Abortable> {
  readonly shared: SessionShared;
  readonly streams: OpenedStreams<Call>;
  readonly names = new AnnouncedNames();
  readonly aborts = new AbortWatch<Call>();
  /** All notifications leave by one line: short ones do not overtake long ones. */
  readonly notifications = new Fifo<OutgoingMessage>();
  /**
   * Calls that we gave up, and whose handlers may run: they keep their slots until the peer says
   * that they have settled.
   */
  readonly givenUp = {
    waiting: 0,
    waitReason: 'given-up',
    departed: new Departures(),
  } satisfies WaitQueue;
  /** The error of every new call; undefined: calls are made. */
  refusal: SidecallError | undefined;
  /** Calls that were sent, ever. */
  begun = 0;

  constructor(shared: SessionShared) {
    this.shared = shared;
    this.streams = new OpenedStreams(shared.remote.streamsMax);
  }
}
