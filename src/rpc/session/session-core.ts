// SPDX-License-Identifier: MIT
// Joins the two halves over one transport: dispatch of frames, windows, GOAWAY, the end.

import { nowMs, setImmediate } from '../../base/clock.ts';
import { SidecallError } from '../../base/errors.ts';
import { emitEvent, type OnEvent } from '../../base/events.ts';
import { ranges, type SessionLimits } from '../../base/limits.ts';
import { checkInteger } from '../../base/misuse.ts';
import { pause } from '../../base/pause.ts';
import type { Peer } from '../../base/peer.ts';
import { tuning } from '../../base/tuning.ts';
import {
  checkPayload,
  emptyHeader,
  FrameFlag,
  FrameType,
  type Header,
  protocol,
  readHeader,
} from '../../wire/frame-header.ts';
import type { ArrivedBlock, FrameReceiver, Transport } from '../../wire/transport.ts';
import { Caller } from '../calling/caller.ts';
import { Block } from '../contract/leases.ts';
import { armDeadline, cancelDeadline, deadlineAfter, type Timed } from '../deadline.ts';
import { IdleTimeout, type Watched } from '../idle-timeout.ts';
import { PeerClock, sentNow } from '../peer-clock.ts';
import {
  type ReceiveCredit,
  receiveCredits,
  type SendCredit,
  sendCredits,
  Window,
} from '../sending/credit.ts';
import { type SendingStream, SendQueue } from '../sending/send-queue.ts';
import type { RemoteLimits, SessionShared } from '../sending/session-shared.ts';
import { WaitingWriters } from '../sending/waiting-writers.ts';
import { ChannelAcceptors } from '../serving/accept-channels.ts';
import { Callee } from '../serving/callee.ts';
import { PingAllowance } from '../serving/cancel-limit.ts';
import { type Implementation, Registry } from '../serving/registry.ts';
import { type Stall, Stalls, type WaitReason } from '../stalls.ts';
import { Pings } from './pings.ts';

/** The parts of a session. */
export interface SessionParts {
  readonly transport: Transport;
  readonly peer: Peer;
  readonly own: SessionLimits;
  readonly remote: RemoteLimits;
  /** Why the session got its lane, for people. */
  readonly laneReason: string;
  /** Methods that a listener or helper serves for all of its sessions. */
  readonly registry?: Registry | undefined;
  /** The services from the start. undefined: they follow, and calls wait for them. */
  readonly services?: readonly Implementation[] | undefined;
  /** May the peer list what is served? undefined: if it runs under our own uid. */
  readonly introspection?: boolean | undefined;
  /** Without a call for so long it is closed. */
  readonly idleTimeoutMs?: number | undefined;
  /** Time without progress after which a wait is told to `onEvent`. Default: 10,000. */
  readonly stalledAfterMs?: number | undefined;
  /** It waits to be taken from its listener. */
  readonly isUntaken?: boolean | undefined;
  readonly onEvent?: OnEvent | undefined;
}

/**
 * `open`; `draining`: one of the two sides is closing, calls in flight go on, new ones are refused;
 * `closed`.
 */
export type SessionState = 'open' | 'draining' | 'closed';

/** The result of `session.stats()`. */
export interface SessionStats {
  /** Our calls that were begun and have not ended, and those that wait to be begun. */
  readonly calls: { readonly open: number; readonly waiting: number };
  /** Handlers at work for the peer. */
  readonly handlers: { readonly running: number };
  /** Bytes of our messages that the lane has not taken yet. */
  readonly queuedBytes: number;
  /**
   * Blocks in shared memory that are being filled or that the peer holds; and blocks, ever, that
   * were ordinary memory, because there was none free or there is no area.
   */
  readonly blocks: { readonly inUse: number; readonly ordinary: number };
  /** Leases in place that were not released yet. */
  readonly leases: { readonly held: number };
  /**
   * Everything that waits at this moment, by its reason: calls, messages, answers, requests of the
   * peer, frames.
   */
  readonly waits: { readonly [Reason in WaitReason]: number };
  /**
   * The four windows of the session, in bytes. `left`: what we may still send, below 0 where the
   * last message was longer; `held`: messages of the peer that have arrived and were not given
   * back.
   */
  readonly windows: {
    readonly [Name in keyof typeof Window]: { readonly left: number; readonly held: number };
  };
}

const drained = new SidecallError('ERR_SIDECALL_GOING_AWAY');

/** The inside of a session: what its two halves share, and what a transport reports to. */
export class SessionCore implements SessionShared, FrameReceiver, Watched {
  readonly transport: Transport;
  readonly sendQueue: SendQueue;
  readonly own: SessionLimits;
  readonly remote: RemoteLimits;
  readonly sendCredit: readonly SendCredit[];
  readonly receiveCredit: readonly ReceiveCredit[];
  readonly blocked = new WaitingWriters();
  readonly acceptors = new ChannelAcceptors();
  readonly metadataMaxBytes: number;
  readonly peer: Peer;
  readonly onEvent: OnEvent | undefined;
  readonly caller: Caller;
  readonly callee: Callee;
  readonly registry: Registry;
  readonly closed: Promise<SidecallError | undefined>;
  readonly draining: Promise<void>;
  state: SessionState = 'open';
  readonly pings: Pings;
  readonly waits: Stalls;
  readonly #clock = new PeerClock();
  #hasClock = false;
  readonly #pingAllowance = new PingAllowance();
  readonly #header = emptyHeader();
  // A handler may look ahead while the frame that started it is being looked at.
  readonly #aheadHeader = emptyHeader();
  // Aborted when there is nothing left to wait for in close().
  readonly #done = new AbortController();
  #resolveClosed!: (error: SidecallError | undefined) => void;
  #isPeerLeaving = false;
  #isGoawayAnswered = false;
  #owesGoaway = false;
  #closing: Promise<void> | undefined;
  #closeUntil = 0;
  #ordinaryBlocks = 0;
  #resolveDraining!: () => void;

  constructor(parts: SessionParts) {
    this.transport = parts.transport;
    this.own = parts.own;
    this.remote = parts.remote;
    this.peer = parts.peer;
    this.onEvent = parts.onEvent;
    this.pings = new Pings(parts.peer, (token) =>
      this.sendQueue.sendControl(this.sendQueue.header.ping(token)),
    );
    this.waits = new Stalls(parts.stalledAfterMs ?? ranges.stalledAfterMs.standard, (stall) =>
      this.#onStalled(stall),
    );
    this.sendQueue = new SendQueue(
      parts.transport,
      () => this.#onDrained(),
      (error) => setImmediate(() => this.fail(error)), // in the middle of whatever sends
      () => this.waits.add(this.sendQueue),
    );
    this.metadataMaxBytes = Math.min(parts.remote.metadataMaxBytes, this.sendQueue.fragmentBytes);
    this.sendCredit = sendCredits(parts.remote);
    this.receiveCredit = receiveCredits(parts.own);
    this.caller = new Caller(this);
    this.registry = new Registry(parts.registry);
    const isOurs = parts.peer.uid !== undefined && parts.peer.uid === process.geteuid?.();
    this.registry.isIntrospective = parts.introspection ?? isOurs;
    this.registry.addAll(parts.services);
    this.callee = new Callee(this, {
      registry: this.registry,
      acceptors: this.acceptors,
      clock: this.#clock,
      isUntaken: parts.isUntaken ?? false,
    });
    this.draining = new Promise((resolve) => {
      this.#resolveDraining = resolve;
    });
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    this.transport.start(this);
    this.sendQueue.sendControl(this.sendQueue.header.clock(sentNow()));
    this.#grantWhatTheHelloCouldNot();
    if (parts.idleTimeoutMs !== undefined) new IdleTimeout(this, parts.idleTimeoutMs);
  }

  /** Grows whenever a call is begun, or a request of the peer's goes on arriving. */
  get moved(): number {
    return this.caller.begun + this.callee.moved;
  }

  get isBusy(): boolean {
    return this.caller.pending > 0 || this.callee.working > 0;
  }

  onIdle(): void {
    void this.close(tuning.idleCloseMs);
  }

  stats(): SessionStats {
    const blocks = this.transport.blockCounts?.();
    return {
      calls: { open: this.caller.pending - this.caller.waiting, waiting: this.caller.waiting },
      handlers: { running: this.callee.running },
      queuedBytes: this.sendQueue.queuedBytes,
      blocks: { inUse: blocks?.inUse ?? 0, ordinary: this.#ordinaryBlocks },
      leases: { held: blocks?.held ?? 0 },
      waits: this.waits.counts(),
      windows: {
        requests: this.#windowStats(Window.requests),
        answers: this.#windowStats(Window.answers),
        streams: this.#windowStats(Window.streams),
        notifications: this.#windowStats(Window.notifications),
      },
    };
  }

  #windowStats(window: number): { left: number; held: number } {
    const { left } = this.sendCredit[window] as SendCredit;
    return { left, held: (this.receiveCredit[window] as ReceiveCredit).held };
  }

  onFrame(headerBytes: Uint8Array, payload: Uint8Array, block?: ArrivedBlock): void {
    if (this.state === 'closed') return;
    try {
      const header = this.#header;
      readHeader(headerBytes, header);
      checkPayload(header.type, payload.byteLength);
      if (block === undefined) this.#dispatch(header, payload);
      else this.#dispatchBlock(header, payload, block);
    } catch (error) {
      this.fail(SidecallError.from(error));
    }
    if (this.sendQueue.queuedCount > this.#queueMax) this.fail(unread());
  }

  placeFor(headerBytes: Uint8Array, bytes: number): Uint8Array | undefined {
    const type = headerBytes[0] as number;
    // Pieces of messages; first pieces only where another copy would cost more than finding out.
    const isPiece = type === FrameType.fragment;
    const isFirst =
      bytes >= tuning.placedMinBytes && (type === FrameType.open || type === FrameType.message);
    if (this.state === 'closed' || !(isPiece || isFirst)) return undefined;
    const header = this.#header;
    readHeader(headerBytes, header);
    const isTheirs = (header.flags & FrameFlag.fromOpener) !== 0;
    return (isTheirs ? this.callee : this.caller).placeFor(header, bytes);
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
    if (this.state !== 'closed') this.sendQueue.onRoom();
  }

  onEnd(error: SidecallError | undefined): void {
    if (this.state === 'closed') return;
    const isOrderly = this.#isPeerLeaving || this.#closing !== undefined;
    const isClean = error === undefined && isOrderly && this.caller.pending === 0;
    const reason = isClean ? undefined : (error ?? new SidecallError('ERR_SIDECALL_PEER_GONE'));
    this.#settle(reason);
    this.#resolveClosed(reason);
  }

  allocate(bytes: number): Block {
    checkInteger('bytes', bytes ?? Number.NaN, ranges.blockBytes);
    const { receiveMaxBytes } = this.remote;
    if (bytes > receiveMaxBytes) {
      const text = `a block of ${bytes} bytes could not be sent: the peer's receiveMaxBytes is ${receiveMaxBytes}`;
      throw new SidecallError('ERR_SIDECALL_MESSAGE_TOO_LARGE', text);
    }
    const own = this.transport.allocate?.(bytes);
    if (own === undefined) this.#ordinaryBlocks += 1;
    return new Block(this, own?.bytes ?? Buffer.alloc(bytes), own);
  }

  #onStalled({ reason, waiting, waitedMs }: Stall): void {
    const text = `${waiting} wait for ${waitedMs} ms without any progress: ${reason}`;
    const error = new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text);
    const { peer } = this;
    emitEvent(this.onEvent, { type: 'stalled', error, peer, reason, waiting, waitedMs });
  }

  giveBack(window: number, charge: number): void {
    const batch = (this.receiveCredit[window] as ReceiveCredit).giveBack(charge);
    if (batch > 0 && this.state !== 'closed') {
      this.sendQueue.sendControl(this.sendQueue.header.credit(0, window, 0, batch));
    }
  }

  dropQueued(stream: SendingStream): void {
    const unseen = this.sendQueue.drop(stream);
    if (unseen === 0) return;
    (this.sendCredit[Window.streams] as SendCredit).spend(-unseen);
    this.resumeBlocked();
  }

  /** As {@link SessionShared.resumeBlocked}. */
  resumeBlocked(): void {
    const credit = this.sendCredit[Window.streams] as SendCredit;
    this.blocked.resume(() => credit.hasCredit && this.#hasQueueRoom);
  }

  get #hasQueueRoom(): boolean {
    const { sendQueue, own } = this;
    const max = own.sendQueueMaxBytes;
    return sendQueue.hasRoom(false, max) || sendQueue.hasRoom(true, max);
  }

  fail(error: SidecallError): void {
    if (this.state === 'closed') return;
    this.#settle(error); // first: destroying ends the transport, and that is no news any more
    this.transport.destroy();
    this.#resolveClosed(error);
  }

  onCallEnded(): void {
    if (this.state === 'closed') return;
    this.caller.startWaiting();
    this.#answerGoaway();
    this.#checkDone();
  }

  close(deadlineMs: number): Promise<void> {
    const until = nowMs() + deadlineMs;
    if (this.#closing === undefined) {
      this.#closeUntil = until;
      this.#closing = this.#close(deadlineMs);
    } else if (until < this.#closeUntil) {
      this.#closeUntil = until;
      void pause(deadlineMs, this.#done.signal).then(() => this.#done.abort());
    }
    return this.#closing;
  }

  #drain(): void {
    if (this.state === 'open') this.state = 'draining';
    this.acceptors.end();
    this.#resolveDraining();
  }

  async #close(deadlineMs: number): Promise<void> {
    if (this.state === 'closed') return;
    const told = this.registry.shutDown();
    if (told !== undefined) await told;
    if (this.#isOver) return;
    this.#drain();
    this.sendQueue.sendControl(this.sendQueue.header.goaway(0));
    this.callee.drain();
    this.caller.refuse(new SidecallError('ERR_SIDECALL_CLOSED'));
    if (!this.#isDone) await pause(deadlineMs, this.#done.signal);
    if (this.#isOver) return; // the peer ended the session meanwhile
    const isCut = this.caller.pending > 0;
    const reason = isCut
      ? new SidecallError('ERR_SIDECALL_CLOSED', closedText(deadlineMs), { delivered: 'unknown' })
      : undefined;
    this.#settle(reason);
    const closed = new AbortController();
    const handedOver = this.transport.close().finally(() => closed.abort());
    await pause(Math.max(0, this.#closeUntil - nowMs()), closed.signal);
    if (!closed.signal.aborted) this.transport.destroy();
    await handedOver;
    this.#resolveClosed(reason);
  }

  /**
   * The most that a correct peer can make us queue: by our own limits and our own calls, not by
   * what it announced.
   */
  get #queueMax(): number {
    return 2 * this.own.streamsMax + (this.caller.pending - this.caller.waiting) + 4096;
  }

  #dispatch(header: Header, payload: Uint8Array): void {
    switch (header.type) {
      case FrameType.method:
        return this.callee.learn(header, payload);
      case FrameType.credit:
        if (header.generation === 0) return this.#onCredit(header.slot, header.grantBytes);
        return this.#onStreamFrame(header, payload);
      case FrameType.goaway:
        return this.#onGoaway((header.flags & FrameFlag.end) !== 0);
      case FrameType.ping:
        this.#pingAllowance.take();
        return this.sendQueue.sendControl(this.sendQueue.header.pong(header.slot));
      case FrameType.clock:
        if (this.#hasClock) throw protocol('second clock');
        this.#hasClock = true;
        return this.#clock.onClock(header.sentAt);
      case FrameType.pong:
        if (this.pings.onPong(header.slot)) return;
        throw protocol('pong without a ping');
      default:
        return this.#onStreamFrame(header, payload);
    }
  }

  #dispatchBlock(header: Header, payload: Uint8Array, block: ArrivedBlock): void {
    const hasMessage = header.type === FrameType.open || header.type === FrameType.message;
    if (!hasMessage) throw protocol('block with a frame that has no message');
    this.#onStreamFrame(header, payload, block);
  }

  #onStreamFrame(header: Header, payload: Uint8Array, block?: ArrivedBlock): void {
    const isTheirs = (header.flags & FrameFlag.fromOpener) !== 0;
    if (isTheirs) this.callee.onFrame(header, payload, block);
    else this.caller.onFrame(header, payload, block);
  }

  #onCredit(window: number, bytes: number): void {
    if (bytes === 0) return;
    (this.sendCredit[window] as SendCredit).grant(bytes);
    if (window === Window.answers) this.callee.onProgress();
    else if (window === Window.streams) this.resumeBlocked();
    else this.caller.startWaiting();
  }

  #onGoaway(isAnswer: boolean): void {
    if (isAnswer) {
      if (this.#closing === undefined || this.#isGoawayAnswered)
        throw protocol('answer to a goaway that was not sent');
      this.#isGoawayAnswered = true;
      return this.#checkDone();
    }
    if (this.#isPeerLeaving) throw protocol('second goaway');
    this.#isPeerLeaving = true;
    // It closes once nothing is under way. If it does not, we do.
    new IdleTimeout(this, tuning.idleCloseMs);
    new LatestEnd(this, tuning.leavingMaxMs);
    this.#owesGoaway = true;
    this.#drain();
    this.callee.endWatches();
    this.caller.refuseUnsent(drained);
    this.#answerGoaway();
  }

  /**
   * Answers a goaway behind the last frame of our last call, so the peer knows that no other
   * follows.
   */
  #answerGoaway(): void {
    if (!this.#owesGoaway || this.caller.isSending) return;
    this.#owesGoaway = false;
    this.sendQueue.sendControl(this.sendQueue.header.goaway(FrameFlag.end));
  }

  #onDrained(): void {
    this.callee.onProgress();
    this.caller.startWaiting();
    // Without credit, too: a stream may have one short message beyond the window.
    this.blocked.resume(() => this.#hasQueueRoom);
    this.#answerGoaway();
    this.#checkDone();
  }

  /**
   * The session is idle in both directions, and the peer has said that it sends no more.
   */
  get #isDone(): boolean {
    const isIdle = this.caller.pending === 0 && this.callee.pending === 0;
    return isIdle && this.#isGoawayAnswered && this.sendQueue.isEmpty;
  }

  get #isOver(): boolean {
    return this.state === 'closed';
  }

  #checkDone(): void {
    if (this.#closing !== undefined && this.#isDone) this.#done.abort();
  }

  #grantWhatTheHelloCouldNot(): void {
    for (const [window, credit] of this.receiveCredit.entries()) {
      const { initialGrant } = credit;
      if (initialGrant <= 0) continue;
      credit.noteInitialGrant();
      this.sendQueue.sendControl(this.sendQueue.header.credit(0, window, 0, initialGrant));
    }
  }

  /**
   * Ends the session: nothing is delivered or sent any more, all calls reject, handlers are told.
   */
  #settle(error: SidecallError | undefined): void {
    this.state = 'closed';
    const reason = error ?? new SidecallError('ERR_SIDECALL_CLOSED');
    this.sendQueue.clear();
    this.pings.end(reason);
    this.waits.end();
    this.caller.end(reason);
    // A close by the peer cancels its calls; our own close is told by the goaway before.
    const isTheirs = error === undefined && this.#closing === undefined;
    this.#resolveDraining();
    this.callee.end(isTheirs ? 'ERR_SIDECALL_CANCELLED' : reason.code, reason);
    this.acceptors.end();
    this.#done.abort();
    if (reason.code === 'ERR_SIDECALL_CLOSED') return;
    emitEvent(this.onEvent, { type: 'session-failed', error: reason, peer: this.peer });
  }
}

/** Ends a session whose peer has said goaway, whatever is under way. */
class LatestEnd implements Timed {
  timer: NodeJS.Timeout | undefined;
  readonly #core: SessionCore;
  readonly #timeoutMs: number;

  constructor(core: SessionCore, timeoutMs: number) {
    this.#core = core;
    this.#timeoutMs = timeoutMs;
    armDeadline(this, deadlineAfter(timeoutMs));
    (this.timer as NodeJS.Timeout | undefined)?.unref();
    void core.closed.then(() => cancelDeadline(this));
  }

  onDeadline(): void {
    const text = `the peer said goaway and did not close within ${this.#timeoutMs} ms`;
    this.#core.fail(new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text));
  }
}

function unread(): SidecallError {
  const text = 'the peer makes us answer and does not read the answers';
  return new SidecallError('ERR_SIDECALL_LIMIT_BYTES', text, { delivered: 'unknown' });
}

function closedText(deadlineMs: number): string {
  return `the session was closed; this call did not settle within its deadline of ${deadlineMs} ms`;
}
