// SPDX-License-Identifier: MIT
// The sockets by which the threads of a process may be looked into.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { userDirectories } from '../uds/private-directory.ts';

/** Copies of this package in one thread that each have a socket. */
export const copiesMax = 4;

/** Files that such sockets have: the pid, the thread, and the copy of this package in it. */
export const inspectionFile = /^inspect-(\d+)(?:\.(\d+))?(?:-([2-4]))?\.sock$/;

/** The name of the socket of a thread, as of `socketPath()`. `copy`: 1 to {@link copiesMax}. */
export function inspectionName(pid: number, threadId: number, copy: number): string {
  const thread = threadId === 0 ? '' : `.${threadId}`;
  return `inspect-${pid}${thread}${copy === 1 ? '' : `-${copy}`}`;
}

/** The socket of a thread. */
export interface InspectionPath {
  readonly path: string;
  /** 0: the main thread. */
  readonly threadId: number;
  /** The copy of this package in the thread, from 1 on. */
  readonly copy: number;
}

/** Threads of a process that are looked into, in the order of their numbers. */
const pathsMax = 256;

/**
 * The sockets of the threads of a process, the main thread first; some may be left of an earlier
 * process of the same number.
 */
export function inspectionPathsOf(pid: number): readonly InspectionPath[] {
  const found = userDirectories(runtimeOf(pid)).flatMap((directory) =>
    namesIn(directory).flatMap((name) => {
      const match = inspectionFile.exec(name);
      if (match === null || Number(match[1]) !== pid) return [];
      const [, , thread = 0, copy = 1] = match;
      return [{ path: join(directory, name), threadId: Number(thread), copy: Number(copy) }];
    }),
  );
  found.sort((a, b) => a.threadId - b.threadId || (a.path < b.path ? -1 : 1));
  return found.slice(0, pathsMax);
}

/**
 * The processes that have such a socket in the directories of this user, each once; some may have
 * ended, or be of another pid namespace.
 */
export function inspectablePids(): readonly number[] {
  const names = userDirectories(undefined).flatMap(namesIn);
  const pids = names.map((name) => Number(inspectionFile.exec(name)?.[1] ?? 0));
  return [...new Set(pids)].filter((pid) => pid > 0).sort((a, b) => a - b);
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    return []; // there is none, or it is of another user
  }
}

/** `XDG_RUNTIME_DIR` of a process; undefined: it has none, or there is no /proc. */
function runtimeOf(pid: number): string | undefined {
  try {
    const variables = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
    const prefix = 'XDG_RUNTIME_DIR=/';
    return variables.find((each) => each.startsWith(prefix))?.slice(prefix.length - 1);
  } catch {
    return undefined;
  }
}
