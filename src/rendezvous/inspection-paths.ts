// SPDX-License-Identifier: MIT
// The sockets by which the threads of a process may be looked into.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { userDirectories } from '../uds/private-directory.ts';

/** The name of the socket of a thread, as of `socketPath()`. */
export function inspectionName(pid: number, threadId: number): string {
  return threadId === 0 ? `inspect-${pid}` : `inspect-${pid}.${threadId}`;
}

/** Files that such sockets have; the first group is the pid, the second the thread. */
export const inspectionFile = /^inspect-(\d+)(?:\.(\d+))?\.sock$/;

/** The sockets of the threads of a process, the main thread first. */
export function inspectionPathsOf(pid: number): readonly string[] {
  for (const directory of userDirectories(runtimeOf(pid))) {
    const names = namesIn(directory)
      .map((name) => inspectionFile.exec(name))
      .filter((match) => match !== null && Number(match[1]) === pid)
      .map((match) => ({ name: match?.[0] ?? '', thread: Number(match?.[2] ?? 0) }))
      .sort((a, b) => a.thread - b.thread);
    if (names.length > 0) return names.map(({ name }) => join(directory, name));
  }
  return [];
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
