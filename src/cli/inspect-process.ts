// SPDX-License-Identifier: MIT
// `sidecall inspect PID`: the sessions of a living process that allows it.
import { readFileSync, statSync } from 'node:fs';
import { onAbortOf } from '../base/abort-listeners.ts';
import { systemClock, type Timer } from '../base/clock.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { pause } from '../base/pause.ts';
import { standingOfProcess } from '../base/process-standing.ts';
import { connect } from '../rendezvous/connect.ts';
import { type InspectionPath, inspectionPathsOf } from '../rendezvous/inspection-paths.ts';
import {
  type InspectedThread,
  type InspectionPart,
  type InspectionRequest,
  InspectionService,
  type ReportedSession,
} from '../rendezvous/inspection-service.ts';
import type { Session } from '../rpc/session/session.ts';
import { checkSession, checkThread, unreadable } from './check-report.ts';

/** A thread of a process, and its sessions. */
export interface ThreadReport {
  /** 0: the main thread. */
  readonly threadId: number;
  /** The copy of this package in the thread, from 1 on. */
  readonly copy: number;
  /** undefined: it could not be looked into, for `error`. */
  readonly thread: InspectedThread | undefined;
  readonly sessions: readonly ReportedSession[];
  /** Why it could not be looked into, or only in part. */
  readonly error: string | undefined;
}

/** Called for each session that has arrived. */
type OnProgress = (arrived: number, ofAll: number) => void;

/** The sessions that are looked at in full, and how long an answer is waited for. */
export interface InspectSettings extends InspectionRequest {
  /** The longest wait for the first answer, and for each next one. */
  readonly timeoutMs: number;
  readonly onProgress?: OnProgress;
  /** Ends the look. */
  readonly signal?: AbortSignal | undefined;
}

/** Looks whether a process whose socket has ended ends, too, and the time between two of them. */
const endLooks = 25;
const endLookMs = 20;

const howToAllow =
  'start it with SIDECALL_INSPECT=1 in its environment, or let it call configure({ inspection: true }) before its first session';

/**
 * The threads of a process that allow it.
 * @throws {SidecallError} `ERR_SIDECALL_NO_LISTENER` where there is no such process, or it does not
 * allow it; `ERR_SIDECALL_PEER_DENIED` for a process of another user; what the main thread says
 * where no thread can be looked into: `ERR_SIDECALL_PEER_UNRESPONSIVE` where it does not answer,
 * `ERR_SIDECALL_PEER_GONE` where the process ends meanwhile.
 */
export async function inspectProcess(
  pid: number,
  settings: InspectSettings,
): Promise<readonly ThreadReport[]> {
  checkProcess(pid);
  const threads: ThreadReport[] = [];
  let failure: unknown;
  for (const at of inspectionPathsOf(pid)) {
    try {
      threads.push(await inspectThread(pid, at, settings));
    } catch (error) {
      if (isAbsent(error)) continue; // a thread that was terminated, or an earlier process
      failure ??= error;
      const { threadId, copy } = at;
      threads.push({ threadId, copy, thread: undefined, sessions: [], error: errorText(error) });
    }
  }
  if (threads.some(({ thread }) => thread !== undefined)) return threads;
  throw failure ?? (isAlive(pid) ? notAllowed(pid) : endedMeanwhile(pid));
}

/**
 * Whether a process may be looked into, without a look.
 * @throws {SidecallError} as {@link inspectProcess} where it may not.
 */
export function checkAllowed(pid: number): void {
  checkProcess(pid);
  if (inspectionPathsOf(pid).length === 0) throw notAllowed(pid);
}

function endedMeanwhile(pid: number, cause?: unknown): SidecallError {
  const why = cause === undefined ? '' : `: ${errorText(cause)}`;
  const text = `process ${pid} ended while it was looked into${why}`;
  return new SidecallError('ERR_SIDECALL_PEER_GONE', text, { cause });
}

function isAbsent(error: unknown): boolean {
  return SidecallError.is(error) && error.code === 'ERR_SIDECALL_NO_LISTENER';
}

function notAllowed(pid: number): SidecallError {
  const [, ...inner] = namespacePids(pid);
  const text =
    inner.length > 0
      ? `process ${pid} runs in another pid namespace, where it is ${inner.at(-1)}: run this command there`
      : `process ${pid} does not allow it: ${howToAllow}`;
  return new SidecallError('ERR_SIDECALL_NO_LISTENER', text);
}

/** @throws {SidecallError} where there is no such process, or it is of another user. */
function checkProcess(pid: number): void {
  try {
    process.kill(pid, 0);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EPERM') throw noProcess(pid, cause);
    throw foreign(pid, cause);
  }
  if (statusOf(pid, 'State')?.startsWith('Z') === true) {
    const text = `process ${pid} has ended; its parent has not taken notice of it yet`;
    throw new SidecallError('ERR_SIDECALL_NO_LISTENER', text);
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

/** A line of `/proc/PID/status`; undefined: there is none. */
function statusOf(pid: number, name: string): string | undefined {
  try {
    const lines = readFileSync(`/proc/${pid}/status`, 'latin1').split('\n');
    return lines
      .find((line) => line.startsWith(`${name}:`))
      ?.slice(name.length + 1)
      .trim();
  } catch {
    return undefined;
  }
}

/** The effective user of a process; undefined: there is no /proc. */
function ownerOf(pid: number): number | undefined {
  const [, effective] = statusOf(pid, 'Uid')?.split(/\s+/) ?? [];
  if (effective !== undefined) return Number(effective);
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid;
}

/** The numbers of a process in each pid namespace that it is in, ours first. */
function namespacePids(pid: number): readonly string[] {
  return statusOf(pid, 'NSpid')?.split(/\s+/) ?? [];
}

/** Characters of a report as JSON: 1,000 sessions with 1,000 calls each have less. */
const reportMaxCharacters = 400_000_000;

/** The parts of a report that have arrived. */
class Arriving {
  readonly sessions: ReportedSession[] = [];
  thread: InspectedThread | undefined;
  #characters = 0;

  /** @throws {SidecallError} `ERR_SIDECALL_PROTOCOL` for what a process of another version says. */
  add(part: InspectionPart): void {
    if (part === null || typeof part !== 'object') throw unreadable(undefined);
    this.#characters += JSON.stringify(part).length;
    if (this.#characters > reportMaxCharacters) throw unreadable(this.thread);
    if ('thread' in part) {
      if (this.thread !== undefined) throw unreadable(this.thread);
      this.thread = checkThread(part.thread);
    } else if (!Array.isArray(part.sessions) || part.sessions.length === 0) {
      throw unreadable(this.thread); // an empty part would be no progress
    } else for (const each of part.sessions) this.sessions.push(checkSession(each, this.thread));
    if (this.sessions.length > (this.thread?.sessions ?? 0)) throw unreadable(this.thread);
  }
}

/** The longest wait for an answer. */
class AnswerWatch {
  readonly #late = new AbortController();
  readonly #timeoutMs: number;
  #timer: Timer | undefined;
  #isOver = false;
  /** undefined: not connected yet. */
  session: Session | undefined;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    this.restart();
  }

  /** Aborted when the process is late. */
  get signal(): AbortSignal {
    return this.#late.signal;
  }

  restart(): void {
    systemClock.clearTimeout(this.#timer);
    if (this.#isOver) return;
    this.#timer = systemClock.setTimeout(() => void this.#onTime(), this.#timeoutMs);
  }

  end(): void {
    this.#isOver = true;
    systemClock.clearTimeout(this.#timer);
  }

  /** A process that answers pings is not late: others look into it, too, and they take turns. */
  async #onTime(): Promise<void> {
    try {
      if (this.session === undefined) throw new Error('not connected');
      await this.session.ping({ timeoutMs: this.#timeoutMs });
      this.restart();
    } catch {
      this.#late.abort();
    }
  }
}

async function inspectThread(
  pid: number,
  { path, threadId, copy }: InspectionPath,
  { timeoutMs, onProgress, detailed, payload, signal: ended }: InspectSettings,
): Promise<ThreadReport> {
  const watch = new AnswerWatch(timeoutMs);
  const either = new AbortController();
  const { signal } = either;
  const end = (reason: unknown): void => either.abort(reason);
  const forget = [onAbortOf(watch.signal, end), onAbortOf(ended, end)];
  const arriving = new Arriving();
  try {
    const session = await openThread(pid, path, timeoutMs, signal);
    try {
      watch.session = session;
      const parts = session.client(InspectionService).sessions({ detailed, payload }, { signal });
      for await (const part of parts) {
        watch.restart();
        arriving.add(part);
        onProgress?.(arriving.sessions.length, arriving.thread?.sessions ?? 0);
      }
    } finally {
      await session.close({ deadlineMs: 0 }); // nothing of it is left to wait for
    }
  } catch (error) {
    throw await explained(error, { pid, path, timeoutMs, isLate: watch.signal.aborted });
  } finally {
    watch.end();
    for (const each of forget) each();
  }
  const { thread, sessions } = arriving;
  if (thread === undefined) throw unreadable(undefined);
  return { threadId, copy, thread, sessions, error: undefined };
}

/**
 * A session with a thread that is looked into.
 * @throws {SidecallError} `ERR_SIDECALL_PEER_DENIED`: another process has made the socket.
 */
export async function openThread(
  pid: number,
  path: string,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Session> {
  const { min, max } = ranges.connectTimeoutMs;
  const connectMs = Math.min(max, Math.max(min, timeoutMs));
  const session = await connect({ path, lane: 'socket', timeoutMs: connectMs, signal });
  try {
    checkPid(pid, session.peer.pid);
    return session;
  } catch (error) {
    await session.close({ deadlineMs: 0 });
    throw error;
  }
}

/** @throws {SidecallError} `ERR_SIDECALL_PEER_DENIED`: another process has made the socket. */
function checkPid(wanted: number, found: number | undefined): void {
  if (found === undefined || found === 0 || found === wanted) return;
  const text = `the socket of process ${wanted} belongs to process ${found}, which says it is that one`;
  throw new SidecallError('ERR_SIDECALL_PEER_DENIED', text);
}

/** The failure in words that say what the process does instead. */
export async function explained(
  cause: unknown,
  of: { pid: number; path: string; timeoutMs: number; isLate: boolean },
): Promise<unknown> {
  const { pid, path, timeoutMs, isLate } = of;
  const code = SidecallError.is(cause) ? cause.code : undefined;
  if (isAbsent(cause)) return cause;
  if (!isAlive(pid)) return endedMeanwhile(pid, cause);
  if (code === 'ERR_SIDECALL_PEER_GONE') {
    if (await endsSoon(pid)) return endedMeanwhile(pid, cause);
    const text = `process ${pid} lives, and has ended the inspection at ${path}: its thread ended, it had no descriptor left, or it was ended by its own close (${errorText(cause)})`;
    return new SidecallError('ERR_SIDECALL_PEER_GONE', text, { cause });
  }
  if (code === 'ERR_SIDECALL_LIMIT_CONNECTIONS') {
    const text = `8 others look into process ${pid} already: end one of them`;
    return new SidecallError('ERR_SIDECALL_LIMIT_CONNECTIONS', text, { cause });
  }
  const isTimeout = /TIMEOUT|DEADLINE/.test(code ?? '');
  if (!isLate && !isTimeout) return cause;
  const { words } = await standingOfProcess(pid);
  const text = `process ${pid} has not answered for ${timeoutMs} ms: it ${words}; wait longer with --timeout`;
  return new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text, { cause });
}

/** A process that was killed closes its sockets some milliseconds before it has ended. */
async function endsSoon(pid: number): Promise<boolean> {
  const { signal: never } = new AbortController();
  for (let look = 0; look < endLooks && isAlive(pid); look += 1) {
    await pause(systemClock, endLookMs, never);
  }
  return !isAlive(pid);
}

/** False: there is no such process of our own user, or it waits for its parent's notice. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return statusOf(pid, 'State')?.startsWith('Z') !== true;
  } catch {
    return false;
  }
}
