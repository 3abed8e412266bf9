// SPDX-License-Identifier: MIT
// From a connected, authorized socket to a session: hello, lane, transport. The same from either side.

import type { Socket } from 'node:net';
import { type NativeAddon, nativeState } from '../addon/native.ts';
import { clearTimeout, setTimeout } from '../base/clock.ts';
import { nodeError, SidecallError } from '../base/errors.ts';
import { emitEvent, type OnEvent } from '../base/events.ts';
import { checkLimits, fixed, ranges, type SessionLimits } from '../base/limits.ts';
import { checkInteger } from '../base/misuse.ts';
import type { Peer } from '../base/peer.ts';
import { type Implementation, Registry } from '../rpc/serving/registry.ts';
import { Session } from '../rpc/session/session.ts';
import { RingMemory } from '../shm/hello-memory.ts';
import { RingTransport } from '../shm/ring-transport.ts';
import {
  type Admission,
  type HelloMemory,
  type HelloResult,
  helloAsAccepting,
  helloAsConnecting,
} from '../uds/hello.ts';
import { DescriptorWire, type HelloWire, StreamWire } from '../uds/hello-wire.ts';
import { descriptorOpener, readQueued, streamOpener } from '../uds/net-socket.ts';
import { whenPeerEnds } from '../uds/peer-end.ts';
import { ownerOf } from '../uds/peer-identity.ts';
import { SocketTransport } from '../uds/socket-transport.ts';
import type { Transport } from '../wire/transport.ts';
import { pollBudgetOf, ringMemoryMaxBytes } from './configure.ts';

/** Options that every way to a session has. */
export interface SessionOptions {
  /** Bounds of the session; see {@link SessionLimits} for defaults and ranges. */
  readonly limits?: Partial<SessionLimits> | undefined;
  /**
   * What carries the frames: `auto` (the default) is shared memory where both sides can have it, else
   * the socket; `session.laneReason` says why. `socket` never asks for memory; `ring` refuses with
   * `SHM_UNAVAILABLE` where it cannot be had (at a listener: that connection, by a `refused` event). The
   * variable `SIDECALL_LANE` of the environment sets it where it is left out.
   */
  readonly lane?: 'auto' | 'ring' | 'socket' | undefined;
  /**
   * Shared memory for what we send, in bytes: a power of two. Default 1,048,576, which stays in a CPU's
   * cache; 65,536 to 67,108,864. The peer chooses its own.
   */
  readonly ringBytes?: number | undefined;
  /**
   * What becomes of messages that the peer has put into its block area, and of what the codec `leased`
   * receives. `copy` (the default): one copy, in memory that is used again. `in-place-trusted`: read where
   * they lie, by a host that allows external buffers (plain Node; not Electron): only for a peer that you
   * trust not to change them meanwhile, since code that reads twice, native decoders among it, can be led to
   * read or write elsewhere. `off`: the peer sends them as any other.
   */
  readonly leases?: 'off' | 'copy' | 'in-place-trusted' | undefined;
  /**
   * Shared memory for blocks of `session.allocate()`, in bytes, taken at once for each session on the ring
   * lane. Default 0: blocks are ordinary memory; up to 1 GiB, rounded up to 16 KiB.
   */
  readonly blockAreaBytes?: number | undefined;
  /**
   * How long the event loop looks for more after a message before it sleeps, in microseconds; eight times as
   * long while messages come thick and fast. Default 50 (0 on one CPU and in Electron's main process, and see
   * `configure()`); 0 to 1,000. Where looking does not pay it stops by itself.
   */
  readonly pollBudgetUs?: number | undefined;
  /**
   * Milliseconds without a call in either direction after which the session is closed in order. Default: none;
   * 1 to 2,147,483,647. Looked at once per so long, so it takes up to twice the time.
   */
  readonly idleTimeoutMs?: number | undefined;
  /**
   * May the peer list what we serve (`ReflectionService`)? Default: if it runs under our own uid.
   */
  readonly introspection?: boolean | undefined;
  /**
   * Services that the first call finds already: `[implement(Contract, handlers)]`. Default: none,
   * and calls that arrive before the first `serve()` wait for it, within their window and until
   * their deadlines. With a list, an empty one too, calls of other services are refused with
   * `unimplemented`.
   */
  readonly services?: readonly Implementation[] | undefined;
  /**
   * Milliseconds that something of a session may wait without any progress before `onEvent` is told (`stalled`). Default
   * 10,000; 10 to 600,000.
   */
  readonly stalledAfterMs?: number | undefined;
  /** Told what happens outside a call; what it throws is rethrown in a task of its own. */
  readonly onEvent?: OnEvent | undefined;
}

/** Names of {@link SessionOptions}, for the checks of unknown keys. */
export const sessionOptionNames = [
  'limits',
  'lane',
  'ringBytes',
  'leases',
  'blockAreaBytes',
  'pollBudgetUs',
  'idleTimeoutMs',
  'introspection',
  'services',
  'stalledAfterMs',
  'onEvent',
] as const;

/** Checked {@link SessionOptions}. */
export interface SessionSettings {
  readonly limits: SessionLimits;
  readonly lane: 'auto' | 'ring' | 'socket';
  readonly ringBytes: number;
  readonly leases: 'off' | 'copy' | 'in-place-trusted';
  readonly blockAreaBytes: number;
  /** undefined: as the process has it. */
  readonly pollBudgetUs: number | undefined;
  readonly idleTimeoutMs: number | undefined;
  /** undefined: for peers of our own uid. */
  readonly introspection: boolean | undefined;
  readonly onEvent: OnEvent | undefined;
  readonly stalledAfterMs: number;
  /** Of a listener or helper, for all of its sessions. */
  readonly registry: Registry | undefined;
  /** Of the session alone. */
  readonly services: readonly Implementation[] | undefined;
  /** Sessions wait to be taken from their listener. */
  readonly isUntaken?: boolean;
}

const asked = 'the socket lane was asked for';

/**
 * Checks what every way to a session takes.
 * @throws {TypeError | RangeError} for misuse, {@link SidecallError} `SHM_UNAVAILABLE` for `ring` where
 * there is no addon.
 */
export function checkSessionOptions(
  options: SessionOptions,
  registry: Registry | undefined,
): SessionSettings {
  const lane = options.lane ?? (process.env.SIDECALL_LANE || 'auto');
  if (lane !== 'auto' && lane !== 'ring' && lane !== 'socket') {
    const what = options.lane === undefined ? 'SIDECALL_LANE' : 'lane';
    const words = `${what} must be auto, ring or socket, got '${String(lane)}'`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', words);
  }
  if (options.onEvent !== undefined && typeof options.onEvent !== 'function') {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'onEvent must be a function');
  }
  const ringBytes = checkInteger('ringBytes', options.ringBytes, ranges.ringBytes);
  if ((ringBytes & (ringBytes - 1)) !== 0) {
    const words = `ringBytes must be a power of two, got ${ringBytes}`;
    throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', words);
  }
  const leases = options.leases ?? 'copy';
  if (leases !== 'off' && leases !== 'copy' && leases !== 'in-place-trusted') {
    const words = `leases must be off, copy or in-place-trusted, got '${String(leases)}'`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', words);
  }
  const areaBytes = checkInteger('blockAreaBytes', options.blockAreaBytes, ranges.blockAreaBytes);
  const { blockAreaUnitBytes } = fixed;
  const { pollBudgetUs, idleTimeoutMs } = options;
  if (idleTimeoutMs !== undefined) {
    checkInteger('idleTimeoutMs', idleTimeoutMs, ranges.idleTimeoutMs);
  }
  if (pollBudgetUs !== undefined) checkInteger('pollBudgetUs', pollBudgetUs, ranges.pollBudgetUs);
  if (lane === 'ring' && nativeState().addon === undefined) {
    throw unavailable(`there is no addon: ${addonReason()}`);
  }
  return {
    limits: checkLimits(options.limits),
    lane,
    ringBytes,
    leases,
    blockAreaBytes: Math.ceil(areaBytes / blockAreaUnitBytes) * blockAreaUnitBytes,
    pollBudgetUs,
    idleTimeoutMs,
    introspection: checkIntrospection(options.introspection),
    onEvent: options.onEvent,
    stalledAfterMs: checkInteger('stalledAfterMs', options.stalledAfterMs, ranges.stalledAfterMs),
    registry,
    services: checkServices(options.services, registry),
  };
}

/**
 * A listener or helper serves its services by its registry; a session without one serves them
 * itself.
 */
function checkServices(
  services: readonly Implementation[] | undefined,
  registry: Registry | undefined,
): readonly Implementation[] | undefined {
  (registry ?? new Registry()).addAll(services);
  return registry === undefined ? services : undefined;
}

function checkIntrospection(introspection: boolean | undefined): boolean | undefined {
  if (introspection === undefined || typeof introspection === 'boolean') return introspection;
  const words = 'introspection must be true or false';
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', words);
}

/** Who speaks first, and, for the accepting side, whether there is room. */
export type Role =
  | { readonly side: 'connecting' }
  | { readonly side: 'accepting'; readonly admit?: Admission | undefined };

/**
 * Makes a session over a descriptor that the addon owns.
 * @throws what the hello throws, and `SHM_UNAVAILABLE`; the descriptor is closed then.
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
  const owner = ownerOf(peer);
  if (wire instanceof DescriptorWire) wire.owner = owner;
  const why = settings.lane === 'socket' ? asked : whyNoMemory(native, owner);
  const memory = why === undefined ? memoryFor(native, settings, owner, signal) : undefined;
  try {
    const hello = await sayHello(wire, role, settings, memory);
    signal.throwIfAborted();
    native.refuseDescriptors(fd);
    const laneReason = why ?? laneReasonOf(hello, memory);
    if (settings.lane === 'ring' && !hello.isRing) throw unavailable(laneReason);
    const early = memory === undefined ? [] : readQueued(native, fd, owner);
    const open = descriptorOpener(native, fd, early);
    if (!hello.isRing) reportFailure(memory, settings, peer);
    const transport =
      hello.isRing && memory !== undefined
        ? new RingTransport({
            ring: memory.join(fd, hello.peer.features),
            owner,
            lendsInPlace: settings.leases === 'in-place-trusted',
            frameMaxBytes: memory.frameMaxBytes,
            open,
            pollBudgetUs: pollBudgetOf(settings.pollBudgetUs),
          })
        : new SocketTransport(open, owner);
    const endWithPeer = watchPeer(native, fd, peer, role);
    return endWithPeer(makeSession(transport, peer, hello, laneReason, settings));
  } catch (error) {
    // Where descriptors were let in, one may be queued whose close blocks: not on this thread.
    if (memory === undefined) native.closeDescriptor(fd);
    else native.closeStranger(fd, owner);
    throw error;
  } finally {
    memory?.close();
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
    const hello = await sayHello(new StreamWire(socket, signal), role, settings, undefined);
    signal.throwIfAborted();
    const reason = settings.lane === 'socket' ? asked : `there is no addon: ${addonReason()}`;
    if (settings.lane === 'ring') throw unavailable(reason);
    const transport = new SocketTransport(streamOpener(socket), ownerOf(peer));
    return makeSession(transport, peer, hello, reason, settings);
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/**
 * Runs one attempt under a deadline of its own, and the caller's signal. `elapsedMs`: time of it that has
 * passed already.
 * @throws {SidecallError} `HELLO_TIMEOUT`, or `signal.reason`.
 */
export async function withDeadline<T>(
  what: string,
  timeoutMs: number,
  signal: AbortSignal | undefined,
  attempt: (signal: AbortSignal) => Promise<T>,
  elapsedMs = 0,
): Promise<T> {
  const controller = new AbortController();
  const timer = setTimeout(
    () => controller.abort(notInTime(what, timeoutMs)),
    Math.max(0, timeoutMs - elapsedMs),
  );
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

/** The error of an attempt whose time is over. */
export function notInTime(what: string, timeoutMs: number): SidecallError {
  const words = `${what}: not finished within ${timeoutMs} ms`;
  return new SidecallError('ERR_SIDECALL_HELLO_TIMEOUT', words);
}

/** Why there is no addon, for words. */
export function addonReason(): string {
  return nativeState().reason ?? 'it is loaded';
}

/**
 * Watches whoever connected: its session ends with it, also where a child that it forked holds its socket. A listener is
 * known by who called `listen()`, which need not be who accepts, and the parent of a helper by the helper's own death.
 */
function watchPeer(
  native: NativeAddon,
  fd: number,
  peer: Peer,
  role: Role,
): (session: Session) => Session {
  if (role.side !== 'accepting' || peer.capturedAt !== 'connect') return (session) => session;
  let session: Session | undefined;
  const forget = whenPeerEnds(native, fd, () => {
    const words = `process ${peer.pid}, which had connected, has ended`;
    session?.terminate(new SidecallError('ERR_SIDECALL_PEER_GONE', words));
  });
  return (made) => {
    session = made;
    if (forget !== undefined) void made.closed.then(forget);
    return made;
  };
}

/**
 * A peer whose descriptors hang where they are closed, or whose memory hangs where it is checked, is
 * asked for no more; where every thread for that hangs, no peer is.
 */
function whyNoMemory(native: NativeAddon, owner: number): string | undefined {
  const why = native.whyNoMemory(owner);
  if (why === 0) return undefined;
  const what = why === 1 ? 'descriptors that were sent to us cannot be closed' : 'a check hangs';
  return `shared memory is not offered for now: ${what}`;
}

function memoryFor(
  native: NativeAddon,
  settings: SessionSettings,
  owner: number,
  signal: AbortSignal,
): RingMemory {
  const { ringBytes, blockAreaBytes, leases } = settings;
  const shareMaxBytes = ringMemoryMaxBytes();
  const takesBlocks = leases !== 'off';
  const sizes = { ringBytes, blockAreaBytes, takesBlocks, shareMaxBytes };
  return new RingMemory(native, { ...sizes, waits: true, owner, signal });
}

function sayHello(
  wire: HelloWire,
  role: Role,
  { limits }: SessionSettings,
  memory: HelloMemory | undefined,
): Promise<HelloResult> {
  if (role.side === 'connecting') return helloAsConnecting(wire, limits, memory);
  return helloAsAccepting(wire, limits, role.admit, memory);
}

function laneReasonOf(hello: HelloResult, memory: RingMemory | undefined): string {
  if (memory === undefined) return hello.reason;
  return hello.isRing ? 'both sides have shared memory' : (memory.failure ?? hello.reason);
}

/** A want of ours, where a ring could have been: somebody may want to know. */
function reportFailure(
  memory: RingMemory | undefined,
  settings: SessionSettings,
  peer: Peer,
): void {
  if (memory?.failure === undefined) return;
  emitEvent(settings.onEvent, { type: 'lane', error: unavailable(memory.failure), peer });
}

function unavailable(why: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_SHM_UNAVAILABLE', why);
}

function makeSession(
  transport: Transport,
  peer: Peer,
  hello: HelloResult,
  laneReason: string,
  settings: SessionSettings,
): Session {
  const remote = hello.peer.limits;
  return new Session({
    ...settings,
    transport,
    peer,
    own: settings.limits,
    remote,
    laneReason,
  });
}
