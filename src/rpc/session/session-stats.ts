// SPDX-License-Identifier: MIT
// Load of a session at one moment, for people and programs that watch it.
import type { Caller } from '../calling/caller.ts';
import { type ReceiveCredit, type SendCredit, Window } from '../sending/credit.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import type { Callee } from '../serving/callee.ts';
import type { WaitReason } from '../stalls.ts';

/** The result of `session.stats()`. */
export interface SessionStats {
  /** Our calls that were begun and have not ended, and those that wait to be begun. */
  readonly calls: { readonly open: number; readonly waiting: number };
  /** Handlers at work for the peer. */
  readonly handlers: { readonly running: number };
  /** Calls of ours that were begun, ever, and handlers that were started for the peer. */
  readonly totals: { readonly calls: number; readonly handlers: number };
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
   * Memory of the lane, in bytes, for what we send and for what the peer sends: the two outboxes of
   * a ring; the buffers of the socket as the kernel counts them, which on Linux is twice the bytes
   * that they hold. undefined: unknown (without the addon, and in tests).
   */
  readonly capacity: { readonly send: number; readonly receive: number } | undefined;
  /**
   * Doorbells of the ring lane, ever: bytes on the socket that wake a side which sleeps.
   * `suppressed`: publications that needed none. All 0 on other lanes, and once the session is
   * over.
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
   * The four windows of the session, in bytes. `left`: what we may still send, below 0 where the
   * last message was longer; `held`: messages of the peer that have arrived and were not given
   * back.
   */
  readonly windows: {
    readonly [Name in keyof typeof Window]: { readonly left: number; readonly held: number };
  };
}

const noDoorbells = Object.freeze({ sent: 0, received: 0, suppressed: 0 });

/** The load at this moment. */
export function statsOf(shared: SessionShared, caller: Caller, callee: Callee): SessionStats {
  const blocks = shared.transport.blockCounts?.();
  return {
    calls: { open: caller.pending - caller.waiting, waiting: caller.waiting },
    handlers: { running: callee.running },
    totals: { calls: caller.begun, handlers: callee.started },
    queuedBytes: shared.sendQueue.queuedBytes,
    blocks: { inUse: blocks?.inUse ?? 0, ordinary: shared.ordinaryBlocks },
    leases: { held: blocks?.held ?? 0 },
    capacity: shared.transport.capacity,
    doorbells: shared.transport.doorbellCounts?.() ?? noDoorbells,
    waits: shared.waits.counts(),
    windows: {
      requests: windowStats(shared, Window.requests),
      answers: windowStats(shared, Window.answers),
      streams: windowStats(shared, Window.streams),
      notifications: windowStats(shared, Window.notifications),
    },
  };
}

function windowStats(
  { sendCredit, receiveCredit }: SessionShared,
  window: number,
): { left: number; held: number } {
  const { left } = sendCredit[window] as SendCredit;
  return { left, held: (receiveCredit[window] as ReceiveCredit).held };
}
