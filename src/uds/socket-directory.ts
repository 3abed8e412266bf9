// SPDX-License-Identifier: MIT
// The directory of a socket: opened without following a link, checked, and used by its descriptor.
import { Buffer } from 'node:buffer';
import { existsSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import type { NativeAddon, NativeFileStatus } from '../addon/addon-api.ts';
import { SidecallError } from '../base/errors.ts';
import { unmappedUid } from './peer-credentials.ts';

const groupOrOthersWrite = 0o022;

/**
 * Bytes of a socket path: 107 on Linux, 103 on macOS. Longer ones are cut silently by older Nodes.
 */
export const socketPathMaxBytes = process.platform === 'darwin' ? 103 : 107;

/** @throws {SidecallError} `ERR_SIDECALL_SYSTEM` where a relative path has nothing to begin at. */
export function absolutePath(path: string): string {
  try {
    return resolve(path);
  } catch (cause) {
    const text = `${path} is a relative path, and the working directory of this process was removed`;
    throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
  }
}

/** @throws {SidecallError} `ERR_SIDECALL_PATH_TOO_LONG` with the path, its bytes and the limit. */
export function checkPathLength(path: string): void {
  const bytes = Buffer.byteLength(path);
  if (bytes <= socketPathMaxBytes) return;
  const text = `the socket path has ${bytes} bytes, the limit is ${socketPathMaxBytes} ("${path}"): shorten it, or leave path out`;
  throw new SidecallError('ERR_SIDECALL_PATH_TOO_LONG', text);
}

/** A socket's entry in its directory. */
export interface SocketEntry {
  /** undefined: there is none. */
  readonly status: NativeFileStatus | undefined;
  /** Its descriptor, or -1. */
  readonly held: number;
  /** A path that leads to it, however long its name. */
  readonly path: string;
}

/** The users whose directories are used. */
export interface Trust {
  readonly owners: readonly number[];
  /** True: the directory is not checked. */
  readonly unsafeDirectory: boolean;
  /** The way to trust another user, for the text of the error. */
  readonly advice?: string | undefined;
}

/** A directory held open: names in it are looked up relative to it, so it cannot be swapped. */
export class SocketDirectory {
  readonly native: NativeAddon;
  readonly path: string;
  /** Last component of the socket's path. */
  readonly name: string;
  readonly fd: number;
  readonly #trust: Trust;

  /**
   * Opens the directory of a socket path.
   * @throws {SidecallError} `ERR_SIDECALL_PATH_TOO_LONG`, `ERR_SIDECALL_PATH_UNSAFE`, or
   * `ERR_SIDECALL_SYSTEM` where there is none.
   */
  constructor(native: NativeAddon, socketPath: string, trust: Trust) {
    const absolute = absolutePath(socketPath);
    checkPathLength(absolute);
    this.native = native;
    this.#trust = trust;
    this.path = dirname(absolute);
    this.name = basename(absolute);
    try {
      this.fd = native.openDirectory(this.path);
    } catch (cause) {
      throw cannotOpen(this.path, cause);
    }
    try {
      if (!trust.unsafeDirectory) checkDirectory(this.path, native.statDescriptor(this.fd), trust);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  get socketPath(): string {
    return join(this.path, this.name);
  }

  /**
   * Looks at the entry and works on it, held so that no other can be put in its place (Linux with
   * `/proc`; elsewhere by its name).
   * @throws what `work` throws, and the system's error where there is no entry.
   */
  withEntry<T>(work: (entry: SocketEntry) => T): T {
    const { native, fd, name } = this;
    const held = native.holdEntry(fd, name);
    try {
      const status = held >= 0 ? native.statDescriptor(held) : this.stat();
      const isLinked = held >= 0 && hasLinks();
      const path = isLinked ? `/proc/self/fd/${held}` : this.socketPath;
      return work({ status, held: isLinked ? held : -1, path });
    } finally {
      if (held >= 0) native.closeDescriptor(held);
    }
  }

  /** True: the directory at the path is this one. False: it was removed, moved or replaced. */
  get isCurrent(): boolean {
    try {
      const { dev, ino } = statSync(this.path, { bigint: true });
      return this.native.statDescriptor(this.fd).identity === `${dev}:${ino}`;
    } catch {
      return false;
    }
  }

  /** Opens the directory that is at the path now. @throws {SidecallError} as the constructor. */
  reopen(): SocketDirectory {
    return new SocketDirectory(this.native, this.socketPath, this.#trust);
  }

  stat(name = this.name): NativeFileStatus | undefined {
    return this.native.statAt(this.fd, name);
  }

  close(): void {
    this.native.closeDescriptor(this.fd);
  }
}

let links: boolean | undefined;

/** True: descriptors have links in `/proc`. Without them, an entry is reached by its name. */
function hasLinks(): boolean {
  links ??= existsSync('/proc/self/fd');
  return links;
}

function checkDirectory(
  path: string,
  { uid, mode }: NativeFileStatus,
  { owners, advice = '' }: Trust,
): void {
  const octal = mode.toString(8).padStart(4, '0');
  if (!owners.includes(uid)) {
    const why =
      uid === unmappedUid
        ? 'which stands for all users of other user namespaces (containers)'
        : `not to ${owners.join(' or ')}${advice}`;
    throw unsafe(`${path} belongs to uid ${uid}, ${why}`);
  }
  if ((mode & groupOrOthersWrite) !== 0) {
    throw unsafe(
      `${path} has mode ${octal}, so others could replace the socket in it; use a directory of mode 0700 or 0755 (socketPath(name) has one), or say unsafeDirectory: true`,
    );
  }
}

function cannotOpen(path: string, cause: unknown): SidecallError {
  const { code } = cause as { code?: string };
  if (code === 'ELOOP' || code === 'ENOTDIR') {
    return new SidecallError('ERR_SIDECALL_PATH_UNSAFE', `${path} is a link or no directory`, {
      cause,
    });
  }
  if (code === 'ENOENT') {
    return new SidecallError('ERR_SIDECALL_SYSTEM', `there is no directory ${path}`, {
      cause,
    });
  }
  if (code === 'EMFILE' || code === 'ENFILE') {
    return new SidecallError('ERR_SIDECALL_LIMIT_DESCRIPTORS', undefined, { cause });
  }
  return new SidecallError('ERR_SIDECALL_SYSTEM', `${path} could not be opened`, { cause });
}

/** The error of a path that cannot be trusted. */
export function unsafe(text: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_PATH_UNSAFE', text);
}
