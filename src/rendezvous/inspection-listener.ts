// SPDX-License-Identifier: MIT
// The private socket by which processes of our own user may look into the sessions of this thread.
import { dirname } from 'node:path';
import { threadId } from 'node:worker_threads';
import { nativeState } from '../addon/load-addon.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { pause } from '../base/pause.ts';
import { version } from '../base/version.ts';
import { isInspectionAllowed } from '../open/configure.ts';
import { addonReason } from '../open/lane.ts';
import { openSessions } from '../open/open-sessions.ts';
import { checkSessionOptions } from '../open/session-options.ts';
import { Registry } from '../rpc/serving/registry.ts';
import type { Session } from '../rpc/session/session.ts';
import { removeLeftBehindSockets } from '../uds/left-behind.ts';
import { socketPath } from '../uds/private-directory.ts';
import { standardMode } from '../uds/socket-file.ts';
import { inspectionFile, inspectionName } from './inspection-paths.ts';
import {
  type InspectionPart,
  InspectionService,
  type ReportedSession,
} from './inspection-service.ts';
import { Listener } from './listener.ts';

/** Processes that look at once. */
const inspectorsMax = 8;
const streamsMax = 1_000;
/**
 * The pause after each session is this many times the time of its inspection: with its encoding
 * that is less than 2 % of a processor.
 */
const pauseFactor = 80;
const pauseMaxMs = 1_000;

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
    sessions: (_request, { signal }) => reports(systemClock, signal),
  });
  const path = socketPath(inspectionName(process.pid, threadId));
  const listener = await Listener.open({
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
    native: addon,
    pathPeer: undefined,
    session: {
      ...checkSessionOptions({ lane: 'socket', introspection: false }, registry),
      isDefaultPolicy: true,
      isInspection: true,
    },
    registry,
  });
  listener.unref();
  listener.beginServing();
  void removeLeftBehindSockets(addon, dirname(path), inspectionFile);
  for await (const session of listener) session.unref();
}

/** The thread and its sessions, one after the other, so that the event loop is free between. */
async function* reports(clock: Clock, signal: AbortSignal): AsyncGenerator<InspectionPart> {
  const sessions = openSessions();
  yield {
    thread: {
      sidecall: version,
      node: process.version,
      pid: process.pid,
      threadId,
      uptimeMs: Math.round(process.uptime() * 1_000),
      residentBytes: process.memoryUsage.rss(),
      sessions: sessions.length,
    },
  };
  for (const session of sessions) {
    if (session.state === 'closed') continue;
    const begun = clock.nowMs();
    const report = reportOf(session);
    const tookMs = clock.nowMs() - begun;
    yield { session: report };
    const pauseMs = Math.min(pauseMaxMs, tookMs * pauseFactor);
    await pause(clock, pauseMs, signal, false);
  }
}

function reportOf(session: Session): ReportedSession {
  const { streams, ring, ...rest } = session.inspect();
  return {
    ...rest,
    streams: streams.slice(0, streamsMax),
    moreStreams: Math.max(0, streams.length - streamsMax),
    ring: ring && { sent: ring.sent, received: ring.received, faults: ring.faults },
  };
}
