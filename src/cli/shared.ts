// SPDX-License-Identifier: MIT
// sidecall ps and stop: the shared helpers of a user.
import { readFileSync } from 'node:fs';
import { nativeState } from '../addon/load-addon.ts';
import { systemClock } from '../base/clock.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { pause } from '../base/pause.ts';
import { sessionOpener, takingOver } from '../rendezvous/connect.ts';
import type { Session } from '../rpc/session/session.ts';
import { listensAt } from '../shared/listens-at.ts';
import { standingOf } from '../shared/process-standing.ts';
import { nameAt, sharedPath, sharedPaths } from '../shared/shared-path.ts';
import { checkInfo, type SharedHelperInfo, SharedService } from '../shared/shared-service.ts';
import { isPreparing, logOf } from '../shared/start-shared.ts';

/** A row of `sidecall ps`. */
export interface SharedRow {
  readonly path: string;
  /** The file that has its standard error. */
  readonly log: string;
  /** undefined: it does not answer, for `reason`. */
  readonly info: SharedHelperInfo | undefined;
  readonly reason: string | undefined;
  /** Its process, where it does not answer. */
  readonly pid: number | undefined;
}

const lookMaxMs = 2_000;
const pollMs = 20;
const never = new AbortController().signal;

/** All shared helpers of this user that live; `timeoutMs`: how long each may take to answer. */
export async function sharedRows(timeoutMs: number = lookMaxMs): Promise<SharedRow[]> {
  const rows = await Promise.all(sharedPaths().map((path) => rowOf(path, timeoutMs)));
  return rows.filter((row) => row !== undefined);
}

/**
 * Ends the shared helpers of a name, in order; `force`: those that do not answer by SIGKILL.
 * Resolves to those that are gone.
 * @throws {SidecallError} `ERR_SIDECALL_NO_LISTENER` where there is none,
 * `ERR_SIDECALL_PEER_UNRESPONSIVE` where one stays.
 */
export async function stopShared(
  name: string,
  { key, force, waitMs }: { key: string | undefined; force: boolean; waitMs: number },
): Promise<SharedRow[]> {
  const lookMs = Math.min(waitMs, lookMaxMs);
  const rows = (await sharedRows(lookMs)).filter((row) => isNamed(row, name, key));
  if (rows.length === 0) {
    const text = `no shared helper ${name} runs${key === undefined ? '' : ` with the key ${key}`}`;
    throw new SidecallError('ERR_SIDECALL_NO_LISTENER', text);
  }
  await Promise.all(rows.map((row) => stopOne(row, force, waitMs, lookMs)));
  return rows;
}

function isNamed({ path, info }: SharedRow, name: string, key: string | undefined): boolean {
  if (key !== undefined) return path === sharedPath(name, key);
  if (info !== undefined) return info.name === name;
  return path === sharedPath(name, undefined); // one with a key has to be named by it
}

async function stopOne(
  { path, info, pid, reason }: SharedRow,
  force: boolean,
  waitMs: number,
  lookMs: number,
) {
  const process_ = info?.pid ?? pid;
  if (info !== undefined) {
    const session = await openSession(path, lookMs);
    await session.client(SharedService).stop();
    await session.close();
  } else if (!force || process_ === undefined) {
    const hint =
      process_ === undefined ? 'its process is not known' : '--force ends its process by SIGKILL';
    const text = `${path} does not answer: ${reason}; ${hint}`;
    throw new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text);
  } else if (!listensAt(path, process_)) {
    const text = `${path} does not answer: ${reason}; /proc does not show that process ${process_} listens there, so it was not ended; look at it, and end it by kill -9 ${process_}`;
    throw new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text);
  } else process.kill(process_, 'SIGKILL');
  const until = systemClock.nowMs() + waitMs;
  while (process_ !== undefined && isAlive(process_)) {
    if (systemClock.nowMs() >= until) {
      const doing = info === undefined ? 'was sent SIGKILL' : 'finishes its calls';
      const text = `process ${process_} ${doing}, and has not ended within ${waitMs} ms; wait longer with --timeout`;
      throw new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text);
    }
    await pause(systemClock, pollMs, never);
  }
}

/** A session with a shared helper, also with one that has as many as it takes. */
function openSession(path: string, timeoutMs: number): Promise<Session> {
  return sessionOpener({ path, lane: 'socket', timeoutMs }, undefined, takingOver)(undefined);
}

async function rowOf(path: string, timeoutMs: number): Promise<SharedRow | undefined> {
  const log = logOf(path);
  let session: Session | undefined;
  try {
    session = await openSession(path, timeoutMs);
    const info = checkInfo(await session.client(SharedService).info(undefined, { timeoutMs }));
    return { path, log, info, reason: undefined, pid: info.pid };
  } catch (error) {
    if (SidecallError.is(error) && error.code === 'ERR_SIDECALL_NO_LISTENER') return undefined;
    const { addon } = nativeState();
    const standing = addon && (await standingOf(addon, path).catch(() => undefined));
    const isLoading = addon !== undefined && (await isPreparing(addon, path).catch(() => false));
    const words = isLoading ? 'loads what it needs' : standing?.words;
    const what = words === undefined ? '' : `; it ${words}`;
    return { path, log, info: undefined, reason: `${errorText(error)}${what}`, pid: standing?.pid };
  } finally {
    await session?.close({ deadlineMs: 0 });
  }
}

/** A process that has ended and waits for its parent (a zombie) is not alive. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch (error) {
    // ENOENT: no /proc; the process itself was there.
    return (error as NodeJS.ErrnoException).syscall === 'open' && process.platform !== 'linux';
  }
}

/** The rows as a table. */
export function printShared(rows: readonly SharedRow[]): string {
  if (rows.length === 0) return 'no shared helper runs';
  const head = ['NAME', 'VERSION', 'PID', 'CLIENTS', 'UPTIME', 'KEY'];
  const lines = rows.map(({ path, info, pid, reason }) =>
    info === undefined
      ? [nameAt(path), '?', String(pid ?? '?'), '?', '?', reason ?? '']
      : [
          info.name,
          info.version,
          String(info.pid),
          String(info.clients - 1), // without ours
          durationOf(info.uptimeMs),
          info.key ?? '',
        ],
  );
  const all = [head, ...lines];
  const widths = head.map((_, at) => Math.max(...all.map((line) => line[at]?.length ?? 0)));
  const print = (line: readonly string[]): string =>
    line
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd();
  return all.map(print).join('\n');
}

function durationOf(ms: number): string {
  const seconds = Math.floor(ms / 1_000);
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor((seconds % 3_600) / 60)];
  if (hours > 0) return `${hours} h ${minutes} min`;
  if (minutes > 0) return `${minutes} min ${seconds % 60} s`;
  return `${seconds} s`;
}
