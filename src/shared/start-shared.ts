// SPDX-License-Identifier: MIT
// The start of a shared helper, by one program at a time.
import { Buffer } from 'node:buffer';
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, constants, fchmodSync, fstatSync, openSync, readSync } from 'node:fs';
import type { NativeAddon } from '../addon/addon-api.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import type { HelperExit } from '../helper/helper-errors.ts';
import { FileLock } from '../uds/file-lock.ts';
import { ownUid } from '../uds/peer-credentials.ts';
import { remedyAt } from '../uds/private-directory.ts';
import { SocketDirectory } from '../uds/socket-directory.ts';
import { boundLog } from './bounded-log.ts';
import type { SharedSettings } from './shared-options.ts';
import { type SharedOrder, sharedVariable } from './shared-service.ts';

/** Endings of the locks. */
const starting = '.start';
const preparing = '.ready';
const keptVariables = ['PATH', 'HOME', 'USER', 'LANG', 'TMPDIR', 'XDG_RUNTIME_DIR', 'TZ'];
/** Bytes of its standard error that an error repeats. */
const tailBytes = 2_048;

/**
 * Runs `work` while no other program starts a helper at the path. undefined: another one does, and
 * nothing was run.
 */
export function whileStarter<T>(
  native: NativeAddon,
  path: string,
  work: () => Promise<T>,
): Promise<T | undefined> {
  return whileLocked(native, path, starting, work);
}

/** The file that {@link whileStarter} locks. */
export function startLockOf(path: string): string {
  return `${path}${starting}`;
}

/** Runs `work`, in which a helper loads what it needs: programs that ask wait meanwhile. */
export async function whilePreparing(
  native: NativeAddon,
  path: string,
  work: () => Promise<void>,
): Promise<void> {
  const isRun = await whileLocked(native, path, preparing, async () => {
    await work();
    return true;
  });
  if (isRun === undefined) await work(); // another helper of this path prepares: it tells as much
}

/** True: a helper of the path loads what it needs. */
export async function isPreparing(native: NativeAddon, path: string): Promise<boolean> {
  return (await whileLocked(native, path, preparing, async () => true)) === undefined;
}

async function whileLocked<T>(
  native: NativeAddon,
  path: string,
  ending: string,
  work: () => Promise<T>,
): Promise<T | undefined> {
  const trust = { owners: [ownUid(), 0], unsafeDirectory: false, advice: remedyAt(path) };
  const directory = new SocketDirectory(native, path, trust);
  let lock: FileLock | undefined;
  try {
    lock = FileLock.take(directory, ending);
    return await work();
  } catch (error) {
    const isHeld = SidecallError.is(error) && error.code === 'ERR_SIDECALL_PATH_IN_USE';
    if (lock === undefined && isHeld) return undefined;
    throw error;
  } finally {
    lock?.remove();
    directory.close();
  }
}

/** A helper that was started, and may not listen yet. */
export interface StartedShared {
  readonly pid: number | undefined;
  readonly command: string;
  /** Its end, if it has ended; an `Error` where it never started. */
  readonly exit: HelperExit | Error | undefined;
  /** The end of its standard error. */
  tail(): string;
  /** Ends it at once, with what it has started. */
  kill(): void;
}

/**
 * Starts a helper that outlives this process: in a session of its own, in the root directory,
 * without our standard streams and our environment. Its standard error is a file beside the socket.
 */
export function startShared(settings: SharedSettings): StartedShared {
  const { path, name, key, version, command, args, idleTimeoutMs } = settings;
  const order: SharedOrder = { path, name, key, version, idleTimeoutMs };
  const kept = keptVariables.filter((variable) => process.env[variable] !== undefined);
  const env: NodeJS.ProcessEnv = {
    ...Object.fromEntries(kept.map((variable) => [variable, process.env[variable]])),
    ...settings.env,
    [sharedVariable]: JSON.stringify(order),
  };
  const logPath = logOf(path);
  const { O_WRONLY, O_CREAT, O_APPEND, O_NOFOLLOW, O_NONBLOCK } = constants;
  const log = openLog(logPath, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK);
  let child: ChildProcess;
  let logStart: number;
  try {
    boundLog(logPath, log);
    logStart = fstatSync(log).size; // a helper that goes on beside this one writes there, too
    const stdio = ['ignore', 'ignore', log] as const;
    child = spawn(command, args, { cwd: '/', env, detached: true, stdio: [...stdio] });
  } finally {
    closeSync(log);
  }
  let exit: HelperExit | Error | undefined;
  child.on('error', (error) => {
    exit ??= error;
  });
  child.once('exit', (code, signal) => {
    exit ??= { code, signal };
  });
  child.unref();
  return {
    pid: child.pid,
    command: [command, ...args].join(' '),
    get exit() {
      return exit;
    },
    tail: () => tailOf(logPath, logStart),
    kill: () => {
      try {
        // It leads a group of its own.
        if (child.pid !== undefined && exit === undefined) process.kill(-child.pid, 'SIGKILL');
      } catch {
        // It has ended meanwhile.
      }
    },
  };
}

/** @throws {SidecallError} `ERR_SIDECALL_SYSTEM` where it cannot be opened. */
function openLog(path: string, flags: number): number {
  try {
    const fd = openSync(path, flags, 0o600);
    const status = fstatSync(fd);
    if (!status.isFile()) {
      closeSync(fd);
      throw new Error('it is no regular file');
    }
    if (status.uid === ownUid()) fchmodSync(fd, 0o600); // with the bits that the umask took
    return fd;
  } catch (cause) {
    const text = `${path}, for the standard error of the shared helper, could not be opened: ${errorText(cause)}`;
    throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
  }
}

/** The file that has the standard error of a shared helper. */
export function logOf(path: string): string {
  return path.replace(/\.sock$/, '.log');
}

/** The last bytes of a file that may be long, behind `from` unless it was cut meanwhile. */
function tailOf(path: string, from: number): string {
  try {
    const fd = openSync(path, 'r');
    try {
      const { size } = fstatSync(fd);
      const start = Math.max(size < from ? 0 : from, size - tailBytes);
      const bytes = Buffer.alloc(tailBytes);
      return bytes.toString('utf8', 0, readSync(fd, bytes, 0, tailBytes, start)).trim();
    } finally {
      closeSync(fd);
    }
  } catch {
    return ''; // the error that it belongs to counts
  }
}
