// SPDX-License-Identifier: MIT
// The words between a process that is looked into and the one that looks.
import { serverStream, service } from '../rpc/contract/service.ts';
import type { SampledCall } from '../rpc/counting/call-sampler.ts';
import type { InspectedStream, SessionInspection } from '../rpc/session/inspection.ts';
import type { RingReport } from '../wire/ring-report.ts';

/** The thread that is looked into. */
export interface InspectedThread {
  /** Version of this package in the process. */
  readonly sidecall: string;
  /** Version of Node, Bun or Deno there. */
  readonly node: string;
  readonly pid: number;
  /** 0: the main thread. */
  readonly threadId: number;
  readonly uptimeMs: number;
  /** Bytes of memory of the whole process. */
  readonly residentBytes: number;
  /** Sessions that are open, and follow. */
  readonly sessions: number;
}

/** A session as it travels: {@link SessionInspection} with bounds. */
export interface ReportedSession extends Omit<SessionInspection, 'streams' | 'ring'> {
  /** Instant of this report, in milliseconds of a clock of the thread. */
  readonly atMs: number;
  /** The first 1,000 calls and streams; 100 of those that wait to begin have a place in it. */
  readonly streams: readonly InspectedStream[];
  readonly moreStreams: number;
  readonly ring: RingReport | undefined;
}

/** First the thread, then its sessions, some at a time. */
export type InspectionPart =
  | { readonly thread: InspectedThread }
  | { readonly sessions: readonly ReportedSession[] };

/** Bytes of an unread payload that are shown where they are asked for. */
export const shownPayloadBytes = 256;

/** The detail that a process that looks asks for. */
export interface InspectionRequest {
  /**
   * Numbers of sessions, as `session.id` gives them, whose calls, leases and rings are reported;
   * of the others the report has the numbers alone. undefined: of all sessions.
   */
  readonly detailed?: readonly number[] | undefined;
  /**
   * True: the beginning of each unread payload is reported, where the process allows that.
   * undefined: none is.
   */
  readonly payload?: boolean | undefined;
}

/** A part of the calls of the thread, from the moment on at which they were asked for. */
export interface InspectedCalls {
  /** Instant of this message, in milliseconds of the clock of the thread. */
  readonly atMs: number;
  /** Calls that have begun or ended; one that has ended comes again under its number. */
  readonly calls: readonly SampledCall[];
  /** Changes that were left out since the message before, because there were too many. */
  readonly missed: number;
}

/** Served to processes of the own user alone, where the program allows it. */
export const InspectionService = service('sidecall.Inspection', {
  sessions: serverStream<InspectionRequest | undefined, InspectionPart>(),
  calls: serverStream<undefined, InspectedCalls>(),
});
