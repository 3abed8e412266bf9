// SPDX-License-Identifier: MIT
// listen(): sessions, or plain connections, with processes that connect to a path and pass the
// policy.

import { dirname, join } from 'node:path';
import { nativeState } from '../addon/load-addon.ts';
import type { OnEvent } from '../base/events.ts';
import { ranges } from '../base/limits/option-limits.ts';
import {
  checkBoolean,
  checkFunction,
  checkInteger,
  checkKeys,
  checkMode,
  checkText,
  nodeError,
  pathAlone,
} from '../base/misuse.ts';
import { addonReason } from '../open/lane.ts';
import { checkIdentity, type Identity, pathPeer } from '../open/path-identity.ts';
import {
  checkSessionOptions,
  type SessionOptions,
  sessionOptionNames,
} from '../open/session-options.ts';
import { held } from '../rpc/serving/hold-door.ts';
import { Registry, servedSetOf } from '../rpc/serving/registry.ts';
import { removeLeftBehindOnce } from '../uds/left-behind.ts';
import { checkPolicy, type PeerPolicy } from '../uds/peer-policy.ts';
import {
  makePrivateDirectory,
  privateSocketName,
  removePrivateDirectory,
} from '../uds/private-directory.ts';
import { checkPathLength } from '../uds/socket-directory.ts';
import { standardMode } from '../uds/socket-file.ts';
import type { HeldPath } from '../uds/watched-path.ts';
import type { AcceptorSettings } from './accepted-connection.ts';
import { openInspectionOnce } from './inspection-listener.ts';
import { Listener } from './listener.ts';
import { listenerBefore } from './listener-before.ts';
import { PlainListener } from './plain-listener.ts';
import { checkTakeOver, listenOrTakeOver, type TakeOverOptions } from './take-over.ts';

/** Options of every {@link listen}, of each protocol. */
export interface ListenBaseOptions {
  /** Path of the socket to make. Default: a private one, see {@link Listener.path}. */
  readonly path?: string | undefined;
  /** The processes whose connections become sessions. Default: those of our own effective uid. */
  readonly authorize?: PeerPolicy | undefined;
  /** Permission bits of the socket file: octal string or number. Default `'0600'`. */
  readonly mode?: number | string | undefined;
  /**
   * User that owns the socket file: a daemon of root gives its socket to the user that is to
   * connect, who then needs no wider `mode`. Needs root. Set, with mode and group, before the first
   * connection is possible. Default: ours.
   */
  readonly owner?: number | undefined;
  /**
   * Group of the socket file, for a `mode` that lets a group in. Default: the directory's or ours.
   */
  readonly gid?: number | undefined;
  /** Connections that the kernel keeps for us before we accept them. Default 511; 1 to 65,535. */
  readonly backlog?: number | undefined;
  /**
   * Milliseconds for look-up, policy and hello of one connection, without the time in which this
   * side makes and checks shared memory. Default 10,000; 10 to 60,000.
   */
  readonly helloTimeoutMs?: number | undefined;
  /** Connections between accept and session. Default 1,024; 1 to 16,384. */
  readonly hellosMax?: number | undefined;
  /**
   * Sessions in all. Default 4,096; 1 to 65,536. Above it: `ERR_SIDECALL_LIMIT_CONNECTIONS` at the
   * peer.
   */
  readonly sessionsMax?: number | undefined;
  /** Sessions of one uid. Default 1,280; 1 to 65,536. */
  readonly sessionsPerUidMax?: number | undefined;
  /**
   * Sessions of one process, where its pid is visible here. Default 1,024, so that a fifth of the
   * places of a uid is left for its other processes; or `sessionsPerUidMax` where that alone is
   * given. 1 to 65,536.
   */
  readonly sessionsPerProcessMax?: number | undefined;
  /** Leave the socket file behind at close. Default: it is removed. */
  readonly unlinkOnClose?: boolean | undefined;
  /** Accepts a directory that others own or can write. Then anyone there can swap the socket. */
  readonly unsafeDirectory?: boolean | undefined;
  /** As for `connect()`: `path-permissions` works without the addon, and identifies no peer. */
  readonly identity?: Identity | undefined;
  /** Called for events of connections. An error that it throws is rethrown in a task of its own. */
  readonly onEvent?: OnEvent | undefined;
}

/** Options of {@link listen}. */
export interface ListenOptions extends SessionOptions, ListenBaseOptions {
  readonly protocol?: 'sidecall' | undefined;
  /**
   * Be the successor of the process that listens at the path, as soon as that one calls
   * {@link Listener.handOver}; listen as usual where there is none. Needs the addon and a `path`.
   * Default: a path that is in use is an error.
   */
  readonly takeOver?: boolean | TakeOverOptions<Listener> | undefined;
}

/** Options of {@link listen} for connections that speak something else. */
export interface PlainListenOptions extends ListenBaseOptions {
  /** No hello, no frames: a peer that the policy accepts is a `net.Socket` with a `peer`. */
  readonly protocol: 'plain';
}

const counts = [
  'backlog',
  'helloTimeoutMs',
  'hellosMax',
  'sessionsMax',
  'sessionsPerUidMax',
] as const;
/** @internal The options of a listener without a protocol, for adapters that make one. */
export const plainListenNames = [
  ...counts,
  'sessionsPerProcessMax',
  'protocol',
  'onEvent',
  'path',
  'authorize',
  'mode',
  'owner',
  'gid',
  'unlinkOnClose',
  'unsafeDirectory',
  'identity',
] as const satisfies readonly (keyof ListenBaseOptions | 'protocol')[];

/**
 * Listens at a path. A live listener there is never displaced, a stale socket is replaced. With
 * `protocol: 'plain'` the same policy lets in connections that speak a protocol of their own.
 * @throws (as rejection) {SidecallError} `ERR_SIDECALL_PATH_IN_USE`, `ERR_SIDECALL_PATH_UNSAFE`,
 * `ERR_SIDECALL_PATH_TOO_LONG`, `ERR_SIDECALL_ADDON_UNAVAILABLE`, `ERR_SIDECALL_SHM_UNAVAILABLE`,
 * `ERR_SIDECALL_LIMIT_DESCRIPTORS`, `ERR_SIDECALL_SYSTEM` (no such directory, for one); `TypeError`
 * or `RangeError` for misuse.
 * @example
 * ```ts
 * import { listen, service, unary } from 'sidecall';
 *
 * const Clock = service('Clock', { now: unary<void, number>() });
 *
 * await using listener = await listen({ path: '/run/user/1000/clock/socket' });
 * listener.serve(Clock, { now: () => Date.now() });
 * await listener.closed;
 * ```
 */
export function listen(options: PlainListenOptions): Promise<PlainListener>;
export function listen(options?: ListenOptions): Promise<Listener>;
export async function listen(
  options: ListenOptions | PlainListenOptions = {},
): Promise<Listener | PlainListener> {
  if (typeof options === 'string') throw pathAlone('listen', options);
  if (options.protocol === 'plain') {
    checkKeys("listen() with protocol 'plain'", options, plainListenNames);
    return atPath(options, (settings) => PlainListener.open(settings));
  }
  checkKeys('listen()', options, [...sessionOptionNames, ...plainListenNames, 'takeOver']);
  const { protocol } = options;
  if (protocol !== undefined && protocol !== 'sidecall') {
    const text = `protocol must be sidecall or plain, got '${String(protocol)}'`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  openInspectionOnce();
  const registry = new Registry();
  const isDefaultPolicy = options.authorize === undefined;
  const common = checkSessionOptions(options, registry, ranges.pathRingBytes);
  const session = { ...common, isUntaken: true, isDefaultPolicy };
  const { services } = options;
  const open = async (received?: HeldPath): Promise<Listener> => {
    const listener = await atPath(options, (settings) =>
      Listener.open({ ...settings, session, registry }, received),
    );
    if (servedSetOf(services) !== undefined) listener.beginServing();
    return held(services, listener, { isListener: true });
  };
  const takeOver = checkTakeOver(options.takeOver);
  if (takeOver === undefined) return open();
  const { path, identity, unsafeDirectory = false } = options;
  checkDoor(options); // before another process is asked
  const { addon } = nativeState();
  if (path === undefined || addon === undefined || identity === 'path-permissions') {
    const text = "takeOver needs a path, the addon, and identity 'kernel'";
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  return listenOrTakeOver({
    path,
    before: listenerBefore(addon, path, takeOver.from, unsafeDirectory),
    settings: takeOver,
    open: (received) => open(received ?? {}),
  });
}

/** Makes a private directory where no path was given, and takes it away where `open` fails. */
export async function atPath<T>(
  options: ListenBaseOptions,
  open: (settings: AcceptorSettings) => Promise<T>,
): Promise<T> {
  const settings = checkDoor(options);
  const given = checkText('path', options.path);
  if (given !== undefined) checkPathLength(given);
  const privateDirectory = given === undefined ? makePrivateDirectory() : undefined;
  const path = given ?? join(privateDirectory as string, privateSocketName);
  try {
    const opened = await open({ ...settings, path, privateDirectory });
    if (privateDirectory !== undefined && settings.native !== undefined) {
      void removeLeftBehindOnce(settings.native, dirname(privateDirectory));
    }
    return opened;
  } catch (error) {
    if (privateDirectory !== undefined) removePrivateDirectory(privateDirectory);
    throw error;
  }
}

function checkDoor(
  options: ListenBaseOptions,
): Omit<AcceptorSettings, 'path' | 'privateDirectory'> {
  const { authorize, owner, gid, onEvent } = options;
  const identity = checkIdentity(options.identity);
  checkPolicy('authorize', authorize);
  checkId('owner', 'user', owner);
  checkId('gid', 'group', gid);
  checkFunction('onEvent', onEvent);
  const number = (name: (typeof counts)[number]): number =>
    checkInteger(name, options[name], ranges[name]);
  if (identity === 'path-permissions' && options.unlinkOnClose === false) {
    const text = "unlinkOnClose: false needs identity 'kernel'";
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  const { addon } = nativeState();
  const isByPath = addon === undefined || identity === 'path-permissions';
  return {
    onEvent,
    authorize,
    helloTimeoutMs: number('helloTimeoutMs'),
    hellosMax: number('hellosMax'),
    sessionsMax: number('sessionsMax'),
    sessionsPerUidMax: number('sessionsPerUidMax'),
    sessionsPerProcessMax: sessionsPerProcessMaxOf(options),
    bind: {
      mode: options.mode === undefined ? standardMode : checkMode('mode', options.mode),
      owner,
      gid,
      backlog: number('backlog'),
      unlinkOnClose: checkBoolean('unlinkOnClose', options.unlinkOnClose, true),
    },
    unsafeDirectory: checkBoolean('unsafeDirectory', options.unsafeDirectory),
    native: isByPath ? undefined : addon,
    pathPeer: isByPath ? pathPeer('listen()', identity, authorize, addonReason()) : undefined,
  };
}

function checkId(name: string, kind: string, id: number | undefined): void {
  if (id === undefined || (Number.isInteger(id) && id >= 0 && id < 0xffff_ffff)) return;
  const text = `${name} must be the id of a ${kind}, got ${String(id)}`;
  throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', text);
}

function sessionsPerProcessMaxOf(options: ListenBaseOptions): number {
  const { sessionsPerProcessMax, sessionsPerUidMax } = options;
  const range = ranges.sessionsPerProcessMax;
  const checked = checkInteger('sessionsPerProcessMax', sessionsPerProcessMax, range);
  return sessionsPerProcessMax ?? sessionsPerUidMax ?? checked;
}
