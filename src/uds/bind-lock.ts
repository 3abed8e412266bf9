// SPDX-License-Identifier: MIT
// A starting place lets one process at a time bind a socket in a directory, without the addon and
// its locks. Each process makes a directory of its own beside the path, with a socket in it that it
// listens on. The kernel ends that socket with its process, so a dead process holds no place. Of
// two processes that see each other's directory, the one whose name sorts first goes on; a later
// process always sees an earlier one.
import { Buffer } from 'node:buffer';
import {
  chmodSync,
  closeSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmdirSync,
  unlinkSync,
} from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { pause } from '../base/pause.ts';
import { systemRandom } from '../base/random.ts';
import { ownUid } from './peer-credentials.ts';
import { isAnswered, listenAt } from './plain-socket.ts';
import { checkPathLength, socketPathMaxBytes } from './socket-directory.ts';

const prefix = '.scal-';
const namePattern = /^\.scal-[A-Za-z0-9]{6}$/;
const lockName = 'l';
/** The socket that is made here, before it gets its path. */
const socketName = 's';
// Longer than any process takes between making a directory and listening in it.
const leftBehindAfterMs = 60_000;
const waitMs = 3;
const never = new AbortController().signal;

/** A directory of ours beside a path, while we are the only starter there. */
export class BindLock {
  readonly #parent: string;
  readonly #parentFd: number;
  readonly #name: string;
  readonly #lock: Server;

  private constructor(parent: string) {
    this.#parent = parent;
    this.#parentFd = openSync(parent, 'r');
    try {
      const directory = mkdtempSync(join(parent, prefix));
      this.#name = directory.slice(-(prefix.length + 6));
      chmodSync(directory, 0o700); // with the bits that the umask took away
    } catch (error) {
      closeSync(this.#parentFd);
      throw error;
    }
    this.#lock = createServer((socket) => socket.destroy());
  }

  /**
   * Waits until no other starter is there. `isTaken` is called in between, since no starter gets a
   * path that has a listener.
   * @throws {SidecallError} `ERR_SIDECALL_PATH_IN_USE`,
   * `ERR_SIDECALL_PATH_TOO_LONG`, `ERR_SIDECALL_SYSTEM`.
   */
  static async take(
    parent: string,
    timeoutMs: number,
    isTaken: () => Promise<boolean>,
  ): Promise<BindLock> {
    const until = systemClock.nowMs() + timeoutMs;
    for (;;) {
      const place = await BindLock.#announce(parent);
      if (await place.#isFirst(until)) return place;
      place.release();
      if (await isTaken()) throw inUse(parent, 'it accepts connections');
      if (systemClock.nowMs() >= until) {
        throw inUse(parent, `another process has been starting there for ${timeoutMs} ms`);
      }
      await pause(systemClock, waitMs * (1 + 4 * systemRandom()), never);
    }
  }

  /**
   * Where the socket is made: reached by its path, or, where that is too long, by an open
   * directory.
   */
  get socketPath(): string {
    return this.#reach(this.#name, socketName);
  }

  /** The same by its names alone, for everything but addresses. */
  get socketFile(): string {
    return join(this.#parent, this.#name, socketName);
  }

  /**
   * Gives up the place. The files that we made are removed, and no others: another user may
   * have swapped the directory.
   */
  release(): void {
    this.#lock.close();
    removeAll(join(this.#parent, this.#name));
    closeSync(this.#parentFd);
  }

  static async #announce(parent: string): Promise<BindLock> {
    const place = new BindLock(parent);
    try {
      await listenAt(place.#lock, { path: place.#reach(place.#name, lockName) });
      place.#lock.unref();
      return place;
    } catch (error) {
      place.release();
      throw error;
    }
  }

  /** False: another starter goes first, or the others have not finished in time. */
  async #isFirst(until: number): Promise<boolean> {
    for (;;) {
      const others = await this.#others();
      if (others.length === 0) return true;
      if (others.some((name) => name < this.#name) || systemClock.nowMs() >= until) return false;
      await pause(systemClock, waitMs, never);
    }
  }

  /** Names of the other starters that are alive. */
  async #others(): Promise<readonly string[]> {
    const living: string[] = [];
    for (const name of readdirSync(this.#parent)) {
      if (name === this.#name || !namePattern.test(name)) continue;
      if (!isStarters(join(this.#parent, name))) continue;
      if (await isAnswered(this.#reach(name, lockName))) living.push(name);
      else removeLeftBehind(join(this.#parent, name));
    }
    return living;
  }

  #reach(directory: string, name: string): string {
    const path = join(this.#parent, directory, name);
    if (Buffer.byteLength(path) <= socketPathMaxBytes) return path;
    const short = join(`/proc/self/fd/${this.#parentFd}`, directory, name);
    if (!existsSync(`/proc/self/fd/${this.#parentFd}`)) checkPathLength(path);
    return short;
  }
}

/** A directory that no other user can have made, or enter. */
function isStarters(directory: string): boolean {
  const status = lstatSync(directory, { throwIfNoEntry: false });
  return status?.isDirectory() === true && status.uid === ownUid() && (status.mode & 0o077) === 0;
}

/**
 * A starter that was killed leaves its directory. One that is about to listen looks the same for a
 * moment.
 */
function removeLeftBehind(directory: string): void {
  const status = lstatSync(directory, { throwIfNoEntry: false });
  if (status === undefined || Date.now() - status.mtimeMs < leftBehindAfterMs) return;
  removeAll(directory);
}

function removeAll(directory: string): void {
  for (const remove of [
    () => unlinkSync(join(directory, lockName)),
    () => unlinkSync(join(directory, socketName)),
    () => rmdirSync(directory),
  ]) {
    try {
      remove();
    } catch {
      // it was never made, has gone, or belongs to another user
    }
  }
}

function inUse(parent: string, why: string): SidecallError {
  const text = `a path in ${parent} belongs to another listener: ${why}`;
  return new SidecallError('ERR_SIDECALL_PATH_IN_USE', text);
}
