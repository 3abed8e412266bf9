// SPDX-License-Identifier: MIT
// The parts that both halves of a session share: transport, limits, windows, the way to report.

import { Buffer } from 'node:buffer';
import { type Clock, systemClock } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import { emitEvent, type OnEvent } from '../../base/events.ts';
import { ranges, type SessionLimits } from '../../base/limits/option-limits.ts';
import { wireLimits } from '../../base/limits/wire-limits.ts';
import { checkInteger } from '../../base/misuse.ts';
import { isOwnProcess, type Peer } from '../../base/peer.ts';
import { type Random, systemRandom } from '../../base/random.ts';
import { type Moves, moved } from '../../base/states.ts';
import { type FlightRecorder, SessionRecorder } from '../../wire/flight-recorder.ts';
import { FrameFlag, protocol } from '../../wire/frame-header.ts';
import type { Transport } from '../../wire/transport.ts';
import { Block } from '../contract/leases.ts';
import { Moments } from '../counting/moments.ts';
import { SessionCounters } from '../counting/session-counters.ts';
import { type Stall, Stalls } from '../stalls.ts';
import {
  type ReceiveCredit,
  receiveCredits,
  type SendCredit,
  sendCredits,
  Window,
} from './credit.ts';
import type { SendingStream } from './outgoing-messages.ts';
import { SendQueue } from './send-queue.ts';
import { WaitingWriters } from './waiting-writers.ts';

/** The limits that the peer announced in the hello. */
export type RemoteLimits = Pick<
  SessionLimits,
  'receiveMaxBytes' | 'metadataMaxBytes' | 'streamsMax' | 'streamWindowBytes'
>;

/**
 * `open`; `draining`: one of the two sides is closing, calls in flight go on, new ones are refused;
 * `closed`.
 */
export type SessionState = 'open' | 'draining' | 'closed';

const moves: Moves<SessionState> = {
  open: ['draining', 'closed'],
  draining: ['closed'],
  closed: [],
};

/** The parts of a session that both halves need. */
export interface SharedParts {
  readonly transport: Transport;
  readonly peer: Peer;
  readonly own: SessionLimits;
  readonly remote: RemoteLimits;
  readonly onEvent?: OnEvent | undefined;
  /** Time and turns. Default: those of this thread. */
  readonly clock?: Clock | undefined;
  /** Chance. Default: that of the system. */
  readonly random?: Random | undefined;
  /** Time without progress after which a wait is told to `onEvent`. Default: 10,000. */
  readonly stalledAfterMs?: number | undefined;
  /** The flight recorder of this process; undefined: it has none. */
  readonly recorder?: FlightRecorder | undefined;
  /** Calls may be in samples for processes that look into this one. Default: true. */
  readonly isSampled?: boolean | undefined;
  /** Every request is started at once: the other end takes any answer. Default: no. */
  readonly startsAll?: boolean | undefined;
  /** The peer was accepted by the default policy. Default: it was not. */
  readonly isDefaultPolicy?: boolean | undefined;
}

/** The session around both halves. */
export interface SessionHost {
  /** Ends the session because of what the peer did. */
  fail(error: SidecallError): void;
  /** A call ended, or a wait is over: others may start, and a session that drains may be done. */
  onProgress(): void;
  /** The send queue is empty. */
  onDrained(): void;
}

let lastId = 0;

/** Shared by the calling and the serving half of one session. */
export class SessionShared {
  /** As `session.id`. */
  readonly id: number;
  readonly transport: Transport;
  readonly sendQueue: SendQueue;
  readonly own: SessionLimits;
  readonly remote: RemoteLimits;
  /** Windows of the session, by `Window`. */
  readonly sendCredit: readonly SendCredit[];
  readonly receiveCredit: readonly ReceiveCredit[];
  /** Senders of streams that wait for the session: for its window, or room in its queue. */
  readonly blocked = new WaitingWriters();
  /** Metadata that may be sent: what the peer takes, and what fits into one frame. */
  readonly metadataMaxBytes: number;
  /** All that waits in the session, by its reason. */
  readonly waits: Stalls;
  readonly peer: Peer;
  readonly onEvent: OnEvent | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly isSampled: boolean;
  readonly startsAll: boolean;
  /** The peer sees the texts of errors that our handlers did not throw for it. */
  readonly tellsFaults: boolean;
  /** Only {@link SessionShared.moveTo} sets it. */
  state: SessionState = 'open';
  /** All that the session has counted. */
  readonly counters = new SessionCounters();
  /** The instants at which calls begin and end. */
  readonly moments: Moments;
  /** undefined: this process is not recorded. */
  readonly recorder: SessionRecorder | undefined;
  /** undefined: its frames are not. */
  readonly frameRecorder: SessionRecorder | undefined;
  readonly #host: SessionHost;

  constructor(parts: SharedParts, host: SessionHost) {
    this.#host = host;
    lastId += 1;
    this.id = lastId;
    this.transport = parts.transport;
    this.own = parts.own;
    this.remote = parts.remote;
    this.peer = parts.peer;
    this.onEvent = parts.onEvent;
    this.clock = parts.clock ?? systemClock;
    this.isSampled = parts.isSampled ?? true;
    this.startsAll = parts.startsAll ?? false;
    this.moments = new Moments(this.clock, parts.transport);
    if (parts.transport.tellsTime === true) parts.transport.moments = this.moments;
    this.recorder = parts.recorder && new SessionRecorder(parts.recorder, this.id, this.moments);
    this.frameRecorder = parts.recorder?.hasFrames === true ? this.recorder : undefined;
    this.frameRecorder?.began(parts.peer.pid);
    this.random = parts.random ?? systemRandom;
    this.tellsFaults = isOwnProcess(parts.peer, parts.isDefaultPolicy ?? false);
    this.waits = new Stalls(
      this.clock,
      parts.stalledAfterMs ?? ranges.stalledAfterMs.standard,
      (stall) => this.#onStalled(stall),
    );
    this.sendQueue = new SendQueue(
      parts.transport,
      () => host.onDrained(),
      (stream, error) => this.clock.setImmediate(() => this.#onDetached(stream, error)),
      () => this.waits.add(this.sendQueue),
    );
    this.sendQueue.recorder = this.frameRecorder;
    this.metadataMaxBytes = Math.min(parts.remote.metadataMaxBytes, this.sendQueue.fragmentBytes);
    this.sendCredit = sendCredits(parts.remote);
    this.receiveCredit = receiveCredits(parts.own);
  }

  /** Ends the stream alone, behind the send that has found its memory detached. */
  #onDetached(stream: SendingStream, error: SidecallError): void {
    // Else it has ended meanwhile, or was told already: the transport may have asked for more.
    if (stream.queued > 0) stream.onDetached(error);
    this.sendQueue.onRoom();
  }

  get isClosed(): boolean {
    return this.state === 'closed';
  }

  moveTo(state: SessionState): void {
    this.state = moved(moves, this.state, state);
    if (state === 'closed') this.frameRecorder?.ended();
  }

  /** Memory for one message, to be filled in place. @throws as `Session.allocate`. */
  allocate(bytes: number): Block {
    checkInteger('bytes', bytes ?? Number.NaN, ranges.blockBytes);
    const { receiveMaxBytes } = this.remote;
    if (bytes > receiveMaxBytes) {
      const text = `a block of ${bytes} bytes could not be sent: the peer's receiveMaxBytes is ${receiveMaxBytes}`;
      throw new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', text);
    }
    const own = bytes === 0 ? undefined : this.transport.allocate?.(bytes);
    if (own === undefined) this.counters.blocksOrdinary += 1;
    else this.counters.blocksInPlace += 1;
    return new Block(this, own ?? Buffer.alloc(bytes), bytes);
  }

  /** Grants the part of our windows that the hello could not tell. */
  grantRest(): void {
    for (const [window, credit] of this.receiveCredit.entries()) {
      const { initialGrant } = credit;
      if (initialGrant <= 0) continue;
      credit.noteInitialGrant();
      this.sendQueue.sendControl(this.sendQueue.header.credit(0, window, 0, initialGrant));
    }
  }

  /** Gives back to a window of the session; batched. */
  releaseCredit(window: number, charge: number): void {
    const batch = (this.receiveCredit[window] as ReceiveCredit).release(charge);
    if (batch > 0 && this.state !== 'closed') {
      this.sendQueue.sendControl(this.sendQueue.header.credit(0, window, 0, batch));
    }
  }

  /** Forgets what is queued for a stream that is over. */
  removeQueued(stream: SendingStream): void {
    const unseen = this.sendQueue.remove(stream);
    if (unseen === 0) return;
    (this.sendCredit[Window.streams] as SendCredit).spend(-unseen);
    this.resumeBlocked();
  }

  /** The window of all streams has credit again: writers that wait for it go on. */
  resumeBlocked(): void {
    const credit = this.sendCredit[Window.streams] as SendCredit;
    this.blocked.resume(() => credit.hasCredit && this.#hasQueueRoom());
  }

  /**
   * The queue is empty: writers that wait for it go on, without credit, too, since a stream may
   * have one short message beyond the window.
   */
  resumeDrained(): void {
    this.blocked.resume(() => this.#hasQueueRoom());
  }

  fail(error: SidecallError): void {
    this.#host.fail(error);
  }

  onProgress(): void {
    this.#host.onProgress();
  }

  /** As {@link SessionShared.onProgress}, of a plain call, which left nothing behind. */
  onPlainEnd(): void {
    if (this.waits.isWatching || this.state !== 'open') this.#host.onProgress();
  }

  /** Tells `onEvent` that the session ends for another reason than an orderly close. */
  emitFailed(error: SidecallError): void {
    emitEvent(this.onEvent, { type: 'session-failed', error, peer: this.peer });
  }

  #hasQueueRoom(): boolean {
    const { sendQueue, own } = this;
    const max = own.sendQueueMaxBytes;
    return sendQueue.hasRoom(false, max) || sendQueue.hasRoom(true, max);
  }

  #onStalled({ reason, waiting, waitedMs }: Stall): void {
    const text = `${waiting} wait for ${waitedMs} ms without any progress: ${reason}`;
    const error = new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text);
    const { peer } = this;
    emitEvent(this.onEvent, { type: 'stalled', error, peer, reason, waiting, waitedMs });
  }
}

/**
 * Counts a message that has begun to arrive: before memory is taken for it. Returns its charge.
 * @throws {SidecallError} `ERR_SIDECALL_FRAME_TOO_LARGE`, or `ERR_SIDECALL_PROTOCOL` where the peer
 * had no credit left.
 */
export function takeMessage(shared: SessionShared, window: number, messageBytes: number): number {
  if (messageBytes > shared.own.receiveMaxBytes) throw tooLong(shared, messageBytes);
  const charge = messageBytes + wireLimits.messageOverheadBytes; // as chargeOf(), of each call
  const credit = shared.receiveCredit[window] as ReceiveCredit;
  // The credit that is owed may be all that the peer could still send: the holder of this message
  // may keep it for ever.
  if (credit.take(charge)) shared.releaseCredit(window, 0);
  return charge;
}

/**
 * The same for a message of a stream. One that goes beyond the window of all streams
 * (`FrameFlag.beyond`) counts in its stream's window only, and is short. Returns what the session
 * is charged.
 */
export function takeStreamed(shared: SessionShared, flags: number, messageBytes: number): number {
  if ((flags & FrameFlag.beyond) === 0) return takeMessage(shared, Window.streams, messageBytes);
  if (messageBytes > wireLimits.beyondMaxBytes) {
    throw protocol(`message of ${messageBytes} bytes beyond the window of all streams`);
  }
  if (messageBytes > shared.own.receiveMaxBytes) throw tooLong(shared, messageBytes);
  return 0;
}

function tooLong({ own }: SessionShared, messageBytes: number): SidecallError {
  const text = `the peer announced a message of ${messageBytes} bytes; receiveMaxBytes is ${own.receiveMaxBytes}`;
  return new SidecallError('ERR_SIDECALL_FRAME_TOO_LARGE', text);
}
