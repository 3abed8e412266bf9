// SPDX-License-Identifier: MIT
// The proof that a process has the listening socket of a path, by the tables of the kernel.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** Flag of a socket that listens, in `/proc/net/unix`. */
const listeningFlags = '00010000';

/**
 * True: the process has a descriptor of a socket that listens at the path. A pid alone proves
 * nothing, since the process may have ended and another one may have its number. False also where
 * the system has no such tables.
 */
export function listensAt(path: string, pid: number): boolean {
  try {
    const sockets = listeningSockets(path);
    return readdirSync(`/proc/${pid}/fd`).some((fd) =>
      sockets.has(linkOf(`/proc/${pid}/fd/${fd}`)),
    );
  } catch {
    return false; // the process has ended, is of another user, or there is no /proc
  }
}

function listeningSockets(path: string): ReadonlySet<string> {
  // Num RefCount Protocol Flags Type St Inode Path
  const rows = readFileSync('/proc/net/unix', 'utf8').split('\n');
  const fields = rows.map((row) => /^\S+ \S+ \S+ (\S+) \S+ \S+ +(\d+) (.*)$/.exec(row));
  const found = fields.filter((row) => row?.[1] === listeningFlags && row[3] === path);
  // The name of a socket may have line breaks: a row that such a name imitates repeats an inode.
  const isAlone = (inode: string | undefined): boolean =>
    fields.filter((row) => row?.[2] === inode).length === 1;
  const inodes = found.map((row) => row?.[2]).filter(isAlone);
  return new Set(inodes.map((inode) => `socket:[${inode}]`));
}

function linkOf(file: string): string {
  try {
    return readlinkSync(file);
  } catch {
    return ''; // closed meanwhile
  }
}
