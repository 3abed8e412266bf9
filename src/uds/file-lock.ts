// SPDX-License-Identifier: MIT
// A lock that the kernel gives up with its process: a file beside a socket, locked and checked.
import { readFileSync, statSync } from 'node:fs';
import type { NativeAddon } from '../addon/addon-api.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { ownUid } from './peer-credentials.ts';
import { type SocketDirectory, unsafe } from './socket-directory.ts';

const lockRounds = 16;

/** A lock that this process holds. */
export class FileLock {
  readonly #native: NativeAddon;
  readonly #directory: SocketDirectory;
  readonly #name: string;
  readonly #fd: number;

  private constructor(directory: SocketDirectory, name: string, fd: number) {
    this.#native = directory.native;
    this.#directory = directory;
    this.#name = name;
    this.#fd = fd;
  }

  /**
   * Takes a lock. Only its holder removes the lock file, so a process that gets the lock checks
   * that its file is still the one at the path.
   * @param ending of its name, behind that of the socket.
   * @throws {SidecallError} `ERR_SIDECALL_PATH_IN_USE` where another process holds it,
   * `ERR_SIDECALL_PATH_UNSAFE`, `ERR_SIDECALL_SYSTEM`.
   */
  static take(directory: SocketDirectory, ending = '.lock'): FileLock {
    const { native, socketPath } = directory;
    const name = `${directory.name}${ending}`;
    for (let round = 0; round < lockRounds; round += 1) {
      const fd = openLock(directory, name, ending);
      try {
        if (!isLocked(native, fd, `${socketPath}${ending}`)) {
          throw inUse(socketPath, 'its lock is held');
        }
        const opened = native.statDescriptor(fd);
        if (opened.type !== 'file' || opened.uid !== ownUid()) {
          throw unsafe(`${socketPath}${ending} is not a file of ours`);
        }
        if (directory.stat(name)?.identity === opened.identity) {
          native.removeAtEnd(directory.fd, name, 1);
          return new FileLock(directory, name, fd);
        }
      } catch (error) {
        native.closeDescriptor(fd);
        throw SidecallError.from(error);
      }
      native.closeDescriptor(fd); // its holder removed it meanwhile: try with the next one
    }
    throw inUse(socketPath, 'its lock changes hands without pause');
  }

  /** Gives the lock up, and removes its file. */
  remove(): void {
    try {
      this.#native.unlinkAt(this.#directory.fd, this.#name);
    } catch {
      // deleted by another process: nothing is lost, since locks are checked against the file
    }
    this.close();
  }

  /** Gives the lock up, and leaves its file to the process that takes it next. */
  close(): void {
    this.#native.removeAtEnd(this.#directory.fd, this.#name, 0);
    this.#native.closeDescriptor(this.#fd);
  }
}

/** The process that holds the lock of a file; undefined: none does, or the system does not say. */
export function lockHolder(file: string): number | undefined {
  try {
    const { ino } = statSync(file);
    // 1: FLOCK  ADVISORY  WRITE PID MAJOR:MINOR:INODE START END
    const row = new RegExp(`^\\d+: FLOCK .* (\\d+) [0-9a-f]+:[0-9a-f]+:${ino} `, 'm');
    const pid = Number(row.exec(readFileSync('/proc/locks', 'latin1'))?.[1] ?? 0);
    return pid > 0 ? pid : undefined;
  } catch {
    return undefined;
  }
}

/** The error of a path that another process has. */
export function inUse(socketPath: string, why: string): SidecallError {
  const text = `${socketPath} belongs to a live listener: ${why}`;
  return new SidecallError('ERR_SIDECALL_PATH_IN_USE', text);
}

/** @throws {SidecallError} `ERR_SIDECALL_SYSTEM` where the file system has no locks. */
function isLocked(native: NativeAddon, fd: number, file: string): boolean {
  try {
    return native.tryLock(fd);
  } catch (cause) {
    const text = `${file} could not be locked (${errorText(cause)}): a listener needs flock(), which this sandbox or file system refuses`;
    throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
  }
}

function openLock(directory: SocketDirectory, name: string, ending: string): number {
  try {
    return directory.native.openLockFile(directory.fd, name);
  } catch (cause) {
    const lock = `${directory.socketPath}${ending}`;
    if ((cause as { code?: string }).code === 'ELOOP') throw unsafe(`${lock} is a link`);
    const text = `${lock} could not be opened: ${errorText(cause)}`;
    throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
  }
}
