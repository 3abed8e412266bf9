// SPDX-License-Identifier: MIT
// Calls on diagnostics channels, for tracers and for programs that watch themselves. A call is
// described only where its channel has a subscriber.
import { type TracingChannel, tracingChannel } from 'node:diagnostics_channel';
import type { Clock } from '../../base/clock.ts';
import type { Delivered } from '../../base/error-codes.ts';
import type { Peer } from '../../base/peer.ts';
import type { CallKindName } from '../../wire/frame-header.ts';
import { callKindNames } from '../../wire/number-names.ts';
import type { Lane } from '../../wire/transport.ts';
import { callSampler, type OpenSample } from './call-sampler.ts';

/**
 * A call or stream, as subscribers of `tracing:sidecall:call:*` (calls that we make) and
 * `tracing:sidecall:handler:*` (calls of the peer that a handler of ours answers, and channels that
 * we accept) get it. It is one object from `start` to `asyncEnd`, and has no payload.
 * `diagnostics_channel` of Node describes the events: `start` and `end` around the synchronous
 * part, `error` where the call fails, `asyncStart` and `asyncEnd` when it has ended.
 */
export interface TracedCall {
  /** Wire name of the method, `Index.add`, or the name of the channel. */
  readonly method: string;
  readonly kind: CallKindName;
  readonly lane: Lane;
  readonly peer: Peer;
  /** Bytes of our messages of this call so far, those that wait to leave included. */
  readonly sentBytes: number;
  /** Bytes of the peer's messages of this call that have arrived whole so far. */
  readonly receivedBytes: number;
  /**
   * Of a call of ours that has ended: whether the peer's handler was reached, as
   * `SidecallError.delivered` says. undefined: it goes on, or is a call of the peer's.
   */
  readonly delivered: Delivered | undefined;
  /** The reason of its failure; undefined: it has ended well, or goes on. */
  readonly error: unknown;
}

/** The session of a call. */
interface TracedLink {
  readonly id: number;
  readonly transport: { readonly lane: Lane };
  readonly peer: Peer;
  readonly clock: Clock;
  /** False: it belongs to a process that looks into this one, and is not shown to it. */
  readonly isSampled: boolean;
}

const calls = tracingChannel<unknown, TracedCall>('sidecall:call');
const handlers = tracingChannel<unknown, TracedCall>('sidecall:handler');
type Calls = TracingChannel<unknown, TracedCall>;

/**
 * The trace of a call that we are about to make; undefined: its channel has no subscriber, and no
 * process samples calls.
 */
export function traceCall(link: TracedLink, method: string, kind: number): CallTrace | undefined {
  if (!calls.hasSubscribers && callSampler.room === 0) return undefined;
  return new CallTrace(calls, link, method, kind);
}

/** The trace of a call of the peer's whose handler is about to be called. */
export function traceHandler(
  link: TracedLink,
  method: string,
  kind: number,
): CallTrace | undefined {
  if (!handlers.hasSubscribers && callSampler.room === 0) return undefined;
  return new CallTrace(handlers, link, method, kind);
}

/** The messages of a call on its diagnostics channel. */
export class CallTrace implements TracedCall {
  readonly method: string;
  readonly kind: CallKindName;
  readonly lane: Lane;
  readonly peer: Peer;
  sentBytes = 0;
  receivedBytes = 0;
  delivered: Delivered | undefined;
  error: unknown;
  readonly #channel: Calls;
  readonly #clock: Clock;
  /** undefined: the call is in no sample. */
  readonly #sample: OpenSample | undefined;
  #isRunning = false;
  #isOver = false;

  constructor(channel: Calls, link: TracedLink, method: string, kind: number) {
    const { id, transport, peer, clock, isSampled } = link;
    this.#channel = channel;
    this.method = method;
    this.kind = callKindNames.get(kind) as CallKindName;
    this.lane = transport.lane;
    this.peer = peer;
    this.#clock = clock;
    if (!isSampled || callSampler.room === 0) return;
    const openedBy = channel === calls ? 'us' : 'peer';
    this.#sample = callSampler.begin(id, openedBy, this, clock.nowMs());
  }

  /** Runs the synchronous part of the call, in the stores that are bound to `start`. */
  run<T>(body: () => T): T {
    const { start, end } = this.#channel;
    this.#isRunning = true;
    return start.runStores(this, () => {
      try {
        return body();
      } finally {
        this.#isRunning = false;
        end.publish(this);
        if (this.#isOver) this.#publishEnd();
      }
    });
  }

  countSent(bytes: number): void {
    this.sentBytes += bytes;
  }

  countReceived(bytes: number): void {
    this.receivedBytes += bytes;
  }

  /** The call has ended well. */
  succeed(delivered: Delivered | undefined): void {
    this.delivered = delivered;
    this.#finish();
  }

  /** The handler has thrown this: the call fails with it. */
  note(error: unknown): void {
    this.error = error;
  }

  /** The call has failed. */
  fail(error: unknown, delivered: Delivered | undefined): void {
    this.error = error;
    this.delivered = delivered;
    this.#channel.error.publish(this);
    this.#finish();
  }

  #finish(): void {
    this.#isOver = true;
    if (this.#sample !== undefined) callSampler.end(this.#sample, this, this.#clock.nowMs());
    if (!this.#isRunning) this.#publishEnd();
  }

  #publishEnd(): void {
    this.#channel.asyncStart.publish(this);
    this.#channel.asyncEnd.publish(this);
  }
}
