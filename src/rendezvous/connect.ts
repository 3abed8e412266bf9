// SPDX-License-Identifier: MIT
// connect(): connects to a listener at a path, and identifies it before a byte is sent.

import { createConnection, type Socket } from 'node:net';
import type { NativeAddon } from '../addon/addon-api.ts';
import { nativeState } from '../addon/load-addon.ts';
import { SidecallError } from '../base/errors.ts';
import type { OnEvent } from '../base/events.ts';
import { ranges } from '../base/limits/option-limits.ts';
import {
  checkBoolean,
  checkInteger,
  checkKeys,
  checkSignal,
  checkText,
  nodeError,
  pathAlone,
} from '../base/misuse.ts';
import type { Peer } from '../base/peer.ts';
import { addonReason } from '../open/lane.ts';
import { monitorSums } from '../open/monitor.ts';
import { establishOverDescriptor, establishOverStream, type Role } from '../open/open-session.ts';
import { checkIdentity, type Identity, pathPeer } from '../open/path-identity.ts';
import {
  checkSessionOptions,
  type SessionOptions,
  type SessionSettings,
  sessionOptionNames,
} from '../open/session-options.ts';
import { withDeadline } from '../open/time-limit.ts';
import { held } from '../rpc/serving/hold-door.ts';
import { Registry } from '../rpc/serving/registry.ts';
import type { Session } from '../rpc/session/session.ts';
import { checkModes, checkOwner, connectToPath, type ServerRules } from '../uds/connect-path.ts';
import { plainSocket } from '../uds/net-socket.ts';
import { kernelPeer } from '../uds/peer-credentials.ts';
import { authorize, checkPolicy, type PeerPolicy } from '../uds/peer-policy.ts';
import { checkPlainSocket } from '../uds/plain-path.ts';
import { absolutePath, checkPathLength } from '../uds/socket-directory.ts';
import { Connection } from './connection.ts';
import { openInspectionOnce } from './inspection-listener.ts';
import type { PlainConnection } from './plain-listener.ts';
import {
  checkReconnect,
  type ReconnectOptions,
  type ReconnectSettings,
} from './reconnect-options.ts';
import { Reconnector } from './reconnector.ts';

/** Options of every {@link connect}, of each protocol. */
export interface ConnectBaseOptions {
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

/** Options of {@link connect}. */
export interface ConnectOptions extends SessionOptions, ConnectBaseOptions {
  readonly protocol?: 'sidecall' | undefined;
  /** Default: the session ends with its listener. See {@link ReconnectingOptions}. */
  readonly reconnect?: false | undefined;
}

/** Options of {@link connect} that make it return a {@link Connection}. */
export interface ReconnectingOptions extends Omit<ConnectOptions, 'reconnect'> {
  /**
   * Connect again when the session is lost, each time authenticated as the first: `true` for the
   * defaults of {@link ReconnectOptions}. Not with `idleTimeoutMs`, whose close it would undo.
   */
  readonly reconnect: true | ReconnectOptions;
}

/** Options of {@link connect} to a program that speaks something else. */
export interface PlainConnectOptions extends ConnectBaseOptions {
  /** No hello, no frames: once the policy accepts who listens, a `net.Socket` with a `peer`. */
  readonly protocol: 'plain';
}

/** @internal The options of a connection without a protocol, for adapters that make one. */
export const plainConnectNames = [
  'path',
  'expect',
  'timeoutMs',
  'signal',
  'unsafeDirectory',
  'identity',
  'protocol',
] as const satisfies readonly (keyof ConnectBaseOptions | 'protocol')[];

/**
 * Connects to a {@link listen | listener} of another process. With `reconnect` the result is a
 * {@link Connection}, which outlives its sessions; the first one must be opened at once. With
 * `protocol: 'plain'` who listens is checked in the same way, and the connection speaks a protocol
 * of its own: the result is a `net.Socket` with a `peer`, of which nothing was read.
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
export function connect(options: PlainConnectOptions): Promise<PlainConnection>;
export function connect(options: ReconnectingOptions): Promise<Connection>;
export function connect(options: ConnectOptions): Promise<Session>;
export async function connect(
  options: ConnectOptions | ReconnectingOptions | PlainConnectOptions,
): Promise<Session | Connection | PlainConnection> {
  if (typeof options === 'string') throw pathAlone('connect', options);
  if (options?.protocol === 'plain') {
    checkKeys("connect() with protocol 'plain'", options, plainConnectNames);
    const open = opener(options, {
      overDescriptor: async (native, fd, peer) => Object.assign(plainSocket(native, fd), { peer }),
      overStream: async (socket, peer) => Object.assign(socket, { peer }),
    });
    return open(options.signal);
  }
  checkKeys('connect()', options, [...sessionOptionNames, ...plainConnectNames, 'reconnect']);
  checkProtocol(options.protocol);
  const { reconnect } = options;
  const { services } = options;
  if (reconnect !== undefined && reconnect !== false) {
    return held(services, await reconnecting(options, reconnect));
  }
  const open = sessionOpener(options, undefined);
  const session = await open(options.signal);
  monitorSums(open.settings.monitor, open.settings.sums, session.closed);
  return held(services, session);
}

/** Connects for the first time, and from then on whenever the session is lost. */
async function reconnecting(
  options: ConnectBaseOptions & SessionOptions,
  given: true | ReconnectOptions,
): Promise<Connection> {
  const reconnect = checkReconnect(given);
  if (options.idleTimeoutMs !== undefined) {
    const text = 'connect(): idleTimeoutMs and reconnect exclude each other';
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  const registry = new Registry();
  const open = sessionOpener(options, registry);
  const { path, onEvent, signal } = options;
  const { settings } = open;
  return connectionBy(open, { path, onEvent, reconnect, registry, settings }, signal);
}

/** Opens a session, its peer authenticated. `isWanted`: as of `ReconnectorParts.connect`. */
export type OpenSession = (signal: AbortSignal | undefined, isWanted?: boolean) => Promise<Session>;

/** An opener whose sessions have these settings. */
export type SessionOpener = OpenSession & { readonly settings: SessionSettings };

/** A connection whose sessions `open` opens; the first one at once. */
export async function connectionBy(
  open: OpenSession,
  parts: {
    readonly path: string;
    readonly onEvent: OnEvent | undefined;
    readonly reconnect: ReconnectSettings;
    readonly registry: Registry;
    readonly isOnDemand?: boolean | undefined;
    readonly tryMaxMs?: number | undefined;
    readonly settings: SessionSettings;
  },
  signal: AbortSignal | undefined,
): Promise<Connection> {
  const { registry, reconnect, settings, ...reconnecting } = parts;
  const first = await open(signal);
  const reconnector = new Reconnector({ ...reconnecting, connect: open }, reconnect, first);
  const connection = new Connection(reconnector, registry, settings.sums);
  monitorSums(settings.monitor, settings.sums, connection.closed);
  return connection;
}

/** Checks the options of a session; returns what opens one. */
export function sessionOpener(
  options: ConnectBaseOptions & SessionOptions,
  registry: Registry | undefined,
  role: Role = connecting,
): SessionOpener {
  openInspectionOnce();
  const isDefaultPolicy = options.expect === undefined;
  const settings = {
    ...checkSessionOptions(options, registry, ranges.pathRingBytes),
    isDefaultPolicy,
  };
  const open = opener<Session>(options, {
    overDescriptor: (native, fd, peer, signal) =>
      establishOverDescriptor(native, fd, peer, role, settings, signal),
    overStream: (socket, peer, signal) => establishOverStream(socket, peer, role, settings, signal),
  });
  return Object.assign(open, { settings });
}

const connecting: Role = { side: 'connecting' };

/** The role of a process that may take the path over: a full listener has room for it. */
export const takingOver: Role = { side: 'connecting', takesOver: true };

/** The next step for a connection whose listener the policy has accepted. */
interface Reached<C> {
  /** Owns the descriptor from here on, also where it throws. */
  overDescriptor(native: NativeAddon, fd: number, peer: Peer, signal: AbortSignal): Promise<C>;
  /** The same without the addon. */
  overStream(socket: Socket, peer: Peer, signal: AbortSignal): Promise<C>;
}

/** Checks the options; returns what connects, as often as it is called. */
export function opener<C>(
  options: ConnectBaseOptions,
  reached: Reached<C>,
): (signal: AbortSignal | undefined) => Promise<C> {
  const given = checkText('path', options.path);
  if (given === undefined) {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'connect() needs a path');
  }
  // Once: a later chdir() must not lead a reconnecting client to another program's listener.
  const path = absolutePath(given);
  const timeoutMs = checkInteger('timeoutMs', options.timeoutMs, ranges.connectTimeoutMs);
  const { expect } = options;
  const unsafeDirectory = checkBoolean('unsafeDirectory', options.unsafeDirectory);
  const identity = checkIdentity(options.identity);
  checkPolicy('expect', expect, ['modes', 'owner']);
  if (typeof expect === 'object') {
    checkModes((expect as ServerRules).modes);
    checkOwner((expect as ServerRules).owner);
  }
  checkPathLength(path);
  checkSignal(options.signal);
  const attempt = async (signal: AbortSignal): Promise<C> => {
    const { addon } = nativeState();
    if (addon === undefined || identity === 'path-permissions') {
      const peer = pathPeer('connect()', identity, expect, addonReason());
      checkPlainSocket(path, unsafeDirectory);
      const socket = await openStream(path, signal);
      await authorizeStream(socket, expect, peer, signal);
      return reached.overStream(socket, peer, signal);
    }
    const fd = await connectToPath(addon, path, expect, { unsafeDirectory, signal, timeoutMs });
    const peer = await authorizeDescriptor(addon, fd, expect, signal);
    return reached.overDescriptor(addon, fd, peer, signal);
  };
  return async (signal) => {
    signal?.throwIfAborted();
    return withDeadline(`connect("${path}")`, timeoutMs, signal, attempt);
  };
}

function checkProtocol(protocol: unknown): void {
  if (protocol === undefined || protocol === 'sidecall') return;
  const text = `protocol must be sidecall or plain, got '${String(protocol)}'`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
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
