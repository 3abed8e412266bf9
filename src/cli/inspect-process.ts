// SPDX-License-Identifier: MIT
// `sidecall inspect PID`: the sessions of a living process that allows it.
import { readFileSync, statSync } from 'node:fs';
import { requireNative } from '../addon/load-addon.ts';
import { systemClock } from '../base/clock.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { version } from '../base/version.ts';
import { connect } from '../rendezvous/connect.ts';
import { inspectionPathsOf } from '../rendezvous/inspection-paths.ts';
import {
  type InspectedThread,
  InspectionService,
  type ReportedSession,
} from '../rendezvous/inspection-service.ts';
import { standingOf } from '../shared/process-standing.ts';

/** A thread of a process, and its sessions. */
export interface ThreadReport {
  readonly thread: InspectedThread;
  readonly sessions: readonly ReportedSession[];
}

/** Called for each session that has arrived. */
export type OnProgress = (arrived: number, ofAll: number) => void;

const howToAllow =
  'start it with SIDECALL_INSPECT=1 in its environment, or let it call configure({ inspection: true }) first';

/**
 * The threads of a process that allow it. `timeoutMs`: the longest wait for the first answer, and
 * for each next one.
 * @throws {SidecallError} `ERR_SIDECALL_NO_LISTENER` where there is no such process, or it does not
 * allow it; `ERR_SIDECALL_PEER_DENIED` for a process of another user;
 * `ERR_SIDECALL_PEER_UNRESPONSIVE` where it does not answer; `ERR_SIDECALL_PEER_GONE` where it ends
 * meanwhile.
 */
export async function inspectProcess(
  pid: number,
  timeoutMs: number,
  onProgress: OnProgress,
): Promise<readonly ThreadReport[]> {
  checkOwner(pid);
  const paths = inspectionPathsOf(pid);
  if (paths.length === 0) {
    const text = `process ${pid} does not allow it: ${howToAllow}`;
    throw new SidecallError('ERR_SIDECALL_NO_LISTENER', text);
  }
  const threads: ThreadReport[] = [];
  for (const path of paths) threads.push(await inspectThread(pid, path, timeoutMs, onProgress));
  return threads;
}

/** @throws {SidecallError} where there is no such process, or it is of another user. */
function checkOwner(pid: number): void {
  try {
    process.kill(pid, 0);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EPERM') throw noProcess(pid, cause);
    throw foreign(pid, cause);
  }
  // root may send signals to all; yet a process lets only its own user look.
  const owner = ownerOf(pid);
  if (owner !== undefined && owner !== process.geteuid?.()) throw foreign(pid, undefined);
}

function noProcess(pid: number, cause: unknown): SidecallError {
  return new SidecallError('ERR_SIDECALL_NO_LISTENER', `there is no process ${pid}`, { cause });
}

function foreign(pid: number, cause: unknown): SidecallError {
  const owner = ownerOf(pid);
  const whose = owner === undefined ? 'another user' : `uid ${owner}`;
  const text = `process ${pid} belongs to ${whose}, and only that user may look into it (EPERM): run this command as that user`;
  return new SidecallError('ERR_SIDECALL_PEER_DENIED', text, { cause });
}

/** The effective user of a process; undefined: there is no /proc. */
function ownerOf(pid: number): number | undefined {
  try {
    const uids = /^Uid:\s+\d+\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'));
    return uids === null ? statSync(`/proc/${pid}`).uid : Number(uids[1]);
  } catch {
    return undefined;
  }
}

async function inspectThread(
  pid: number,
  path: string,
  timeoutMs: number,
  onProgress: OnProgress,
): Promise<ThreadReport> {
  const late = new AbortController();
  let timer = systemClock.setTimeout(() => late.abort(), timeoutMs);
  let thread: InspectedThread | undefined;
  const sessions: ReportedSession[] = [];
  try {
    await using session = await connect({ path, lane: 'socket', timeoutMs, signal: late.signal });
    const parts = session.client(InspectionService).sessions(undefined, { signal: late.signal });
    for await (const part of parts) {
      systemClock.clearTimeout(timer);
      timer = systemClock.setTimeout(() => late.abort(), timeoutMs);
      if ('thread' in part) thread = part.thread;
      else sessions.push(checkReport(part, thread));
      onProgress(sessions.length, thread?.sessions ?? 0);
    }
  } catch (error) {
    throw await explained(error, { pid, path, timeoutMs, isLate: late.signal.aborted });
  } finally {
    systemClock.clearTimeout(timer);
  }
  if (thread !== undefined) return { thread, sessions };
  throw new SidecallError('ERR_SIDECALL_PROTOCOL', `process ${pid} said nothing of itself`);
}

/** @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for what a process of another version says. */
function checkReport(
  { session }: { readonly session: ReportedSession },
  thread: InspectedThread | undefined,
): ReportedSession {
  const { stats, streams, leases, peer } = session ?? {};
  const { calls, handlers, totals, waits, windows } = stats ?? {};
  const isReadable =
    [calls, handlers, totals, waits, windows, peer].every((each) => typeof each === 'object') &&
    Array.isArray(streams) &&
    Array.isArray(leases);
  if (isReadable) return session;
  const text = `the report of a session cannot be read: the process has version ${thread?.sidecall} of this package, this command has ${version}`;
  throw new SidecallError('ERR_SIDECALL_PROTOCOL', text);
}

/** The failure in words that say what the process does instead. */
async function explained(
  cause: unknown,
  of: { pid: number; path: string; timeoutMs: number; isLate: boolean },
): Promise<unknown> {
  const { pid, path, timeoutMs, isLate } = of;
  const code = SidecallError.is(cause) ? cause.code : undefined;
  if (code === 'ERR_SIDECALL_NO_LISTENER') {
    const text = `process ${pid} does not allow it: nobody listens at ${path}, which an earlier process has left; ${howToAllow}`;
    return new SidecallError('ERR_SIDECALL_NO_LISTENER', text, { cause });
  }
  if (code === 'ERR_SIDECALL_PEER_GONE' || !isAlive(pid)) {
    const text = `process ${pid} ended while it was looked into: ${errorText(cause)}`;
    return new SidecallError('ERR_SIDECALL_PEER_GONE', text, { cause });
  }
  const isTimeout = /TIMEOUT|DEADLINE/.test(code ?? '');
  if (!isLate && !isTimeout) return cause;
  const { words } = await standingOf(requireNative('this'), path);
  const text = `process ${pid} has not answered for ${timeoutMs} ms: it ${words}; wait longer with --timeout (${errorText(cause)})`;
  return new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text, { cause });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
