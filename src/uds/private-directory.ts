// SPDX-License-Identifier: MIT
// Directories for sockets that only this user can enter: a new one for each listener without a
// path, and one for all names of the user.
import { Buffer } from 'node:buffer';
import { chmodSync, lstatSync, mkdirSync, mkdtempSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { checkText, nodeError } from '../base/misuse.ts';
import { ownUid } from './peer-credentials.ts';
import { checkPathLength, socketPathMaxBytes, unsafe } from './socket-directory.ts';

/** The socket in a private directory. */
export const privateSocketName = 'socket';
const privatePrefix = 'sidecall-listener-';
/** Names that {@link makePrivateDirectory} gives. */
export const privateDirectoryName = /^sidecall-listener-[A-Za-z0-9]{6}$/;
const nameForm = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/;

/**
 * The path of a socket by its name: the same for each process of this user, in a directory that no
 * other user can enter. `listen()` and `connect()` take it as `path`. The directory is
 * `$XDG_RUNTIME_DIR/sidecall` where that variable names a directory of this user with mode 0700,
 * else `/tmp/sidecall-UID` (macOS: in the temporary directory of the user). It is made where it
 * is missing, and stays. Processes that see different values of `XDG_RUNTIME_DIR`, such as one of
 * cron, get different paths.
 * @param name 1 to 64 letters, digits, `_`, `-` and `.`; it does not begin with `-` or `.`.
 * @throws {TypeError} for another name. {SidecallError} `ERR_SIDECALL_PATH_UNSAFE` where the
 * directory belongs to another user or lets others in; `ERR_SIDECALL_PATH_TOO_LONG`;
 * `ERR_SIDECALL_SYSTEM` where it cannot be made.
 * @example
 * ```ts
 * import { connect, listen, socketPath } from 'sidecall';
 *
 * const listener = await listen({ path: socketPath('clock') });
 * const session = await connect({ path: socketPath('clock') });
 * await session.close();
 * await listener.close();
 * ```
 */
export function socketPath(name: string): string {
  const checked = checkText('name', name) ?? '';
  if (!nameForm.test(checked)) {
    const text = `name must be 1 to 64 letters, digits, '_', '-' and '.', and must not begin with '-' or '.', got '${name}'`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  const directory = userDirectory();
  const path = join(directory, `${checked}.sock`);
  checkPathLength(path);
  makeUserDirectory(directory);
  return path;
}

function userDirectory(): string {
  const runtime = privateRuntimeDirectory();
  return runtime === undefined ? commonDirectory() : join(runtime, 'sidecall');
}

/**
 * The directories in which a process of this user may have its sockets: by our own environment, by
 * that of the process, and the one of processes without `XDG_RUNTIME_DIR`.
 */
export function userDirectories(runtimeOfProcess: string | undefined): readonly string[] {
  const others = runtimeOfProcess === undefined ? [] : [join(runtimeOfProcess, 'sidecall')];
  return [...new Set([userDirectory(), ...others, commonDirectory()])];
}

function commonDirectory(): string {
  // Not by TMPDIR, which two processes of one user may see differently, except where the system
  // gives each user a directory in it.
  const base = process.platform === 'darwin' ? tmpdir() : '/tmp';
  return join(base, `sidecall-${ownUid()}`);
}

// Another user may make the directory first, since all can write to /tmp.
const remedy =
  '; another user may have made it first: set XDG_RUNTIME_DIR to a directory of your own with mode 0700 in all programs that meet there, or let root remove it';

/**
 * The remedy where a path cannot be trusted that lies in the directory of this user; undefined: it
 * lies elsewhere.
 */
export function remedyAt(path: string): string | undefined {
  return userDirectories(undefined).includes(dirname(path)) ? remedy : undefined;
}

function makeUserDirectory(directory: string): void {
  try {
    mkdirSync(directory, { mode: 0o700 });
    chmodSync(directory, 0o700); // with the bits that the umask took away
    return;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') {
      const text = `no directory could be made at ${directory}: ${errorText(cause)}`;
      throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
    }
  }
  const status = lstatSync(directory);
  if (!status.isDirectory()) throw unsafe(`${directory} is a link or no directory${remedy}`);
  if (status.uid !== ownUid()) {
    throw unsafe(`${directory} belongs to uid ${status.uid}, not to ${ownUid()}${remedy}`);
  }
  if ((status.mode & 0o077) !== 0) {
    const octal = (status.mode & 0o7777).toString(8).padStart(4, '0');
    throw unsafe(`${directory} has mode ${octal}, so others can enter it; "chmod 700" mends that`);
  }
}

/**
 * A new directory that only we can enter: under `$XDG_RUNTIME_DIR` where that is ours and closed to
 * others, else under the temporary directory, else in `/tmp`: the first where it can be made. Its
 * socket path always fits.
 */
export function makePrivateDirectory(): string {
  const candidates = [...new Set([privateRuntimeDirectory(), resolve(tmpdir()), '/tmp'])];
  const fits = (base: string | undefined): base is string =>
    base !== undefined &&
    Buffer.byteLength(join(base, `${privatePrefix}XXXXXX`, privateSocketName)) <=
      socketPathMaxBytes;
  const tried: string[] = [];
  let cause: unknown;
  for (const base of candidates.filter(fits)) {
    try {
      const directory = mkdtempSync(join(base, privatePrefix));
      chmodSync(directory, 0o700); // with the bits that the umask took away
      return directory;
    } catch (error) {
      cause ??= error;
      tried.push(base); // missing, or read-only: the next one may be another
    }
  }
  const text = `no directory could be made in ${tried.join(' or ')}: ${errorText(cause)}`;
  throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
}

/**
 * Removes the directory of {@link makePrivateDirectory}. Does nothing where it
 * is not empty, or has gone.
 */
export function removePrivateDirectory(directory: string): void {
  // A listener that failed may have left its lock.
  for (const file of [privateSocketName, `${privateSocketName}.lock`]) {
    rmSync(join(directory, file), { force: true });
  }
  try {
    rmdirSync(directory);
  } catch {
    // a file of another process there is left alone
  }
}

function privateRuntimeDirectory(): string | undefined {
  const directory = process.env.XDG_RUNTIME_DIR;
  if (directory === undefined || !directory.startsWith('/')) return undefined;
  try {
    const { uid, mode } = statSync(directory);
    return uid === ownUid() && (mode & 0o077) === 0 ? directory : undefined;
  } catch {
    return undefined;
  }
}
