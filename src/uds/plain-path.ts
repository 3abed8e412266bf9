// SPDX-License-Identifier: MIT
// A path without the addon: Node binds, and the permissions of directory and file are all there is. They
// are checked by name, so whoever may write the directory can still win a race; hence the directory rule.
import {
  chmodSync,
  chownSync,
  linkSync,
  lstatSync,
  mkdtempSync,
  renameSync,
  rmdirSync,
  type Stats,
  unlinkSync,
} from 'node:fs';
import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { SidecallError } from '../errors.ts';
import { checkPathLength, unsafe } from './directory.ts';
import { atExit } from './exit-cleanup.ts';
import { ownUid } from './peer.ts';

/** Who hears of what happens at the path. */
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
 * @throws {SidecallError} `PATH_IN_USE`, `PATH_UNSAFE`, `SYSTEM`.
 */
export async function listenAtPlainPath(
  path: string,
  options: {
    readonly mode: number;
    readonly gid: number | undefined;
    readonly backlog: number;
    readonly unsafeDirectory: boolean;
  },
  owner: PlainOwner,
): Promise<PlainServer> {
  if (!options.unsafeDirectory) checkPlainDirectory(path, [ownUid(), 0]);
  await clearStale(path);
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
  const close = (): void => {
    forget();
    server.close();
    remove();
  };
  return { server, close };
}

/** With the instant at which it was bound: a file system may use the number of an inode again at once. */
type Identity = Pick<Stats, 'dev' | 'ino' | 'mtimeMs'>;

function isSame(found: Stats | undefined, { dev, ino, mtimeMs }: Identity): boolean {
  return found?.dev === dev && found.ino === ino && found.mtimeMs === mtimeMs;
}

const privatePrefix = '.s';
const socketName = 's';
const roundsMax = 16;

/**
 * Listens in a directory that only we can enter; once group and mode are final the socket gets its path, where that is
 * free. So nobody connects before, and nobody who listens is displaced.
 */
async function makeAt(
  server: Server,
  path: string,
  options: { readonly mode: number; readonly gid: number | undefined; readonly backlog: number },
): Promise<Identity> {
  checkPathLength(join(dirname(path), `${privatePrefix}XXXXXX`, socketName));
  const directory = mkdtempSync(join(dirname(path), privatePrefix));
  const made = join(directory, socketName);
  try {
    await listenAt(server, made, options.backlog);
    if (options.gid !== undefined) chownSync(made, ownUid(), options.gid);
    chmodSync(made, options.mode);
    const identity = lstatSync(made);
    for (let round = 0; !isPlaced(made, path); round += 1) {
      if (round === roundsMax) throw inUse(path, 'it changes hands without pause');
      await clearStale(path);
    }
    return identity;
  } catch (cause) {
    throw SidecallError.from(cause);
  } finally {
    removeBoth(made, directory);
  }
}

function listenAt(server: Server, path: string, backlog: number): Promise<void> {
  return new Promise<void>((done, fail) => {
    const onError = (cause: NodeJS.ErrnoException): void => fail(cannotListen(path, cause));
    server.once('error', onError);
    server.listen({ path, backlog, exclusive: true }, () => {
      server.off('error', onError);
      done();
    });
  });
}

/** A second name of the socket; the first goes with its directory. False: something has that name. */
function isPlaced(made: string, path: string): boolean {
  try {
    linkSync(made, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** @throws {SidecallError} `PATH_UNSAFE` for a directory or socket that others could have made. */
export function checkPlainSocket(path: string, unsafeDirectory: boolean): void {
  if (!unsafeDirectory) checkPlainDirectory(path, [ownUid(), 0]);
  const file = statOf(path);
  if (file === undefined) return; // nobody listens: connecting will say so
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

async function clearStale(path: string): Promise<void> {
  const found = statOf(path);
  if (found === undefined) return;
  if (!found.isSocket() || found.uid !== ownUid()) {
    throw unsafe(`${path} is not a socket of ours; nothing was replaced`);
  }
  if (await isAnswered(path)) throw inUse(path, 'it accepts connections');
  if (isSame(statOf(path), found)) removeStale(path, found);
}

/** Taken aside first: should it be another one by now, it gets its name back. */
function removeStale(path: string, stale: Identity): void {
  const directory = mkdtempSync(join(dirname(path), privatePrefix));
  const aside = join(directory, socketName);
  try {
    renameSync(path, aside);
    if (isSame(statOf(aside), stale)) return;
    isPlaced(aside, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error; // somebody was faster
    return;
  } finally {
    removeBoth(aside, directory);
  }
  throw inUse(path, 'it was just taken');
}

/**
 * Removes these two and nothing else: where others can write, something of ours may have been put in
 * the place of the directory.
 */
function removeBoth(socket: string, directory: string): void {
  for (const remove of [() => unlinkSync(socket), () => rmdirSync(directory)]) {
    try {
      remove();
    } catch {
      // it was never made, or has gone
    }
  }
}

function inUse(path: string, why: string): SidecallError {
  const words = `${path} belongs to a live listener: ${why}`;
  return new SidecallError('ERR_SIDECALL_PATH_IN_USE', words);
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ path });
    socket.on('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', (cause: NodeJS.ErrnoException) => resolve(cause.code !== 'ECONNREFUSED'));
  });
}

function statOf(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

function octal({ mode }: Stats): string {
  return (mode & 0o7777).toString(8).padStart(4, '0');
}

function cannotListen(path: string, cause: NodeJS.ErrnoException): SidecallError {
  const code = cause.code === 'EADDRINUSE' ? 'ERR_SIDECALL_PATH_IN_USE' : 'ERR_SIDECALL_SYSTEM';
  return new SidecallError(code, `${path}: ${cause.message}`, { cause });
}
