// SPDX-License-Identifier: MIT
// Joins the two halves over one transport: dispatch of frames, windows, GOAWAY, the end.

import { partOf } from '../../base/bytes.ts';
import { SidecallError } from '../../base/errors.ts';
import { tuning } from '../../base/limits/internal-limits.ts';
import { endWaits, pause, pauseInTurns } from '../../base/pause.ts';
import {
  checkPayload,
  emptyHeader,
  FrameFlag,
  FrameType,
  fieldsOf,
  type Header,
  headerAt,
  plainAnswer,
  plainOpen,
  protocol,
  readHeader,
} from '../../wire/frame-header.ts';
import type { ArrivedBlock, FrameReceiver } from '../../wire/transport.ts';
import { Caller } from '../calling/caller.ts';
import { IdleTimeout, type Watched } from '../idle-timeout.ts';
import { PeerClock, sentNow } from '../peer-clock.ts';
import { type SendCredit, Window } from '../sending/credit.ts';
import type { SendQueue } from '../sending/send-queue.ts';
import { type SessionHost, SessionShared, type SessionState } from '../sending/session-shared.ts';
import { ChannelAcceptors } from '../serving/accept-channels.ts';
import { Callee } from '../serving/callee.ts';
import { Registry } from '../serving/registry.ts';
import { shortWay } from '../short-way.ts';
import { closeTransport } from './close-transport.ts';
import { type ClosedCalls, closedCalls, noCalls, withoutLast } from './closed-calls.ts';
import { cutOff, drained, endOf, isOwnEnd, unsent } from './end-errors.ts';
import { Goaway, GoawayTimeout } from './goaway.ts';
import { PingAllowance } from './ping-allowance.ts';
import { Pings } from './pings.ts';
import { leastQueueMax, queueMax, unread } from './queue-bound.ts';
import type { SessionParts } from './session-parts.ts';
import { type SessionStats, statsOf } from './session-stats.ts';

/** The inside of a session: its two halves, and the receiver of its transport. */
export class SessionCore implements SessionHost, FrameReceiver, Watched {
  readonly shared: SessionShared;
  readonly acceptors = new ChannelAcceptors();
  readonly caller: Caller;
  readonly callee: Callee;
  readonly registry: Registry;
  readonly closed: Promise<SidecallError | undefined>;
  readonly draining: Promise<void>;
  readonly pings: Pings;
  readonly #sendQueue: SendQueue;
  readonly #goaway: Goaway;
  readonly #peerClock: PeerClock;
  readonly #pingAllowance = new PingAllowance();
  readonly #header = emptyHeader();
  // A handler may look ahead while the frame that started it is being looked at.
  readonly #aheadHeader = emptyHeader();
  // Aborted when there is nothing left to wait for in close().
  readonly #done = new AbortController();
  #resolveClosed!: (error: SidecallError | undefined) => void;
  #closing: Promise<ClosedCalls> | undefined;
  // Calls that the end of the session has cut off.
  #forced = 0;
  #closeUntil = 0;
  readonly #exitKnownMs: number;
  #exit: SidecallError | undefined;
  #resolveDraining!: () => void;

  constructor(parts: SessionParts) {
    const shared = new SessionShared(parts, this);
    this.shared = shared;
    const { sendQueue, transport, clock } = shared;
    this.#peerClock = new PeerClock(clock);
    this.#sendQueue = sendQueue;
    this.#exitKnownMs = parts.exitKnownMs ?? 0;
    this.#goaway = new Goaway(sendQueue);
    this.pings = new Pings(clock, parts.peer, transport, (token) =>
      sendQueue.sendControl(sendQueue.header.ping(token)),
    );
    this.caller = new Caller(shared);
    this.registry = new Registry(parts.registry);
    const isOurs = parts.peer.uid !== undefined && parts.peer.uid === process.geteuid?.();
    this.registry.isIntrospective = parts.introspection ?? isOurs;
    this.registry.addAll(parts.services);
    this.callee = new Callee(shared, {
      registry: this.registry,
      acceptors: this.acceptors,
      clock: this.#peerClock,
      isUntaken: parts.isUntaken ?? false,
    });
    this.draining = new Promise((resolve) => {
      this.#resolveDraining = resolve;
    });
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    transport.start(this);
    sendQueue.sendControl(sendQueue.header.clock(sentNow(clock)));
    shared.grantRest();
    if (parts.idleTimeoutMs !== undefined) new IdleTimeout(clock, this, parts.idleTimeoutMs);
  }

  get state(): SessionState {
    return this.shared.state;
  }

  /** Grows whenever a call is begun, or a request of the peer's goes on arriving. */
  get moved(): number {
    return this.caller.begun + this.callee.moved;
  }

  get isBusy(): boolean {
    return this.#underWay() > 0;
  }

  /** Calls of both sides that have begun and have not ended. */
  #underWay(): number {
    return this.caller.pending + this.callee.working;
  }

  onIdle(): void {
    void this.close(tuning.idleCloseMs);
  }

  stats(): SessionStats {
    return statsOf(this.shared, this.caller, this.callee);
  }

  onFrame(
    headerBytes: Uint8Array,
    at: number,
    payload: Uint8Array,
    from: number,
    to: number,
    block?: ArrivedBlock,
  ): void {
    const { shared } = this;
    if (shared.state === 'closed') return;
    shared.counters.framesReceived += 1;
    if (shared.frameRecorder !== undefined) {
      const bytes = to - from + (block?.byteLength ?? 0);
      shared.frameRecorder.received(headerAt(headerBytes, at), bytes);
    }
    try {
      // The short way of the frames of plain calls; a lane hands out no header that is cut.
      const fields = fieldsOf(headerBytes);
      const first = fields.getUint32(at, true);
      const mayBePlain = block === undefined && this.#peerClock.isKnown && shortWay.isOn;
      if (
        mayBePlain &&
        first === plainAnswer &&
        this.caller.answers.onPlain(fields, at, payload, from, to)
      ) {
        this.pings.taken += 1;
      } else if (
        !mayBePlain ||
        first !== plainOpen ||
        !this.callee.onPlain(fields, at, payload, from, to)
      ) {
        this.#onOther(headerBytes, at, payload, from, to, block);
      }
    } catch (error) {
      this.fail(SidecallError.from(error));
    }
    if (!shared.waits.isWatching) return; // the send queue is empty
    const { queuedCount } = this.#sendQueue;
    if (queuedCount > leastQueueMax && queuedCount > queueMax(shared, this.caller))
      this.fail(unread());
  }

  placeFor(headerBytes: Uint8Array, bytes: number): Uint8Array | undefined {
    const type = headerBytes[0] as number;
    // First pieces of messages only where another copy would cost more than finding out.
    const isPiece = type === FrameType.fragment;
    const isFirst =
      bytes >= tuning.placedMinBytes && (type === FrameType.open || type === FrameType.message);
    if (this.state === 'closed' || !(isPiece || isFirst)) return undefined;
    const header = this.#header;
    readHeader(headerBytes, header);
    const isTheirs = (header.flags & FrameFlag.fromOpener) !== 0;
    return (isTheirs ? this.callee : this.caller.answers).placeFor(header, bytes);
  }

  takeAhead(headerBytes: Uint8Array): boolean {
    if (this.state === 'closed') return false;
    try {
      const header = this.#aheadHeader;
      readHeader(headerBytes, header);
      const isReset = header.type === FrameType.reset;
      if (!isReset || (header.flags & FrameFlag.fromOpener) === 0) return false;
      return this.callee.takeAhead(header);
    } catch (error) {
      this.fail(SidecallError.from(error)); // the handler that looked has done nothing wrong
      return true;
    }
  }

  onRoom(): void {
    if (this.state !== 'closed') this.#sendQueue.onRoom();
  }

  onEnd(error: SidecallError | undefined): void {
    if (this.state === 'closed') return;
    const isOrderly = this.#goaway.isPeerLeaving || this.#closing !== undefined;
    if (error === undefined && isOrderly && this.caller.pending === 0) {
      this.#settle(undefined);
      return this.#resolveClosed(undefined);
    }
    const { reason, isFinal } = endOf(error, this.#exit, this.shared.peer);
    if (isFinal || this.#exitKnownMs === 0) return this.fail(reason);
    // The peer's calls end now; our own wait for the exit of its process, which their errors name.
    this.#drain();
    this.#sendQueue.hold();
    this.callee.end(reason.code, reason);
    void pauseInTurns(this.shared.clock, this.#exitKnownMs, this.#done.signal).then(() =>
      this.fail(reason),
    );
  }

  /** The peer's process has ended: so does the session, once what has arrived is delivered. */
  terminate(exit: SidecallError): void {
    this.#exit = exit;
    const { transport } = this.shared;
    if (transport.drainLast === undefined || this.#sendQueue.isHeld) this.fail(exit);
    else transport.drainLast(exit);
  }

  fail(error: SidecallError): void {
    if (this.state === 'closed') return;
    this.#settle(error); // first: destroying ends the transport, and that is no news any more
    this.shared.transport.destroy();
    this.#resolveClosed(error);
  }

  onProgress(): void {
    const { state } = this.shared;
    if (state === 'closed') return;
    this.callee.resume();
    this.caller.resume();
    if (state === 'open') return; // nobody leaves
    this.#answerGoaway();
    this.#checkDone();
  }

  onDrained(): void {
    this.callee.resume();
    this.caller.resume();
    this.shared.resumeDrained();
    this.#answerGoaway();
    this.#checkDone();
  }

  close(deadlineMs: number, isFollowed = false): Promise<ClosedCalls> {
    const until = this.shared.clock.nowMs() + deadlineMs;
    if (this.#closing === undefined) {
      this.#closeUntil = until;
      this.#closing = this.#close(deadlineMs, isFollowed);
    } else if (until < this.#closeUntil) {
      this.#closeUntil = until;
      void pause(this.shared.clock, deadlineMs, this.#done.signal).then(() => endWaits(this.#done));
    }
    return this.#closing;
  }

  #drain(): void {
    if (this.state === 'open') this.shared.moveTo('draining');
    this.acceptors.end();
    this.#resolveDraining();
  }

  async #close(deadlineMs: number, isFollowed: boolean): Promise<ClosedCalls> {
    if (this.shared.isClosed) return noCalls;
    const told = this.registry.shutDown(this.shared.clock);
    if (told !== undefined) await told;
    if (this.shared.isClosed) return noCalls;
    this.#drain();
    this.#goaway.say();
    this.callee.drain();
    const before = this.#underWay();
    this.caller.refuse(isFollowed ? drained() : new SidecallError('ERR_SIDECALL_CLOSED'));
    const begun = this.#underWay();
    if (!this.#isDone()) await pause(this.shared.clock, deadlineMs, this.#done.signal);
    const reason = this.caller.pending > 0 ? cutOff(deadlineMs, isFollowed) : undefined;
    const isEnded = this.shared.isClosed; // by the peer, meanwhile
    const isOrderly = isEnded || this.#isDone();
    if (!isEnded) this.#settle(reason);
    const calls = closedCalls(before, begun, this.#forced, isOrderly);
    if (isEnded) return calls;
    const isCutOff = !(await closeTransport(this.shared, this.#closeUntil));
    this.#resolveClosed(reason ?? (isCutOff ? unsent(deadlineMs) : undefined));
    return isCutOff ? withoutLast(calls) : calls;
  }

  #onOther(
    headerBytes: Uint8Array,
    at: number,
    payload: Uint8Array,
    from: number,
    to: number,
    block: ArrivedBlock | undefined,
  ): void {
    const header = this.#header;
    readHeader(headerBytes, header, at);
    const { type } = header;
    checkPayload(type, to - from);
    this.#peerClock.checkOrder(type);
    const hasMessage = type === FrameType.open || type === FrameType.message;
    if (hasMessage) this.#onStreamFrame(header, payload, from, to, block);
    else if (block === undefined) this.#dispatch(header, payload, from, to);
    else throw protocol('block with a frame that has no message');
  }

  #dispatch(header: Header, payload: Uint8Array, from: number, to: number): void {
    switch (header.type) {
      case FrameType.method:
        return this.callee.learn(header, partOf(payload, from, to));
      case FrameType.credit:
        if (header.generation === 0) return this.#onCredit(header.slot, header.grantBytes);
        return this.#onStreamFrame(header, payload, from, to, undefined);
      case FrameType.goaway:
        return this.#onGoaway((header.flags & FrameFlag.end) !== 0);
      case FrameType.ping:
        this.#pingAllowance.take(this.shared.clock.nowMs());
        return this.pings.answer(this.#sendQueue, header.slot);
      case FrameType.clock:
        return this.#peerClock.onClock(header.sentAt);
      case FrameType.pong:
        if (this.pings.onPong(header.slot)) return;
        throw protocol('pong without a ping');
      default:
        return this.#onStreamFrame(header, payload, from, to, undefined);
    }
  }

  #onStreamFrame(
    header: Header,
    payload: Uint8Array,
    from: number,
    to: number,
    block: ArrivedBlock | undefined,
  ): void {
    const isTheirs = (header.flags & FrameFlag.fromOpener) !== 0;
    if (isTheirs) return this.callee.onFrame(header, payload, from, to, block);
    this.pings.taken += 1;
    this.caller.answers.onFrame(header, payload, from, to, block);
  }

  #onCredit(window: number, bytes: number): void {
    if (bytes === 0) return;
    this.pings.taken += 1;
    (this.shared.sendCredit[window] as SendCredit).grant(bytes);
    if (window === Window.answers) this.callee.resume();
    else if (window === Window.streams) this.shared.resumeBlocked();
    else this.caller.resume();
  }

  #onGoaway(isAnswer: boolean): void {
    this.#goaway.onFrame(isAnswer);
    if (isAnswer) return this.#checkDone();
    // The peer closes once no call is under way. If it does not, the idle time-out closes.
    new IdleTimeout(this.shared.clock, this, tuning.idleCloseMs);
    new GoawayTimeout(this.shared.clock, this, tuning.leavingMaxMs);
    this.#drain();
    this.callee.endWatches();
    this.caller.refuseUnsent(drained());
    this.#answerGoaway();
  }

  #answerGoaway(): void {
    if (this.#goaway.owesAnswer && !this.caller.isSending) this.#goaway.answer();
  }

  /** The session is idle in both directions, and the peer has said that it sends no more. */
  #isDone(): boolean {
    const isIdle = this.caller.pending === 0 && this.callee.pending === 0;
    return isIdle && this.#goaway.isAnswered && this.#sendQueue.isEmpty;
  }

  #checkDone(): void {
    if (this.#closing !== undefined && this.#isDone()) endWaits(this.#done);
  }

  /** Ends the session: nothing is delivered or sent, all calls reject, handlers are told. */
  #settle(error: SidecallError | undefined): void {
    this.shared.moveTo('closed');
    this.#forced = this.#underWay();
    const reason = error ?? new SidecallError('ERR_SIDECALL_CLOSED');
    this.#sendQueue.clear();
    this.pings.end(reason);
    this.shared.waits.end();
    this.caller.end(reason);
    // A close by the peer cancels its calls; our own close is told by the goaway before.
    const isTheirs = error === undefined && this.#closing === undefined;
    this.#resolveDraining();
    this.callee.end(isTheirs ? 'ERR_SIDECALL_CANCELLED' : reason.code, reason);
    this.acceptors.end();
    endWaits(this.#done);
    if (!isOwnEnd(reason)) this.shared.emitFailed(reason);
  }
}
