// SPDX-License-Identifier: MIT
// A listening socket at a path: a live server is never displaced, a stale socket is replaced, and
// nobody can connect before mode and group are final.

import type { NativeAddon } from '../addon/addon-api.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { FileLock, inUse } from './file-lock.ts';
import { ownUid } from './peer-credentials.ts';
import { type SocketDirectory, type SocketEntry, unsafe } from './socket-directory.ts';

/** The wanted properties of the socket file. */
export interface BindOptions {
  /** Permission bits of the socket file. */
  readonly mode: number;
  /** User that owns the socket file; undefined: ours. */
  readonly owner: number | undefined;
  /** Group of the socket file; undefined: as the system gives it. */
  readonly gid: number | undefined;
  readonly backlog: number;
}

const privateMode = 0o600;

/**
 * A bound path with its lock. The descriptor that listens is given away; path and lock stay here.
 */
export class BoundPath {
  readonly directory: SocketDirectory;
  readonly #native: NativeAddon;
  readonly #options: BindOptions;
  #lock: FileLock | undefined;
  #identity: string | undefined;

  constructor(directory: SocketDirectory, options: BindOptions) {
    this.directory = directory;
    this.#native = directory.native;
    this.#options = options;
  }

  /**
   * Takes the lock, clears a stale socket away, binds and listens.
   * @returns the listening descriptor, owned by the addon until it is disowned.
   * @throws {SidecallError} `ERR_SIDECALL_PATH_IN_USE`, `ERR_SIDECALL_PATH_UNSAFE`, or
   * `ERR_SIDECALL_SYSTEM`.
   */
  listen(): number {
    this.#lock ??= FileLock.take(this.directory);
    this.#removeStale();
    return this.#bind();
  }

  /**
   * Removes the socket and the lock of a listener that was killed.
   * @throws {SidecallError} `ERR_SIDECALL_PATH_IN_USE`, `ERR_SIDECALL_PATH_UNSAFE`.
   */
  clear(): void {
    this.#lock ??= FileLock.take(this.directory);
    try {
      this.#removeStale();
    } finally {
      this.#lock?.remove();
      this.#lock = undefined;
    }
  }

  /** Is the file at the path still the socket that we made? */
  get isOurs(): boolean {
    return this.#identity !== undefined && this.directory.stat()?.identity === this.#identity;
  }

  /** Removes our socket, never a successor's, then gives up the lock. */
  remove(): void {
    try {
      if (this.#lock !== undefined && this.isOurs) {
        this.#native.unlinkAt(this.directory.fd, this.directory.name);
      }
    } finally {
      this.#identity = undefined;
      this.#lock?.remove();
      this.#lock = undefined;
    }
  }

  /**
   * Begins with a socket that another process has made and bound here. The lock is still its own.
   * @throws {SidecallError} `ERR_SIDECALL_PATH_UNSAFE` where the file is none of ours.
   */
  adopt(): void {
    const found = this.directory.stat();
    if (found?.type !== 'socket' || !this.#mayOwn(found.uid)) {
      throw unsafe(`${this.directory.socketPath} is no socket of ours any more`);
    }
    this.#identity = found.identity;
  }

  /** False: another process has the lock. */
  tryLock(): boolean {
    try {
      this.#lock ??= FileLock.take(this.directory);
      return true;
    } catch (error) {
      if (SidecallError.is(error) && error.code === 'ERR_SIDECALL_PATH_IN_USE') return false;
      throw error;
    }
  }

  /** Gives up the lock, and leaves both files to the process that has the socket now. */
  giveAway(): void {
    this.#identity = undefined;
    this.#lock?.close();
    this.#lock = undefined;
  }

  /** Gives up the lock and leaves the socket file where it is. */
  release(): void {
    this.#identity = undefined;
    this.#lock?.remove();
    this.#lock = undefined;
  }

  #removeStale(): void {
    const path = this.directory.socketPath;
    const found = this.directory.stat();
    if (found === undefined) return;
    if (found.type !== 'socket') throw unsafe(`${path} is a ${found.type}; nothing was replaced`);
    if (!this.#mayOwn(found.uid)) {
      throw unsafe(`${path} is a socket of uid ${found.uid}; nothing was replaced`);
    }
    if (this.#isHeld()) throw this.#inUse('a process holds its socket');
    // Only the owner of the directory, or root, could replace the file between
    // this check and the unlink.
    if (this.directory.stat()?.identity !== found.identity)
      throw this.#inUse('it was just replaced');
    this.#native.unlinkAt(this.directory.fd, this.directory.name);
  }

  #isHeld(): boolean {
    try {
      return this.directory.withEntry(({ path }) => this.#native.isSocketHeld(path));
    } catch (error) {
      const text = `${this.directory.socketPath} could not be tried`;
      throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause: error });
    }
  }

  #bind(): number {
    const native = this.#native;
    const { directory } = this;
    const { backlog } = this.#options;
    let fd: number;
    try {
      fd = native.bindSocket(directory.socketPath);
    } catch (cause) {
      if ((cause as { code?: string }).code === 'EADDRINUSE')
        throw this.#inUse('it was just taken');
      const text = `${directory.socketPath} could not be bound: ${errorText(cause)}`;
      throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
    }
    try {
      directory.withEntry((entry) => this.#adopt(entry));
      // Accepted sockets inherit it: no peer, let in or not, can leave us a descriptor whose close
      // blocks.
      native.refuseDescriptors(fd);
      native.listenOn(fd, backlog);
      return fd;
    } catch (error) {
      native.closeDescriptor(fd);
      if (this.isOurs) native.unlinkAt(directory.fd, directory.name);
      throw SidecallError.from(error);
    }
  }

  /** Gives the socket that was just made its group and mode. Any other file there is left alone. */
  #adopt({ status: made, held }: SocketEntry): void {
    const { directory } = this;
    const { mode, owner, gid } = this.#options;
    if (made?.type !== 'socket' || made.uid !== ownUid()) {
      throw unsafe(`${directory.path} was replaced while its socket was made`);
    }
    this.#identity = made.identity;
    const { native, fd, name } = directory;
    // User and group are set first: otherwise the former ones could connect in between.
    const newOwner = owner === made.uid ? undefined : owner;
    const newGroup = gid === made.gid ? undefined : gid;
    if (newOwner !== undefined || newGroup !== undefined) {
      try {
        native.changeOwnerAt(fd, name, held, newOwner ?? -1, newGroup ?? -1);
      } catch (cause) {
        throw notGiven(directory.path, newOwner, newGroup, cause);
      }
    }
    if (made.mode === mode) return;
    try {
      native.changeModeAt(fd, name, held, mode);
    } catch (cause) {
      const text = `${directory.socketPath} could not be given the mode ${mode.toString(8)}: ${errorText(cause)}; on Linux that needs /proc`;
      throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
    }
  }

  /** A socket that we have made: ours, or given to the `owner` of the options. */
  #mayOwn(uid: number): boolean {
    return uid === ownUid() || uid === this.#options.owner;
  }

  #inUse(why: string): SidecallError {
    return inUse(this.directory.socketPath, why);
  }
}

/** The error of a socket file that could not be given to another user or group. */
export function notGiven(
  path: string,
  owner: number | undefined,
  gid: number | undefined,
  cause: unknown,
): SidecallError {
  const to = [owner !== undefined && `uid ${owner}`, gid !== undefined && `gid ${gid}`];
  const text = `${path} could not be given to ${to.filter(Boolean).join(' and ')}: that needs root, or for a group membership of it`;
  return new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
}

/** The mode of a socket unless a wider one is asked for. */
export const standardMode = privateMode;
