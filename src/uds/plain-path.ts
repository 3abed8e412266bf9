// SPDX-License-Identifier: MIT
// A path without the addon: Node binds, and the permissions of directory and file are all there is.
// They are checked by name, so a process that may write the directory can still win a race; hence
// the directory rule.
import {
  chmodSync,
  chownSync,
  linkSync,
  lstatSync,
  renameSync,
  type Stats,
  unlinkSync,
} from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { atExit } from '../base/at-exit.ts';
import { SidecallError } from '../base/errors.ts';
import { BindLock } from './bind-lock.ts';
import { ownUid } from './peer-credentials.ts';
import { isAnswered, listenAt } from './plain-socket.ts';
import { unsafe } from './socket-directory.ts';
import { type BindOptions, notGiven } from './socket-file.ts';

/** The receiver of the events of a path. */
export interface PlainOwner {
  onStream(socket: Socket): void;
  onDescriptorsExhausted(cause: unknown): void;
}

/** A listening path; `close` removes the socket. */
export interface PlainServer {
  readonly server: Server;
  close(): void;
}

/**
 * Listens. A stale socket of ours is replaced, anything else is left alone.
 * @throws {SidecallError} `ERR_SIDECALL_PATH_IN_USE`, `ERR_SIDECALL_PATH_UNSAFE`,
 * `ERR_SIDECALL_SYSTEM`.
 */
export async function listenAtPlainPath(
  path: string,
  options: {
    readonly mode: number;
    readonly owner: number | undefined;
    readonly gid: number | undefined;
    readonly backlog: number;
    readonly unsafeDirectory: boolean;
  },
  owner: PlainOwner,
): Promise<PlainServer> {
  if (!options.unsafeDirectory) checkPlainDirectory(path, [ownUid(), 0]);
  const server = createServer({ pauseOnConnect: true }, (socket) => owner.onStream(socket));
  let identity: Identity;
  try {
    identity = await makeAt(server, path, options);
  } catch (error) {
    server.close();
    throw error;
  }
  server.on('error', (cause) => owner.onDescriptorsExhausted(cause));
  const remove = (): void => {
    if (isSame(statOf(path), identity)) unlinkSync(path); // never a successor's
  };
  const forget = atExit(remove);
  // While it listens, its path is not taken: what is removed is ours.
  const close = (): void => {
    forget();
    remove();
    server.close();
  };
  return { server, close };
}

/**
 * The identity of a socket file, with the time at which it was bound: a file system may use the
 * number of an inode again at once.
 */
type Identity = Pick<Stats, 'dev' | 'ino' | 'mtimeMs'>;

function isSame(found: Stats | undefined, { dev, ino, mtimeMs }: Identity): boolean {
  return found?.dev === dev && found.ino === ino && found.mtimeMs === mtimeMs;
}

const startMaxMs = 5_000;

/**
 * Listens in a directory that only we can enter; once group and mode are final the socket gets its
 * path. So no process connects before, and of several starters one has the path at the end.
 */
async function makeAt(server: Server, path: string, options: BindOptions): Promise<Identity> {
  try {
    const place = await BindLock.take(dirname(path), startMaxMs, () => isAnswered(path));
    try {
      await removeStale(path, options.owner);
      await listenAt(server, { path: place.socketPath, backlog: options.backlog });
      const made = place.socketFile;
      give(made, options);
      chmodSync(made, options.mode);
      const identity = lstatSync(made);
      placeAt(made, path);
      return identity;
    } finally {
      place.release();
    }
  } catch (cause) {
    throw SidecallError.from(cause);
  }
}

/** A second name of the socket, where there is none; the first goes with its directory. */
function placeAt(made: string, path: string): void {
  try {
    linkSync(made, path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') throw inUse(path, 'it was just taken');
    // A file system without second names. No other starter of ours is there at this moment.
    if (statOf(path) !== undefined) throw inUse(path, 'it was just taken');
    renameSync(made, path);
  }
}

/**
 * @throws {SidecallError} `ERR_SIDECALL_PATH_UNSAFE` for a directory or socket that others could
 * have made.
 */
export function checkPlainSocket(path: string, unsafeDirectory: boolean): void {
  if (!unsafeDirectory) checkPlainDirectory(path, [ownUid(), 0]);
  const file = statOf(path);
  if (file === undefined) return; // there is no listener: connecting will say so
  if (!file.isSocket()) throw unsafe(`${path} is not a socket`);
  if (file.uid !== ownUid() || (file.mode & 0o022) !== 0) {
    throw unsafe(`${path} belongs to uid ${file.uid} and has mode ${octal(file)}: not ours alone`);
  }
}

function checkPlainDirectory(path: string, owners: readonly number[]): void {
  const directory = dirname(path);
  const status = statOf(directory);
  if (status === undefined) {
    throw new SidecallError('ERR_SIDECALL_NO_LISTENER', `there is no directory ${directory}`);
  }
  if (!status.isDirectory()) throw unsafe(`${directory} is a link or no directory`);
  if (owners.includes(status.uid) && (status.mode & 0o022) === 0) return;
  throw unsafe(
    `${directory} belongs to uid ${status.uid} and has mode ${octal(status)}; use one that only you can write, or say unsafeDirectory: true`,
  );
}

/** Sets user and group of the socket, as the options say. */
function give(made: string, { owner, gid }: BindOptions): void {
  if (owner === undefined && gid === undefined) return;
  try {
    chownSync(made, owner ?? ownUid(), gid ?? lstatSync(made).gid);
  } catch (cause) {
    throw notGiven(made, owner, gid, cause);
  }
}

async function removeStale(path: string, owner: number | undefined): Promise<void> {
  const found = statOf(path);
  if (found === undefined) return;
  if (!found.isSocket() || (found.uid !== ownUid() && found.uid !== owner)) {
    throw unsafe(`${path} is not a socket of ours; nothing was replaced`);
  }
  if (await isAnswered(path)) throw inUse(path, 'it accepts connections');
  if (!isSame(statOf(path), found)) throw inUse(path, 'it was just replaced');
  unlinkSync(path);
}

function inUse(path: string, why: string): SidecallError {
  const text = `${path} belongs to a live listener: ${why}`;
  return new SidecallError('ERR_SIDECALL_PATH_IN_USE', text);
}

function statOf(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

function octal({ mode }: Stats): string {
  return (mode & 0o7777).toString(8).padStart(4, '0');
}
