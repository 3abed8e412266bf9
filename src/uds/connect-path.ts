// SPDX-License-Identifier: MIT
// The connecting side of a path: checks the file, connects through the directory, retries a full
// backlog.

import type { NativeAddon, NativeFileStatus } from '../addon/addon-api.ts';
import { systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { checkMode, nodeError } from '../base/misuse.ts';
import { pause } from '../base/pause.ts';
import { systemRandom } from '../base/random.ts';
import { ownUid, unmappedUid } from './peer-credentials.ts';
import { checkIds, listOf, type PeerPolicy, type PeerRules } from './peer-policy.ts';
import { remedyAt } from './private-directory.ts';
import { SocketDirectory, unsafe } from './socket-directory.ts';

/** The demands of `connect()` on the file and on the process that listens. */
export interface ServerRules extends PeerRules {
  /**
   * User that owns the socket file, or several, where it is not the one that listens: as a daemon
   * of root gives it by `listen({ owner })`. Default: as `uid`.
   */
  readonly owner?: number | readonly number[] | undefined;
  /**
   * Exact permission bits that the socket file may have, as octal strings or numbers. Without a
   * list no user outside the rules may be able to write it.
   */
  readonly modes?: readonly (number | string)[] | undefined;
}

const advice = '; the rules of expect can name the user that listens there (uid, or --uid)';
const firstDelayMs = 1;
const lastDelayMs = 32;
/** Tries per millisecond of all connects of this thread that wait for room at one path. */
const triesPerMs = 4;
/** Longest random part of a pause, as a share of the deadline: each connect has several tries. */
const spreadShareMax = 0.1;
/** Connects of this thread that wait for room in the backlog of a path. */
const waiting = new Map<string, number>();

/** Conditions of one connect. */
export interface ConnectTerms {
  readonly unsafeDirectory: boolean;
  /** Ends the attempt, also when its time is over. */
  readonly signal: AbortSignal;
  /** Time of the attempt in milliseconds, from which pauses are derived. */
  readonly timeoutMs: number;
}

/**
 * A connected descriptor, owned by the addon. No byte has been sent or read.
 * @throws {SidecallError} `ERR_SIDECALL_PATH_TOO_LONG`, `ERR_SIDECALL_PATH_UNSAFE`,
 * `ERR_SIDECALL_NO_LISTENER`, `ERR_SIDECALL_LIMIT_DESCRIPTORS`, `ERR_SIDECALL_SYSTEM`, or the
 * signal's reason.
 */
export async function connectToPath(
  native: NativeAddon,
  path: string,
  expect: ServerRules | PeerPolicy | undefined,
  terms: ConnectTerms,
): Promise<number> {
  const rules = typeof expect === 'function' ? undefined : (expect ?? {});
  const uids = listOf(rules?.uid) ?? [ownUid()];
  const foreign = rules?.unmapped === true ? [unmappedUid] : [];
  const owners = [...new Set([ownUid(), 0, ...uids, ...foreign])];
  const { unsafeDirectory } = terms;
  // A function is no rules: they would take its place.
  const own = rules === undefined ? '' : advice;
  const trust = { owners, unsafeDirectory, advice: remedyAt(path) ?? own };
  const directory = openDirectory(native, path, trust);
  try {
    return await connectWithRetry(directory, rules, terms);
  } finally {
    directory.close();
  }
}

/** @throws {TypeError} where `owner` is no id, and no list of ids. */
export function checkOwner(owner: number | readonly number[] | undefined): void {
  checkIds('expect.owner', owner);
}

/** @throws {TypeError} where `modes` is no list, {@link RangeError} for a mode that is none. */
export function checkModes(modes: readonly (number | string)[] | undefined): void {
  if (modes === undefined) return;
  if (Array.isArray(modes)) return modes.forEach((mode) => void checkMode('expect.modes', mode));
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'expect.modes must be a list');
}

function checkSocketFile(
  path: string,
  file: NativeFileStatus,
  rules: ServerRules | undefined,
): void {
  if (file.type !== 'socket') throw unsafe(`${path} is a ${file.type}, not a socket`);
  if (rules === undefined) return; // the policy is a function, which decides by the peer
  const uids = listOf(rules.uid) ?? [ownUid()];
  const owners = listOf(rules.owner) ?? uids;
  const isUnmapped = rules.unmapped === true && file.uid === unmappedUid;
  // An owner that the caller has named counts alone.
  if (!owners.includes(file.uid) && !(isUnmapped && rules.owner === undefined)) {
    const rule = rules.owner === undefined ? 'uid' : 'owner';
    throw unsafe(`${path} has owner uid ${file.uid}; expect.${rule} is ${owners.join(' or ')}`);
  }
  const gids = listOf(rules.gid);
  if (gids !== undefined && !gids.includes(file.gid)) {
    throw unsafe(`${path} has gid ${file.gid}; expect.gid is ${gids.join(' or ')}`);
  }
  const octal = file.mode.toString(8).padStart(4, '0');
  const modes = rules.modes?.map((mode) => checkMode('expect.modes', mode));
  if (modes !== undefined) {
    if (modes.includes(file.mode)) return;
    const wanted = modes.map((mode) => mode.toString(8).padStart(4, '0')).join(' or ');
    throw unsafe(`${path} has mode ${octal}; expect.modes is ${wanted}`);
  }
  const named = [...(gids ?? []), ...(listOf(rules.groups) ?? [])];
  const isOpenToOthers = (file.mode & 0o002) !== 0;
  const isOpenToGroup = (file.mode & 0o020) !== 0 && !named.includes(file.gid);
  if (!isOpenToOthers && !isOpenToGroup) return;
  throw unsafe(
    `${path} has mode ${octal}, wider than the rules; allow it by expect.modes: ['${octal}']`,
  );
}

/** Opens the directory of the socket. One that does not exist is a path without a listener. */
function openDirectory(
  native: NativeAddon,
  path: string,
  trust: ConstructorParameters<typeof SocketDirectory>[2],
): SocketDirectory {
  try {
    return new SocketDirectory(native, path, trust);
  } catch (error) {
    const { cause } = error as { cause?: { code?: string } };
    throw cause?.code === 'ENOENT' ? noListener(path, error) : error;
  }
}

async function connectWithRetry(
  directory: SocketDirectory,
  rules: ServerRules | undefined,
  { signal, timeoutMs }: ConnectTerms,
): Promise<number> {
  let delayMs = firstDelayMs;
  for (;;) {
    signal.throwIfAborted();
    const fd = tryConnect(directory, rules);
    if (fd >= 0) return fd;
    // The backlog is full: the listener lives and is busy.
    await pauseAmongOthers(directory.socketPath, delayMs, spreadShareMax * timeoutMs, signal);
    delayMs = Math.min(lastDelayMs, 2 * delayMs);
  }
}

/**
 * Waits longer the more connects wait at the path, until a random moment, so that thousands of them
 * leave the processor to the listener and do not all come at once.
 */
async function pauseAmongOthers(
  path: string,
  delayMs: number,
  spreadMaxMs: number,
  signal: AbortSignal,
): Promise<void> {
  const count = (waiting.get(path) ?? 0) + 1;
  waiting.set(path, count);
  try {
    // Twice the mean of the random part, which is the number that wait over the tries.
    const spreadMs = Math.min(spreadMaxMs, (2 * count) / triesPerMs);
    await pause(systemClock, delayMs + systemRandom() * spreadMs, signal);
  } finally {
    const left = (waiting.get(path) as number) - 1;
    if (left > 0) waiting.set(path, left);
    else waiting.delete(path);
  }
}

/** The file that is checked is the one that is connected to. */
function tryConnect(directory: SocketDirectory, rules: ServerRules | undefined): number {
  try {
    return directory.withEntry(({ status, path }) => {
      if (status === undefined) throw noListener(directory.socketPath);
      checkSocketFile(directory.socketPath, status, rules);
      return directory.native.connectSocket(path);
    });
  } catch (cause) {
    if (SidecallError.is(cause)) throw cause;
    const { code } = cause as { code?: string };
    if (code === 'ECONNREFUSED' || code === 'ENOENT') throw noListener(directory.socketPath, cause);
    if (code === 'EMFILE' || code === 'ENFILE') {
      throw new SidecallError('ERR_SIDECALL_LIMIT_DESCRIPTORS', undefined, { cause });
    }
    const text = `${directory.socketPath} could not be connected to: ${(cause as Error).message}`;
    throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
  }
}

function noListener(path: string, cause?: unknown): SidecallError {
  return new SidecallError('ERR_SIDECALL_NO_LISTENER', `nobody listens at ${path}`, { cause });
}
