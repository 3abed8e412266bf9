// SPDX-License-Identifier: MIT
// From a connected, authorized socket to a session: hello, lane, transport. The same from either side.
import type { Socket } from 'node:net';
import { nodeError, SidecallError } from './errors.ts';
import type { OnEvent } from './events.ts';
import { checkLimits, type SessionLimits } from './limits.ts';
import { type NativeAddon, nativeState } from './native.ts';
import type { Peer } from './peer.ts';
import type { Registry } from './rpc/registry.ts';
import { Session } from './rpc/session.ts';
import {
  type Admission,
  helloAsAccepting,
  helloAsConnecting,
  type PeerHello,
} from './uds/hello.ts';
import { DescriptorWire, type HelloWire, StreamWire } from './uds/hello-wire.ts';
import { descriptorOpener, type SocketOpener, streamOpener } from './uds/socket.ts';
import { SocketTransport } from './uds/socket-transport.ts';

/** Options that every way to a session has. */
export interface SessionOptions {
  /** Bounds of the session; see {@link SessionLimits} for defaults and ranges. */
  readonly limits?: Partial<SessionLimits> | undefined;
  /**
   * What carries the frames: `auto` (the default), `socket`, or `ring`, which fails with
   * `SHM_UNAVAILABLE` where shared memory cannot be had. `SIDECALL_LANE` sets it where it is left out.
   */
  readonly lane?: 'auto' | 'ring' | 'socket' | undefined;
  /** Told what happens outside a call; what it throws is rethrown in a task of its own. */
  readonly onEvent?: OnEvent | undefined;
}

/** Names of {@link SessionOptions}, for the checks of unknown keys. */
export const sessionOptionNames = ['limits', 'lane', 'onEvent'] as const;

/** Checked {@link SessionOptions}. */
export interface SessionSettings {
  readonly limits: SessionLimits;
  readonly laneReason: string;
  readonly onEvent: OnEvent | undefined;
  readonly registry: Registry | undefined;
}

const noRings = 'this version has no ring lane yet';

/**
 * Checks what every way to a session takes.
 * @throws {TypeError | RangeError} for misuse, {@link SidecallError} `SHM_UNAVAILABLE` for `ring`.
 */
export function checkSessionOptions(
  options: SessionOptions,
  registry: Registry | undefined,
): SessionSettings {
  const lane = options.lane ?? (process.env.SIDECALL_LANE || 'auto');
  if (lane !== 'auto' && lane !== 'ring' && lane !== 'socket') {
    const words = `lane must be auto, ring or socket, got '${String(lane)}'`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', words);
  }
  if (options.onEvent !== undefined && typeof options.onEvent !== 'function') {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'onEvent must be a function');
  }
  if (lane === 'ring') throw new SidecallError('ERR_SIDECALL_SHM_UNAVAILABLE', noRings);
  return {
    limits: checkLimits(options.limits),
    laneReason: lane === 'socket' ? 'the socket lane was asked for' : noRings,
    onEvent: options.onEvent,
    registry,
  };
}

/** Who speaks first, and, for the accepting side, whether there is room. */
export type Role =
  | { readonly side: 'connecting' }
  | { readonly side: 'accepting'; readonly admit?: Admission | undefined };

/**
 * Makes a session over a descriptor that the addon owns.
 * @throws what the hello throws; the descriptor is closed then.
 */
export async function establishOverDescriptor(
  native: NativeAddon,
  fd: number,
  peer: Peer,
  role: Role,
  settings: SessionSettings,
  signal: AbortSignal,
  wire: HelloWire = new DescriptorWire(native, fd, signal),
): Promise<Session> {
  try {
    const hello = await sayHello(wire, role, settings);
    signal.throwIfAborted();
    native.refuseDescriptors(fd);
    return makeSession(descriptorOpener(native, fd), peer, hello, settings);
  } catch (error) {
    native.closeDescriptor(fd);
    throw error;
  }
}

/** Makes a session over a stream that Node made. @throws what the hello throws; it is destroyed then. */
export async function establishOverStream(
  socket: Socket,
  peer: Peer,
  role: Role,
  settings: SessionSettings,
  signal: AbortSignal,
): Promise<Session> {
  const ignore = (): void => undefined;
  socket.on('error', ignore);
  try {
    const hello = await sayHello(new StreamWire(socket, signal), role, settings);
    signal.throwIfAborted();
    return makeSession(streamOpener(socket), peer, hello, settings);
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/**
 * Runs one attempt under a deadline of its own, and the caller's signal.
 * @throws {SidecallError} `HELLO_TIMEOUT`, or `signal.reason`.
 */
export async function withDeadline<T>(
  what: string,
  timeoutMs: number,
  signal: AbortSignal | undefined,
  attempt: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const timer = setTimeout(() => {
    const words = `${what}: not finished within ${timeoutMs} ms`;
    controller.abort(new SidecallError('ERR_SIDECALL_HELLO_TIMEOUT', words));
  }, timeoutMs);
  const onAbort = (): void => controller.abort(signal?.reason);
  signal?.addEventListener('abort', onAbort);
  // The attempt owns what it was given, so it runs (and cleans up) even where it is over already.
  if (signal?.aborted) onAbort();
  try {
    return await attempt(controller.signal);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}

/** Why there is no addon, for words. */
export function addonReason(): string {
  return nativeState().reason ?? 'it is loaded';
}

function sayHello(wire: HelloWire, role: Role, settings: SessionSettings): Promise<PeerHello> {
  const { limits } = settings;
  if (role.side === 'connecting') return helloAsConnecting(wire, limits);
  return helloAsAccepting(wire, limits, role.admit);
}

function makeSession(
  open: SocketOpener,
  peer: Peer,
  hello: PeerHello,
  settings: SessionSettings,
): Session {
  const { limits, laneReason, registry, onEvent } = settings;
  const transport = new SocketTransport(open);
  const parts = {
    transport,
    peer,
    own: limits,
    remote: hello.limits,
    laneReason,
    registry,
    onEvent,
  };
  return new Session(parts);
}
