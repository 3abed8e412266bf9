// SPDX-License-Identifier: MIT
// The part of a call of ours that goes into the numbers of its session.
import { SidecallError } from '../../base/errors.ts';
import { CallKind } from '../../wire/frame-header.ts';
import type { CallTrace } from '../counting/call-trace.ts';
import type { MethodCounters } from '../counting/method-counters.ts';
import { neverBegun } from '../counting/moments.ts';
import { endOfError } from '../counting/session-counters.ts';
import type { SessionShared } from '../sending/session-shared.ts';

/** The part of a call that is counted. */
interface CountedCall {
  readonly counters: MethodCounters;
  /** The instant at which it was sent, or began to wait. */
  readonly begun: number;
  readonly trace: CallTrace | undefined;
  readonly isWritten: boolean;
  readonly kind: number;
}

/** The call has ended well. */
export function countSuccess(shared: SessionShared, call: CountedCall): void {
  const { counters, begun, trace, kind } = call;
  if (begun !== neverBegun) shared.moments.end(counters, begun);
  else counters.latency.record(0); // a notification that did not wait
  if (trace === undefined) return;
  trace.succeed(kind === CallKind.notification ? 'unknown' : 'yes');
}

/** The call has failed. */
export function countFailure(shared: SessionShared, call: CountedCall, reason: unknown): void {
  const { counters, begun, trace, isWritten } = call;
  const isTimed = begun !== neverBegun;
  if (isTimed) shared.moments.end(counters, begun);
  counters.countFailure(isTimed);
  shared.counters.calledEnds.count(endOfError(reason));
  if (trace === undefined) return;
  const own = isWritten ? 'unknown' : 'no';
  trace.fail(reason, SidecallError.is(reason) ? reason.delivered : own);
}
