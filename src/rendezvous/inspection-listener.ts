// SPDX-License-Identifier: MIT
// The private socket by which processes of our own user may look into the sessions of this thread.
import { dirname } from 'node:path';
import { isMainThread, threadId } from 'node:worker_threads';
import type { NativeAddon } from '../addon/addon-api.ts';
import { nativeState } from '../addon/load-addon.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { errorText } from '../base/error-text.ts';
import { RpcError, SidecallError } from '../base/errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { version } from '../base/version.ts';
import { isInspectionAllowed, isPayloadAllowed } from '../open/configure.ts';
import { addonReason } from '../open/lane.ts';
import { openSession, openSessionIds } from '../open/open-sessions.ts';
import { checkSessionOptions } from '../open/session-options.ts';
import { Registry } from '../rpc/serving/registry.ts';
import type { Session } from '../rpc/session/session.ts';
import { removeLeftBehindSockets } from '../uds/left-behind.ts';
import { socketPath } from '../uds/private-directory.ts';
import { standardMode } from '../uds/socket-file.ts';
import { inspectedCalls } from './inspected-calls.ts';
import { copiesMax, inspectionFile, inspectionName } from './inspection-paths.ts';
import {
  type InspectionPart,
  type InspectionRequest,
  InspectionService,
  type ReportedSession,
  shownPayloadBytes,
} from './inspection-service.ts';
import { InspectionTurns } from './inspection-turns.ts';
import { Listener } from './listener.ts';

/** Processes that look at once. */
const inspectorsMax = 8;
/** Time without progress after which a process that looks, and was stopped, is let go. */
const stallTimeoutMs = 2_000;
const streamsShownMax = 1_000;
/** Calls among them that wait to begin, where more have begun. */
const waitingShownMax = 100;
/** Calls of one process that looks: it makes two at once. */
const streamsMax = 8;
const detailedMax = 1_000;
const noPayload =
  "this process shows no payload: start it with SIDECALL_INSPECT=payload in its environment, or let it call configure({ inspection: 'payload' }) first";
/** Of a ring, in each direction: its copy takes a fraction of a millisecond. */
const unreadMaxBytes = 262_144;
/** Sessions that are looked into in one turn of the event loop. */
const turnMs = 0.5;
const turnSessions = 16;

let isOpened = false;

/**
 * Opens the socket of this thread where the program allows it, the first time. Never throws: where
 * it cannot be opened, a warning of the process says why, and everything else works.
 */
export function openInspectionOnce(): void {
  if (isOpened || !isInspectionAllowed()) return;
  isOpened = true;
  void openInspection().catch((error) => {
    const text = `this process cannot be inspected: ${errorText(error)}`;
    process.emitWarning(text, { type: 'SidecallWarning', code: 'SIDECALL_NO_INSPECTION' });
  });
}

async function openInspection(): Promise<void> {
  const { addon } = nativeState();
  if (addon === undefined) {
    throw new SidecallError('ERR_SIDECALL_ADDON_UNAVAILABLE', addonReason());
  }
  const registry = new Registry();
  registry.addOwn(InspectionService, {
    sessions: (request, { signal }) => reports(systemClock, signal, detailIn(request)),
    calls: (_, { signal }) => inspectedCalls(systemClock, signal),
  });
  const { listener, path } = await listenAsCopy(addon, registry);
  listener.unref();
  listener.beginServing();
  // A worker thread that is terminated leaves the directory open that it reads.
  if (isMainThread) void removeLeftBehindSockets(addon, dirname(path), inspectionFile);
  for await (const session of listener) session.unref();
}

/** Another copy of this package in this thread may have the path of the first copy. */
async function listenAsCopy(
  native: NativeAddon,
  registry: Registry,
): Promise<{ readonly listener: Listener; readonly path: string }> {
  for (let copy = 1; ; copy += 1) {
    const path = socketPath(inspectionName(process.pid, threadId, copy));
    try {
      return { listener: await listenAt(native, path, registry), path };
    } catch (error) {
      const isTaken = SidecallError.is(error) && error.code === 'ERR_SIDECALL_PATH_IN_USE';
      if (!isTaken || copy === copiesMax) throw error;
    }
  }
}

function listenAt(native: NativeAddon, path: string, registry: Registry): Promise<Listener> {
  return Listener.open({
    path,
    privateDirectory: undefined,
    onEvent: undefined,
    authorize: undefined, // the own user alone
    helloTimeoutMs: ranges.helloTimeoutMs.standard,
    hellosMax: inspectorsMax,
    sessionsMax: inspectorsMax,
    sessionsPerUidMax: inspectorsMax,
    sessionsPerProcessMax: inspectorsMax,
    bind: {
      mode: standardMode,
      owner: undefined,
      gid: undefined,
      backlog: inspectorsMax,
      unlinkOnClose: true,
    },
    unsafeDirectory: false,
    native,
    pathPeer: undefined,
    session: {
      ...checkSessionOptions(
        { lane: 'socket', introspection: false, stallTimeoutMs, limits: { streamsMax } },
        registry,
      ),
      isDefaultPolicy: true,
      isInspection: true,
    },
    registry,
  });
}

/** The detail of a report. */
interface Detail {
  /** The sessions that are reported in full; undefined: all of them. */
  readonly ids: ReadonlySet<number> | undefined;
  readonly payloadMaxBytes: number;
}

/**
 * @throws {RpcError} `invalid_argument` for a request that is none, `permission_denied` for
 * payloads that this process does not show.
 */
function detailIn(request: InspectionRequest | undefined | null): Detail {
  const ids: unknown = request?.detailed;
  const isList = Array.isArray(ids) && ids.length <= detailedMax && ids.every(Number.isSafeInteger);
  if (ids !== undefined && !isList) {
    throw new RpcError('invalid_argument', `detailed must be at most ${detailedMax} session ids`);
  }
  const isPayload = request?.payload === true;
  if (isPayload && !isPayloadAllowed()) throw new RpcError('permission_denied', noPayload);
  return {
    ids: ids === undefined ? undefined : new Set(ids as number[]),
    payloadMaxBytes: isPayload ? shownPayloadBytes : 0,
  };
}

const turns = new InspectionTurns();

/**
 * The thread and its sessions, with pauses between. All processes that look take turns.
 */
async function* reports(
  clock: Clock,
  signal: AbortSignal,
  detail: Detail,
): AsyncGenerator<InspectionPart> {
  const end = await turns.take(clock);
  const begun = clock.nowMs();
  const ids = [...openSessionIds()];
  const thread = {
    sidecall: version,
    node: process.version,
    pid: process.pid,
    threadId,
    uptimeMs: Math.round(process.uptime() * 1_000),
    residentBytes: process.memoryUsage.rss(),
    sessions: ids.length,
  };
  end(clock.nowMs() - begun);
  yield { thread };
  while (ids.length > 0 && !signal.aborted) {
    const sessions = await inTurn(clock, signal, ids, detail);
    if (sessions.length > 0) yield { sessions };
  }
}

/** Takes sessions from `ids` in our turn, as many as may be looked into in one; their reports. */
async function inTurn(
  clock: Clock,
  signal: AbortSignal,
  ids: number[],
  detail: Detail,
): Promise<readonly ReportedSession[]> {
  const end = await turns.take(clock);
  const begun = clock.nowMs();
  const reports: ReportedSession[] = [];
  let tookMs = 0;
  while (ids.length > 0 && tookMs < turnMs && reports.length < turnSessions && !signal.aborted) {
    const session = openSession(ids.shift() as number);
    if (session === undefined) continue; // it is over
    const isDetailed = detail.ids?.has(session.id) ?? true;
    reports.push(isDetailed ? reportOf(session, clock, detail) : numbersOf(session, clock));
    tookMs = clock.nowMs() - begun;
  }
  end(tookMs);
  return reports;
}

function reportOf(session: Session, clock: Clock, { payloadMaxBytes }: Detail): ReportedSession {
  const atMs = clock.nowMs();
  const { streams, ring, ...rest } = session.inspect({ unreadMaxBytes, payloadMaxBytes });
  // As many calls are open as may be where others wait for a slot: these have a share of the list.
  const begun = streams.filter(({ id }) => id !== undefined);
  const waiting = streams.filter(({ id }) => id === undefined);
  const room = Math.max(waitingShownMax, streamsShownMax - begun.length);
  const shownWaiting = waiting.slice(0, room);
  const shown = [...begun.slice(0, streamsShownMax - shownWaiting.length), ...shownWaiting];
  const all = begun.length + rest.stats.calls.waiting;
  return {
    ...rest,
    atMs,
    streams: shown,
    moreStreams: Math.max(0, all - shown.length),
    ring: ring && { sent: ring.sent, received: ring.received, faults: ring.faults },
  };
}

/** A session without its calls, leases and ring, whose copies take most of the time. */
function numbersOf(session: Session, clock: Clock): ReportedSession {
  const { id, state, lane, laneReason, peer } = session;
  const stats = session.stats();
  const none = { streams: [], moreStreams: 0, leases: [], ring: undefined };
  return { id, state, lane, laneReason, peer, stats, atMs: clock.nowMs(), ...none };
}
