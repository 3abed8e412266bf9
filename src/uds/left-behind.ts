// SPDX-License-Identifier: MIT
// Private directories of listeners that were killed, which could not remove them: the next process
// of the same user that makes one there removes them.
import { lstatSync, opendirSync, readdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import type { NativeAddon } from '../addon/addon-api.ts';
import { ownUid } from './peer-credentials.ts';
import { privateDirectoryName, privateSocketName } from './private-directory.ts';
import { SocketDirectory } from './socket-directory.ts';
import { BoundPath, standardMode } from './socket-file.ts';

/** Longer than any process takes from making a directory to locking its socket's place. */
const leftBehindAfterMs = 60_000;
/** Bounds of one search, which runs on the event loop. */
const entriesMax = 10_000;
const removedMax = 64;

const lockName = `${privateSocketName}.lock`;
const searched = new Set<string>();

/** As {@link removeLeftBehind}, the first time in this process. Never throws. */
export function removeLeftBehindOnce(native: NativeAddon, base: string): void {
  if (searched.has(base)) return;
  searched.add(base);
  try {
    removeLeftBehind(native, base);
  } catch {
    // a directory that cannot be read: nothing is removed
  }
}

/**
 * Removes directories of killed listeners in `base`: ours, closed to others, a minute old, without
 * any file but a socket and a lock that no process holds. Returns the number.
 * @throws the system's error where `base` cannot be read.
 */
export function removeLeftBehind(native: NativeAddon, base: string): number {
  let removed = 0;
  const directory = opendirSync(base);
  try {
    for (let seen = 0; seen < entriesMax && removed < removedMax; seen += 1) {
      const entry = directory.readSync();
      if (entry === null) break;
      if (!privateDirectoryName.test(entry.name)) continue;
      if (removeIfLeft(native, join(base, entry.name))) removed += 1;
    }
  } finally {
    directory.closeSync();
  }
  return removed;
}

function removeIfLeft(native: NativeAddon, directory: string): boolean {
  try {
    const status = lstatSync(directory);
    const { mtimeMs, uid, mode } = status;
    const isOurs = status.isDirectory() && uid === ownUid() && (mode & 0o077) === 0;
    if (!isOurs || Date.now() - mtimeMs < leftBehindAfterMs) return false;
    const files = readdirSync(directory);
    if (files.some((file) => file !== privateSocketName && file !== lockName)) return false;
    // Without its lock a socket belongs to a listener that has no addon.
    if (files.includes(lockName)) clear(native, directory);
    rmdirSync(directory);
    return true;
  } catch {
    return false; // in use, another kind of directory, or removed by another process
  }
}

/** Removes socket and lock. @throws where a process holds either of them. */
function clear(native: NativeAddon, directory: string): void {
  const trust = { owners: [ownUid()], unsafeDirectory: false };
  const opened = new SocketDirectory(native, join(directory, privateSocketName), trust);
  try {
    new BoundPath(opened, { mode: standardMode, gid: undefined, backlog: 1 }).clear();
  } finally {
    opened.close();
  }
}
