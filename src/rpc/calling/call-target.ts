// SPDX-License-Identifier: MIT
// The target of calls (a session, or a helper that outlives its sessions) and the method that is
// called.
import type { Clock } from '../../base/clock.ts';
import type { Random } from '../../base/random.ts';
import type { CallOptions } from '../contract/call-options.ts';
import type { Codec } from '../contract/codec.ts';

/** A method with its codecs, as it is called. */
export interface MethodCall {
  readonly name: string;
  /** The kind, a value of `CallKind`. */
  readonly kind: number;
  readonly request: Codec<unknown>;
  /** undefined: there is no answer. */
  readonly response: Codec<unknown> | undefined;
  /** Its messages go behind those of others. */
  readonly isBulk: boolean;
  /** A method of the package's own services. Left out: no. */
  readonly isBuiltIn?: boolean | undefined;
  /** It may be run twice. */
  readonly isIdempotent: boolean;
  /** Where no handler has seen the call, its target makes it again on another session. */
  readonly isMovable?: boolean | undefined;
}

/** The target of calls: a session, or a helper that outlives its sessions. */
export interface CallTarget {
  readonly clock: Clock;
  readonly random: Random;
  /** A call that was lost with its session can be made again on the next one. */
  readonly outlivesSessions: boolean;
  call(callable: MethodCall, value: unknown, options: CallOptions | undefined): Promise<unknown>;
  /** Never throws. */
  openStream(callable: MethodCall, value: unknown, options: CallOptions | undefined): StreamCall;
}

/** A session as the target of calls. */
export interface SessionTarget extends CallTarget {
  /**
   * Calls, streams and notifications that the peer has not ended, those that wait or were given up
   * included.
   */
  readonly work: number;
  /** Told whenever the peer has ended one, in the middle of it. For one owner. */
  onFreed: (() => void) | undefined;
}

export type Step = IteratorResult<unknown, undefined>;

/** No message follows. */
export const done: IteratorReturnResult<undefined> = Object.freeze({
  done: true,
  value: undefined,
});

/** A call whose requests or responses are streams, as its public face drives it. */
export interface StreamCall {
  /**
   * Settles when the call is over: with the answer, where there is one. A rejection is never
   * unhandled.
   */
  readonly promise: Promise<unknown>;
  /** Bytes that wait here: those to be admitted, and those to be taken. */
  readonly queuedBytes: number;
  next(): Promise<Step>;
  /** Reads no more, which ends the call quietly. */
  cancelReading(): void;
  send(value: unknown): Promise<void>;
  /** Ends the requests. Resolves when the peer has all of them. */
  end(): Promise<void>;
  cancel(reason: unknown): void;
}
