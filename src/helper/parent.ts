// SPDX-License-Identifier: MIT
// parent(): the helper's end of the pair that it inherited.

import { fstatSync } from 'node:fs';
import type { Socket } from 'node:net';
import { isMainThread } from 'node:worker_threads';
import type { NativeAddon } from '../addon/addon-api.ts';
import { nativeState } from '../addon/load-addon.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { emitEvent, type OnEvent } from '../base/events.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { checkInteger, checkKeys } from '../base/misuse.ts';
import type { Peer } from '../base/peer.ts';
import { advisePollBudget } from '../open/configure.ts';
import { monitorSums } from '../open/monitor.ts';
import { establishOverDescriptor, establishOverStream } from '../open/open-session.ts';
import {
  checkSessionOptions,
  type SessionOptions,
  type SessionSettings,
  sessionOptionNames,
} from '../open/session-options.ts';
import { recordThread } from '../open/thread-recorder.ts';
import { withDeadline } from '../open/time-limit.ts';
import { openInspectionOnce } from '../rendezvous/inspection-listener.ts';
import { held } from '../rpc/serving/hold-door.ts';
import type { Session } from '../rpc/session/session.ts';
import { socketOver } from '../uds/net-socket.ts';
import { kernelPeer } from '../uds/peer-credentials.ts';
import { authorize, checkPolicy, type PeerPolicy } from '../uds/peer-policy.ts';
import {
  chainVariable,
  fdVariable,
  parentVariable,
  pollVariable,
  recorderVariable,
} from './helper-variables.ts';
import { openRecorder } from './recorder-memory.ts';

/** Options of {@link parent}. */
export interface ParentOptions extends SessionOptions {
  /**
   * The process that must have made the pair. Default: any, since a helper may run under another
   * uid.
   */
  readonly expect?: PeerPolicy | undefined;
  /** Milliseconds for the hello. Default 5,000; 10 to 60,000. */
  readonly timeoutMs?: number | undefined;
}

// A change of the user before exec has cancelled the death signal of the fork. The import of the
// package is the first moment at which it can be set again.
if (isMainThread && process.env[fdVariable] !== undefined) {
  try {
    nativeState().addon?.dieWithParent(Number(process.env[parentVariable]));
  } catch {
    // refused, or not wanted: parent() says more
  }
}

const connecting = { side: 'connecting' } as const;
/** The place of the first call, for the error of a second one. */
let firstCall: Error | undefined;

/**
 * The session with the process that started us by `spawnHelper()`. Once per process. On Linux, with
 * the addon, the kernel kills us when that process (or its worker thread that started us) ends,
 * even while our loop is blocked, unless we change our user or group afterwards: do that before.
 * Everywhere the session ends with it. A helper whose loop is empty once the
 * session is over ends by itself; `stop()` of the parent sends SIGTERM to one that does not.
 * @throws (as rejection) {SidecallError} `ERR_SIDECALL_HELPER_FAILED` where we are no helper or the
 * hello failed, `ERR_SIDECALL_PEER_DENIED`, `ERR_SIDECALL_CREDENTIALS_UNAVAILABLE`,
 * `ERR_SIDECALL_VERSION_MISMATCH`, `ERR_SIDECALL_SHM_UNAVAILABLE`; `TypeError`/`RangeError` for
 * misuse.
 * @example
 * ```ts
 * import { parent, service, unary } from 'sidecall';
 *
 * const Hasher = service('Hasher', { hash: unary<string, string>() });
 *
 * const session = await parent();
 * session.serve(Hasher, { hash: (text) => text.length.toString(16) });
 * ```
 */
export async function parent(options: ParentOptions = {}): Promise<Session> {
  checkKeys('parent()', options, [...sessionOptionNames, 'expect', 'timeoutMs']);
  checkPolicy('expect', options.expect);
  const timeoutMs = checkInteger('timeoutMs', options.timeoutMs, ranges.connectTimeoutMs);
  const settings = checkSessionOptions(options, undefined);
  const variable = process.env[fdVariable];
  if (variable === undefined && firstCall !== undefined) throw calledTwice(firstCall);
  const parentPid = Number(process.env[parentVariable]);
  if (variable !== undefined) refuseInherited(Number(variable), parentPid);
  firstCall ??= new Error('the first call of parent()');
  // The variables are deleted before anything else, so that no program that we start
  // takes itself for the helper.
  delete process.env[fdVariable];
  delete process.env[parentVariable];
  const recorder = process.env[recorderVariable];
  delete process.env[recorderVariable];
  delete process.env[chainVariable];
  const advised = process.env[pollVariable];
  delete process.env[pollVariable];
  if (advised !== undefined) advisePollBudget(advised);
  const fd = checkVariable(variable);
  openInspectionOnce();
  const { addon } = nativeState();
  const recorded = addon && openRecorder(addon, recorder);
  if (recorded !== undefined) recordThread(recorded);
  try {
    const session = await withDeadline('parent()', timeoutMs, undefined, (signal) =>
      addon === undefined
        ? meetOverStream(fd, options.expect, settings, signal)
        : meetOverDescriptor(addon, fd, parentPid, options.expect, settings, signal),
    );
    monitorSums(settings.monitor, settings.sums, session.closed);
    return await held(options.services, session);
  } catch (error) {
    throw asHelperFailure(error);
  }
}

/**
 * Refuses the variables of another process, and touches nothing: a process that a helper has forked
 * before its own `parent()` inherits them, and has another socket at that number.
 */
function refuseInherited(fd: number, parentPid: number): void {
  const { channel } = process as { readonly channel?: { readonly fd?: number } };
  const madeBy = channel?.fd === fd ? process.ppid : makerOf(fd);
  // 0: a process of another pid namespace.
  if (!(parentPid > 0) || !madeBy || madeBy === parentPid) return;
  throw noHelper(
    `${notStarted}: descriptor ${fd} comes from process ${madeBy}, and not from process ${parentPid}, which has set ${fdVariable}: a helper that starts processes before its parent() leaves it out of their environment`,
  );
}

/** The process that has made the pair of a socket; undefined: unknown. */
function makerOf(fd: number): number | undefined {
  try {
    return nativeState().addon?.peerIds(fd).pid;
  } catch {
    return undefined; // no socket: told later
  }
}

async function meetOverDescriptor(
  native: NativeAddon,
  inherited: number,
  parentPid: number,
  expect: PeerPolicy | undefined,
  settings: SessionSettings,
  signal: AbortSignal,
): Promise<Session> {
  const fd = takeOver(native, inherited);
  let peer: Peer;
  try {
    dieWithParent(native, parentPid, settings.onEvent);
    const known = kernelPeer(native, fd, 'spawn');
    if (expect !== undefined) await authorize(expect, known, signal);
    peer = known.peer;
  } catch (error) {
    native.closeDescriptor(fd);
    throw error;
  }
  return establishOverDescriptor(native, fd, peer, connecting, settings, signal);
}

/** The inherited number is checked before anything is done to it: it may belong to other code. */
function takeOver(native: NativeAddon, inherited: number): number {
  try {
    const { type, isListening } = native.describe(inherited);
    if (type !== 'unix-stream' || isListening)
      throw noHelper(`descriptor ${inherited} is a ${type}, not a connected Unix socket`);
    native.setCloseOnExec(inherited); // first: a grandchild that held it would hide our death
    native.refuseDescriptors(inherited);
    // Not closeSync(): Deno refuses a number that it did not open.
    return native.moveDescriptor(inherited);
  } catch (cause) {
    if (SidecallError.is(cause)) throw cause;
    throw noHelper(`descriptor ${inherited} cannot be used`, cause);
  }
}

function dieWithParent(native: NativeAddon, parentPid: number, onEvent: OnEvent | undefined): void {
  // Absent where the process that spawned us does not want it.
  if (!Number.isInteger(parentPid) || parentPid <= 0) return;
  let watch: string;
  try {
    watch = native.dieWithParent(parentPid);
  } catch (cause) {
    const text = `the kernel will not kill this helper with its parent (${errorText(cause)}): it ends with its session, and later where its event loop is blocked`;
    const error = new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
    return emitEvent(onEvent, { type: 'limited', error, peer: undefined });
  }
  if (watch === 'orphaned') throw noHelper('the process that started this one has ended');
}

async function meetOverStream(
  fd: number,
  expect: PeerPolicy | undefined,
  settings: SessionSettings,
  signal: AbortSignal,
): Promise<Session> {
  if (expect !== undefined) {
    const text = 'parent({ expect }) asks the kernel who made the pair, which needs the addon';
    throw new SidecallError('ERR_SIDECALL_ADDON_UNAVAILABLE', text);
  }
  let socket: Socket;
  try {
    if (!fstatSync(fd).isSocket()) throw new TypeError('it is no socket');
    socket = socketOver(fd);
  } catch (cause) {
    throw noHelper(`descriptor ${fd} cannot be used`, cause);
  }
  return establishOverStream(socket, inheritedPeer(), connecting, settings, signal);
}

/** A peer that only the inherited descriptor identifies. */
function inheritedPeer(): Peer {
  return Object.freeze({
    origin: 'parent',
    capturedAt: 'spawn',
    pid: process.ppid,
    pidIsHint: true,
    uid: undefined,
    gid: undefined,
    groups: undefined,
  });
}

function checkVariable(variable: string | undefined): number {
  if (variable === undefined) {
    throw noHelper(`${notStarted}: ${fdVariable} is not set`);
  }
  const fd = Number(variable);
  if (/^\d{1,9}$/.test(variable) && fd > 2) return fd;
  throw noHelper(`${notStarted}: ${fdVariable} is '${variable}'`);
}

function asHelperFailure(error: unknown): unknown {
  if (!SidecallError.is(error)) return error;
  const { code } = error;
  const isHello = code === 'ERR_SIDECALL_HELLO_TIMEOUT' || code === 'ERR_SIDECALL_PROTOCOL';
  if (!isHello && code !== 'ERR_SIDECALL_PEER_GONE') return error;
  const text = `parent(): the hello with the process that started us failed: ${error.message}`;
  return new SidecallError('ERR_SIDECALL_HELPER_FAILED', text, { cause: error, retryable: false });
}

function calledTwice(first: Error): SidecallError {
  const place = first.stack?.split('\n')[2]?.trim() ?? 'at an unknown place';
  const text = `parent() was called before, ${place}: it gives the session once, so keep that one`;
  return new SidecallError('ERR_SIDECALL_HELPER_FAILED', text, { cause: first, retryable: false });
}

const notStarted = 'this process was not started by spawnHelper()';

function noHelper(why: string, cause?: unknown): SidecallError {
  const text = `parent(): ${why}`;
  return new SidecallError('ERR_SIDECALL_HELPER_FAILED', text, { cause, retryable: false });
}
