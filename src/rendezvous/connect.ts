// SPDX-License-Identifier: MIT
// connect(): connects to a listener at a path, and identifies it before a byte is sent.
import { createConnection, type Socket } from 'node:net';
import type { NativeAddon } from '../addon/addon-api.ts';
import { nativeState } from '../addon/load-addon.ts';
import { SidecallError } from '../base/errors.ts';
import { ranges } from '../base/limits.ts';
import { checkInteger, checkKeys, checkSignal, checkText, nodeError } from '../base/misuse.ts';
import type { Peer } from '../base/peer.ts';
import { addonReason } from '../open/lane.ts';
import { establishOverDescriptor, establishOverStream } from '../open/open-session.ts';
import { checkIdentity, type Identity, pathPeer } from '../open/path-identity.ts';
import {
  checkSessionOptions,
  type SessionOptions,
  sessionOptionNames,
} from '../open/session-options.ts';
import { withDeadline } from '../open/time-limit.ts';
import type { Session } from '../rpc/session/session.ts';
import { checkModes, connectToPath, type ServerRules } from '../uds/connect-path.ts';
import { kernelPeer } from '../uds/peer-credentials.ts';
import { authorize, checkPolicy, type PeerPolicy } from '../uds/peer-policy.ts';
import { checkPlainSocket } from '../uds/plain-path.ts';
import { checkPathLength } from '../uds/socket-directory.ts';

/** Options of {@link connect}. */
export interface ConnectOptions extends SessionOptions {
  /** Path of the listener's socket; 107 bytes at most on Linux, 103 on macOS. */
  readonly path: string;
  /**
   * The process that must listen there, and the mode of the file. Default: a process of our own
   * effective uid, and a file that no other user can write. The kernel's word about the listener
   * counts, not the file.
   */
  readonly expect?: ServerRules | PeerPolicy | undefined;
  /** Milliseconds from the path to the open session. Default 5,000; 10 to 60,000. */
  readonly timeoutMs?: number | undefined;
  /** Gives up early; `connect` rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
  /** Accepts a directory that others own or can write. Then anyone there can swap the socket. */
  readonly unsafeDirectory?: boolean | undefined;
  /**
   * `kernel` (the default) needs the addon. `path-permissions` works without it: then only the
   * permissions of the path exclude an impostor, and `peer` has no ids.
   */
  readonly identity?: Identity | undefined;
}

const names = [
  ...sessionOptionNames,
  'path',
  'expect',
  'timeoutMs',
  'signal',
  'unsafeDirectory',
  'identity',
] as const satisfies readonly (keyof ConnectOptions)[];

/**
 * Connects to a {@link listen | listener} of another process. It does not connect again by itself.
 * @throws (as rejection) {SidecallError} `ERR_SIDECALL_NO_LISTENER`, `ERR_SIDECALL_PEER_DENIED`,
 * `ERR_SIDECALL_PATH_UNSAFE`, `ERR_SIDECALL_PATH_TOO_LONG`, `ERR_SIDECALL_HELLO_TIMEOUT`,
 * `ERR_SIDECALL_PEER_GONE` (often: its policy refused us), `ERR_SIDECALL_LIMIT_CONNECTIONS`,
 * `ERR_SIDECALL_VERSION_MISMATCH`, `ERR_SIDECALL_CREDENTIALS_UNAVAILABLE`,
 * `ERR_SIDECALL_ADDON_UNAVAILABLE`, `ERR_SIDECALL_SHM_UNAVAILABLE`, `ERR_SIDECALL_PROTOCOL`,
 * `ERR_SIDECALL_LIMIT_DESCRIPTORS`, `ERR_SIDECALL_SYSTEM`; `signal.reason`; `TypeError` or
 * `RangeError` for misuse.
 * @example
 * ```ts
 * import { connect, service, unary } from 'sidecall';
 *
 * const Clock = service('Clock', { now: unary<void, number>() });
 *
 * await using session = await connect({ path: '/run/user/1000/clock/socket' });
 * console.log(await session.client(Clock).now());
 * ```
 */
export async function connect(options: ConnectOptions): Promise<Session> {
  checkKeys('connect()', options, names);
  const path = checkText('path', options.path);
  if (path === undefined) {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'connect() needs a path');
  }
  const settings = checkSessionOptions(options, undefined);
  const timeoutMs = checkInteger('timeoutMs', options.timeoutMs, ranges.connectTimeoutMs);
  const { expect } = options;
  const identity = checkIdentity(options.identity);
  checkPolicy('expect', expect, ['modes']);
  if (typeof expect === 'object') checkModes((expect as ServerRules).modes);
  checkPathLength(path);
  checkSignal(options.signal);
  options.signal?.throwIfAborted();
  const { addon } = nativeState();
  return withDeadline(`connect("${path}")`, timeoutMs, options.signal, async (signal) => {
    if (addon === undefined || identity === 'path-permissions') {
      const peer = pathPeer('connect()', identity, expect, addonReason());
      checkPlainSocket(path, options.unsafeDirectory ?? false);
      const socket = await openStream(path, signal);
      await authorizeStream(socket, expect, peer, signal);
      return establishOverStream(socket, peer, { side: 'connecting' }, settings, signal);
    }
    const unsafeDirectory = options.unsafeDirectory ?? false;
    const fd = await connectToPath(addon, path, expect, { unsafeDirectory, signal });
    const peer = await authorizeDescriptor(addon, fd, expect, signal);
    const role = { side: 'connecting' } as const;
    return establishOverDescriptor(addon, fd, peer, role, settings, signal);
  });
}

/** Closes the descriptor where it throws. */
async function authorizeDescriptor(
  native: NativeAddon,
  fd: number,
  expect: PeerPolicy | undefined,
  signal: AbortSignal,
): Promise<Peer> {
  try {
    const known = kernelPeer(native, fd, 'listen');
    await authorize(expect, known, signal);
    return known.peer;
  } catch (error) {
    native.closeDescriptor(fd);
    throw error;
  }
}

async function authorizeStream(
  socket: Socket,
  expect: PeerPolicy | undefined,
  peer: Peer,
  signal: AbortSignal,
): Promise<void> {
  if (expect === undefined) return;
  try {
    await authorize(expect, { peer, isAlive: undefined }, signal);
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

function openStream(path: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const socket = createConnection({ path });
    const finish = (settle: () => void): void => {
      socket.off('connect', onConnect);
      signal.removeEventListener('abort', onAbort);
      settle();
    };
    const onConnect = (): void => finish(() => resolve(socket));
    // Stays on: an error while the policy decides must not be the end of the process.
    const onError = (cause: NodeJS.ErrnoException): void =>
      finish(() => reject(failed(path, cause)));
    const onAbort = (): void => {
      socket.destroy();
      finish(() => reject(signal.reason));
    };
    socket.on('connect', onConnect).on('error', onError);
    signal.addEventListener('abort', onAbort);
  });
}

function failed(path: string, cause: NodeJS.ErrnoException): SidecallError {
  const isNobody = cause.code === 'ENOENT' || cause.code === 'ECONNREFUSED';
  const code = isNobody ? 'ERR_SIDECALL_NO_LISTENER' : 'ERR_SIDECALL_SYSTEM';
  return new SidecallError(code, `${path}: ${cause.message}`, { cause });
}
