// SPDX-License-Identifier: MIT
// The part of a call of the peer's that goes into the numbers of its session.
import {
  errorTable,
  type FailureStatus,
  type SidecallErrorCode,
  statuses,
} from '../../base/error-codes.ts';
import { RpcError, SidecallError } from '../../base/errors.ts';
import type { CallTrace } from '../counting/call-trace.ts';
import { MethodCounters, notServed } from '../counting/method-counters.ts';
import type { ServedEnd } from '../counting/session-counters.ts';
import type { SessionShared } from '../sending/session-shared.ts';
import type { CallOpening } from './call-opening.ts';

/** The part of a call that is counted. */
export interface CountedCall {
  readonly opening: CallOpening;
  readonly calls: { readonly shared: SessionShared };
  /** The numbers of its method; its own until the method is found to be served. */
  counters: MethodCounters;
  /** The instant of the last look before its first frame had arrived. */
  readonly begun: number;
  readonly trace: CallTrace | undefined;
}

/** A call begins. The name of a method that is not served is the peer's, and is not kept. */
export function countersOf(shared: SessionShared, opening: CallOpening): MethodCounters {
  const { method, kind } = opening;
  const counters =
    shared.counters.served.known(method, kind) ?? new MethodCounters(notServed, kind, false);
  counters.started += 1;
  if (counters.isKept) shared.frameRecorder?.nameLast(opening, counters);
  return counters;
}

/** The method of the call is served: its name is ours. */
export function countServed(call: CountedCall): void {
  if (call.counters.isKept) return;
  const { method, kind } = call.opening;
  const counters = call.calls.shared.counters.served.of(method, kind);
  counters.add(call.counters);
  call.counters = counters;
  call.calls.shared.frameRecorder?.nameLast(call.opening, counters);
}

/** The call has ended. */
export function countEnd(call: CountedCall, end: 'ok' | ServedEnd): void {
  const { opening, counters: own } = call;
  const { moments, counters: all } = call.calls.shared;
  const counters = own.isKept ? own : all.served.of(notServed, opening.kind);
  if (counters !== own) counters.add(own);
  moments.end(counters, call.begun);
  if (end === 'ok') return call.trace?.succeed(undefined);
  counters.countFailure(true);
  all.servedEnds.count(end);
  call.trace?.fail(call.trace.error ?? errorOfEnd(end), undefined);
}

/** The error of a call that was refused, cancelled, or past its deadline. */
function errorOfEnd(end: ServedEnd): SidecallError {
  return end in errorTable
    ? new SidecallError(end as SidecallErrorCode)
    : new RpcError(end as FailureStatus, 'the call has failed');
}

/** The end of a call that was answered with this status. */
export function endOfStatus(status: number): 'ok' | ServedEnd {
  return statuses[status] ?? 'unknown';
}
