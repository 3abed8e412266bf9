// SPDX-License-Identifier: MIT
// A path without the addon: Node binds, and the permissions of directory and file are all there is. They
// are checked by name, so whoever may write the directory can still win a race; hence the directory rule.
import { chmodSync, chownSync, lstatSync, type Stats, unlinkSync } from 'node:fs';
import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { SidecallError } from '../errors.ts';
import { unsafe } from './directory.ts';
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
  await new Promise<void>((done, fail) => {
    let isListening = false;
    server.on('error', (cause: NodeJS.ErrnoException) => {
      if (isListening) owner.onDescriptorsExhausted(cause);
      else fail(cannotListen(path, cause));
    });
    server.listen({ path, backlog: options.backlog, exclusive: true }, () => {
      isListening = true;
      done();
    });
  });
  const forget = atExit(() => unlinkSync(path));
  const close = (): void => {
    forget();
    server.close(); // libuv removes the file that it made
  };
  try {
    if (options.gid !== undefined) chownSync(path, ownUid(), options.gid);
    chmodSync(path, options.mode);
    return { server, close };
  } catch (cause) {
    close();
    throw SidecallError.from(cause);
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
  if (await isAnswered(path)) {
    const words = `${path} belongs to a live listener: it accepts connections`;
    throw new SidecallError('ERR_SIDECALL_PATH_IN_USE', words);
  }
  unlinkSync(path);
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
