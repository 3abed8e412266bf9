// SPDX-License-Identifier: MIT
// Private directories of listeners that were killed, which could not remove them: the next process
// of the same user that makes one there removes them.
import { existsSync } from 'node:fs';
import { lstat, opendir, readdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isMainThread } from 'node:worker_threads';
import type { NativeAddon } from '../addon/addon-api.ts';
import { ownUid } from './peer-credentials.ts';
import { privateDirectoryName, privateSocketName } from './private-directory.ts';
import { SocketDirectory } from './socket-directory.ts';
import { BoundPath, standardMode } from './socket-file.ts';

/** Longer than any process takes from making a directory to locking its socket's place. */
const leftBehindAfterMs = 60_000;
/** Entries that one search looks at. */
const entriesMax = 10_000;

const lockName = `${privateSocketName}.lock`;
const searched = new Set<string>();

/**
 * As {@link removeLeftBehind}, the first time in this process. Never rejects. Worker threads do not
 * search: Node leaves a directory open that a thread was opening when it was terminated.
 */
export async function removeLeftBehindOnce(native: NativeAddon, base: string): Promise<void> {
  if (!isMainThread || searched.has(base)) return;
  searched.add(base);
  try {
    await removeLeftBehind(native, base);
  } catch {
    // a directory that cannot be read: nothing is removed
  }
}

/**
 * Removes directories of killed listeners in `base`: ours, closed to others, a minute old, without
 * any file but a socket and a lock that no process holds. Returns the number. Another user can make
 * a look at an entry last (a file system of its own), so threads look.
 * @throws the system's error where `base` cannot be read.
 */
export async function removeLeftBehind(native: NativeAddon, base: string): Promise<number> {
  let seen = 0;
  let removed = 0;
  for await (const { name } of await opendir(base)) {
    const isPrivate = privateDirectoryName.test(name);
    if (isPrivate && (await removeIfLeft(native, join(base, name)))) removed += 1;
    seen += 1;
    if (seen === entriesMax) break;
  }
  return removed;
}

async function removeIfLeft(native: NativeAddon, directory: string): Promise<boolean> {
  try {
    const status = await lstat(directory);
    const { mtimeMs, uid, mode } = status;
    const isOurs = status.isDirectory() && uid === ownUid() && (mode & 0o077) === 0;
    if (!isOurs || Date.now() - mtimeMs < leftBehindAfterMs) return false;
    const files = await readdir(directory);
    if (files.some((file) => file !== privateSocketName && file !== lockName)) return false;
    // Without its lock a socket belongs to a listener that has no addon.
    if (files.includes(lockName)) clear(native, join(directory, privateSocketName));
    await rmdir(directory);
    return true;
  } catch {
    return false; // in use, another kind of directory, or removed by another process
  }
}

/**
 * Removes sockets of killed processes in `directory`, a private one, with their locks: those whose
 * names have the form, that are a minute old, and that no process holds. Never rejects.
 */
export async function removeLeftBehindSockets(
  native: NativeAddon,
  directory: string,
  form: RegExp,
): Promise<void> {
  try {
    let seen = 0;
    for await (const { name } of await opendir(directory)) {
      if (form.test(name)) await removeSocketIfLeft(native, join(directory, name));
      seen += 1;
      if (seen === entriesMax) break;
    }
  } catch {
    // a directory that cannot be read: nothing is removed
  }
}

async function removeSocketIfLeft(native: NativeAddon, path: string): Promise<void> {
  try {
    const status = await lstat(path);
    const isOld = Date.now() - status.mtimeMs >= leftBehindAfterMs;
    // Without its lock a socket belongs to another program.
    if (status.isSocket() && isOld && existsSync(`${path}.lock`)) clear(native, path);
  } catch {
    // in use, no socket, or removed by another process
  }
}

/** Removes socket and lock. @throws where a process holds either of them. */
function clear(native: NativeAddon, path: string): void {
  const trust = { owners: [ownUid()], unsafeDirectory: false };
  const opened = new SocketDirectory(native, path, trust);
  try {
    new BoundPath(opened, {
      mode: standardMode,
      owner: undefined,
      gid: undefined,
      backlog: 1,
    }).clear();
  } finally {
    opened.close();
  }
}
