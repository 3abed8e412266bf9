// SPDX-License-Identifier: MIT
// Load of a session at one moment, for people and programs that watch it.
import type { WaitReason } from '../../base/wait-reasons.ts';
import type { RingMemoryUse } from '../../wire/transport.ts';
import type { Caller } from '../calling/caller.ts';
import {
  MessageCounter,
  type MessageCounts,
  type MethodStats,
} from '../counting/method-counters.ts';
import type { CallEnd, ServedEnd, SessionCounters } from '../counting/session-counters.ts';
import { type ReceiveCredit, type SendCredit, Window } from '../sending/credit.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import type { Callee } from '../serving/callee.ts';
import { noWaits, noWaitTotals, type WaitTotals } from '../stalls.ts';

/** The result of `session.stats()`. */
export interface SessionStats {
  /** Our calls that were begun and have not ended, and those that wait to be begun. */
  readonly calls: { readonly open: number; readonly waiting: number };
  /** Handlers at work for the peer. */
  readonly handlers: { readonly running: number };
  /** Calls of ours that were begun, ever, and handlers that were started for the peer. */
  readonly totals: { readonly calls: number; readonly handlers: number };
  /** The methods that we call and those that the peer calls, each with its numbers. */
  readonly methods: {
    readonly called: readonly MethodStats[];
    readonly served: readonly MethodStats[];
  };
  /**
   * Ends of calls that did not end well, by the code or the status of their error; `by-caller`: the
   * caller has ended them by its `signal`, by `cancel()` or by an error in a function of its own.
   */
  readonly ends: {
    readonly called: { readonly [End in CallEnd]?: number };
    readonly served: { readonly [End in ServedEnd]?: number };
  };
  /** Frames that the lane took, and that arrived, ever. */
  readonly frames: { readonly sent: number; readonly received: number };
  /**
   * Whole messages, ever: those that the lane took, those that arrived, and of these the ones that
   * our application took. By kind of call: the sums of `methods`.
   */
  readonly messages: {
    readonly sent: MessageCounts;
    readonly received: MessageCounts;
    readonly consumed: MessageCounts;
  };
  /** Bytes of our messages that the lane has not taken yet, with 64 for each. */
  readonly queuedBytes: number;
  /** Bytes of the peer's messages that our application has not taken yet, with 64 for each. */
  readonly untakenBytes: number;
  /**
   * Blocks in shared memory that are being filled or that the peer holds; and blocks that were
   * given out, ever: in shared memory, and as ordinary memory, because there was none free or there
   * is no area.
   */
  readonly blocks: { readonly inUse: number; readonly inPlace: number; readonly ordinary: number };
  /**
   * Leases in place that were not released yet; and leases that were given out, ever: in place, and
   * as copies.
   */
  readonly leases: { readonly held: number; readonly inPlace: number; readonly copied: number };
  /**
   * Memory of the lane, in bytes, for what we send and for what the peer sends: the two outboxes of
   * a ring; the buffers of the socket as the kernel counts them, which on Linux is twice the bytes
   * that they hold. undefined: unknown (without the addon, and in tests).
   */
  readonly capacity: { readonly send: number; readonly receive: number } | undefined;
  /**
   * Bytes of that memory that hold what was not read; `receiveMax`: the most that was ever found of
   * what the peer sent. undefined: the lane has no memory of its own.
   */
  readonly memoryUse: RingMemoryUse | undefined;
  /**
   * Doorbells of the ring lane, ever: bytes on the socket that wake a side which sleeps.
   * `suppressed`: publications that needed none. All 0 on other lanes. A session that is over keeps
   * its last numbers.
   */
  readonly doorbells: {
    readonly sent: number;
    readonly received: number;
    readonly suppressed: number;
  };
  /**
   * Everything that waits at this moment, by its reason: calls, messages, answers, requests of the
   * peer, frames.
   */
  readonly waits: { readonly [Reason in WaitReason]: number };
  /**
   * The times that something began to wait at a place where nothing waited, by its first reason,
   * and the milliseconds in which something waited there, of all places together.
   */
  readonly waited: { readonly [Reason in WaitReason]: WaitTotals };
  /**
   * The four windows of the session, in bytes. `left`: what we may still send, below 0 where the
   * last message was longer; `held`: messages of the peer that have arrived and were not given
   * back.
   */
  readonly windows: {
    readonly [Name in keyof typeof Window]: { readonly left: number; readonly held: number };
  };
}

const noDoorbells = Object.freeze({ sent: 0, received: 0, suppressed: 0 });
const noMessages = Object.freeze({ messages: 0, bytes: 0 });

/** The numbers of no session at all. */
export function emptyStats(): SessionStats {
  const none = { left: 0, held: 0 };
  return {
    calls: { open: 0, waiting: 0 },
    handlers: { running: 0 },
    totals: { calls: 0, handlers: 0 },
    methods: { called: [], served: [] },
    ends: { called: {}, served: {} },
    frames: { sent: 0, received: 0 },
    messages: { sent: noMessages, received: noMessages, consumed: noMessages },
    queuedBytes: 0,
    untakenBytes: 0,
    blocks: { inUse: 0, inPlace: 0, ordinary: 0 },
    leases: { held: 0, inPlace: 0, copied: 0 },
    capacity: undefined,
    memoryUse: undefined,
    doorbells: noDoorbells,
    waits: noWaits(),
    waited: noWaitTotals(),
    windows: { requests: none, answers: none, streams: none, notifications: none },
  };
}

/** The numbers of each method. */
export function methodStats({ called, served }: SessionCounters): SessionStats['methods'] {
  return { called: called.all.map(({ now }) => now), served: served.all.map(({ now }) => now) };
}

/** The load at this moment. */
export function statsOf(shared: SessionShared, caller: Caller, callee: Callee): SessionStats {
  const { transport, counters, sendQueue, moments } = shared;
  moments.settle();
  const ring = transport.ringCounts?.();
  const { called, served, calledEnds, servedEnds } = counters;
  const all = [...called.all, ...served.all];
  return {
    calls: { open: caller.pending - caller.waiting, waiting: caller.waiting },
    handlers: { running: callee.running },
    totals: { calls: caller.begun, handlers: callee.started },
    methods: methodStats(counters),
    ends: { called: calledEnds.now, served: servedEnds.now },
    frames: { sent: sendQueue.framesSent, received: counters.framesReceived },
    messages: {
      sent: sumOf(all.map(({ sent }) => sent)),
      received: sumOf(all.map(({ received }) => received)),
      consumed: counters.consumed,
    },
    queuedBytes: sendQueue.queuedBytes,
    untakenBytes: shared.receiveCredit.reduce((sum, { held }) => sum + held, 0),
    blocks: {
      inUse: ring?.blocks.inUse ?? 0,
      inPlace: counters.blocksInPlace,
      ordinary: counters.blocksOrdinary,
    },
    leases: {
      held: ring?.blocks.held ?? 0,
      inPlace: counters.leasesInPlace,
      copied: counters.leasesCopied,
    },
    capacity: transport.capacity,
    memoryUse: ring?.memory,
    doorbells: ring?.doorbells ?? noDoorbells,
    waits: shared.waits.counts(),
    waited: shared.waits.totals(),
    windows: {
      requests: windowStats(shared, Window.requests),
      answers: windowStats(shared, Window.answers),
      streams: windowStats(shared, Window.streams),
      notifications: windowStats(shared, Window.notifications),
    },
  };
}

function sumOf(counts: readonly MessageCounts[]): MessageCounts {
  const sum = new MessageCounter();
  for (const each of counts) sum.add(each);
  return sum.now;
}

function windowStats(
  { sendCredit, receiveCredit }: SessionShared,
  window: number,
): { left: number; held: number } {
  const { left } = sendCredit[window] as SendCredit;
  return { left, held: (receiveCredit[window] as ReceiveCredit).held };
}
