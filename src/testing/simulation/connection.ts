// SPDX-License-Identifier: MIT
// A session between two simulated processes, over one of the two lanes.
import type { NativeAddon } from '../../addon/addon-api.ts';
import { nativeState } from '../../addon/load-addon.ts';
import type { OnEvent } from '../../base/events.ts';
import { checkLimits, ranges, type SessionLimits } from '../../base/limits/option-limits.ts';
import type { Peer } from '../../base/peer.ts';
import { checkSessionOptions, type KeepAliveOptions } from '../../open/session-options.ts';
import { Session } from '../../rpc/session/session.ts';
import { SessionCore } from '../../rpc/session/session-core.ts';
import type { SessionParts } from '../../rpc/session/session-parts.ts';
import { frameMaxFor } from '../../shm/ring.ts';
import { RingTransport } from '../../shm/ring-transport.ts';
import { SocketTransport } from '../../uds/socket-transport.ts';
import { frameText } from '../../wire/frame-text.ts';
import type { Transport } from '../../wire/transport.ts';
import { watched } from '../../wire/watched-transport.ts';
import type { SimulatedProcess } from './process.ts';
import { ringPair, type SimulatedRing } from './simulated-ring.ts';
import { type SimulatedSocket, socketPair } from './simulated-socket.ts';

/** End of a simulated connection. */
interface EndOptions {
  readonly limits?: Partial<SessionLimits> | undefined;
  readonly onEvent?: OnEvent | undefined;
  /** As of `connect()`. Default 10,000. */
  readonly stalledAfterMs?: number | undefined;
  readonly keepAlive?: boolean | KeepAliveOptions | undefined;
  readonly stallTimeoutMs?: number | undefined;
  /** Time for which calls wait for the exit of the peer's process. Default: 0. */
  readonly exitKnownMs?: number | undefined;
}

/** A simulated connection. */
export interface ConnectionOptions {
  /** Default: the ring where this system has one, else the socket. */
  readonly lane?: 'ring' | 'socket' | undefined;
  /** As of `connect()`. Default 65,536. */
  readonly ringBytes?: number | undefined;
  /** As of `connect()`. Default 0. */
  readonly blockAreaBytes?: number | undefined;
  /** As of `connect()`. Default 50. */
  readonly pollBudgetUs?: number | undefined;
  readonly near?: EndOptions | undefined;
  readonly far?: EndOptions | undefined;
}

/** End of a connection: its session, and what a fault can take hold of. */
export interface ConnectedEnd {
  readonly process: SimulatedProcess;
  readonly session: Session;
  readonly core: SessionCore;
  readonly socket: SimulatedSocket;
  readonly ring: SimulatedRing | undefined;
}

/** Both ends of a connection. */
export interface Connection {
  readonly near: ConnectedEnd;
  readonly far: ConnectedEnd;
}

/**
 * Called with each frame that leaves or is about to be handed to a session, by its header; the view
 * is dead afterwards.
 */
export type OnFrame = (core: SessionCore, isSent: boolean, header: Uint8Array) => void;

const smallRingBytes = 65_536;

/**
 * Connects two processes. @throws {SidecallError} `ERR_SIDECALL_ADDON_UNAVAILABLE` for the ring
 * without the addon.
 */
export function connectProcesses(
  near: SimulatedProcess,
  far: SimulatedProcess,
  options: ConnectionOptions = {},
  onFrame?: OnFrame,
): Connection {
  const sockets = socketPair(near, far);
  const rings = ringsFor(sockets, options);
  const limits = [checkLimits(options.near?.limits), checkLimits(options.far?.limits)] as const;
  const watches = [watchesOf(options.near), watchesOf(options.far)] as const;
  const [first, second] = [0, 1].map((at): ConnectedEnd => {
    const socket = sockets[at] as SimulatedSocket;
    const { process } = socket;
    const ring = rings?.[at];
    const end = at === 0 ? options.near : options.far;
    const peer = at === 0 ? far : near;
    let core: SessionCore | undefined;
    const transport = watchedBy(process, transportOf(socket, ring, options), (isSent, header) => {
      if (core !== undefined) onFrame?.(core, isSent, header);
    });
    const parts: SessionParts = {
      transport,
      peer: peerOf(peer),
      own: limits[at] as SessionLimits,
      remote: limits[1 - at] as SessionLimits,
      laneReason: 'a simulation',
      onEvent: end?.onEvent,
      stalledAfterMs: end?.stalledAfterMs,
      exitKnownMs: end?.exitKnownMs,
      ...watches[at],
      clock: process,
      random: () => process.random.fraction(),
    };
    core = new SessionCore(parts);
    return { process, session: new Session(parts, core), core, socket, ring };
  }) as [ConnectedEnd, ConnectedEnd];
  return { near: first, far: second };
}

function watchesOf({
  keepAlive,
  stallTimeoutMs,
}: EndOptions = {}): Pick<SessionParts, 'keepAlive' | 'stallTimeoutMs'> {
  const checked = checkSessionOptions({ keepAlive, stallTimeoutMs }, undefined);
  return { keepAlive: checked.keepAlive, stallTimeoutMs: checked.stallTimeoutMs };
}

function ringsFor(
  sockets: [SimulatedSocket, SimulatedSocket],
  { lane, ringBytes = smallRingBytes, blockAreaBytes = 0 }: ConnectionOptions,
): [SimulatedRing, SimulatedRing] | undefined {
  if (lane === 'socket') return undefined;
  const { addon } = nativeState();
  if (addon === undefined && lane === undefined) return undefined;
  return ringPair(addon as NativeAddon, sockets, ringBytes, blockAreaBytes);
}

function transportOf(
  { opener, process }: SimulatedSocket,
  simulated: SimulatedRing | undefined,
  { ringBytes = smallRingBytes, pollBudgetUs = ranges.pollBudgetUs.standard }: ConnectionOptions,
): Transport {
  const owner = 1;
  const { loop } = process;
  if (simulated === undefined) return new SocketTransport(opener, owner, loop);
  const { ring } = simulated;
  const frameMaxBytes = frameMaxFor(ringBytes);
  const transport = new RingTransport({
    ring,
    owner,
    frameMaxBytes,
    lendsInPlace: true,
    open: opener,
    pollBudgetUs,
    loop,
  });
  // A dead process polls nothing. Its ring, awake in the list, would be kept by its own blocks.
  process.whenDead(() => loop.poller.deactivate(transport));
  return transport;
}

function watchedBy(
  process: SimulatedProcess,
  transport: Transport,
  onFrame: (isSent: boolean, header: Uint8Array) => void,
): Transport {
  const { world, name } = process;
  const note = (isSent: boolean, header: Uint8Array, payloadBytes: number): void => {
    if (process.isDead) return;
    world.fingerprint.addBytes(header);
    if (world.onTrace !== undefined) {
      world.trace(name, `${isSent ? 'sends' : 'takes'} ${frameText(header, payloadBytes)}`);
    }
    onFrame(isSent, header);
  };
  return watched(transport, {
    onSent: (header, payloadBytes) => note(true, header, payloadBytes),
    onArrived: (header, payloadBytes) => note(false, header, payloadBytes),
    onEnd: (reason) => world.trace(name, `sees the end of its peer: ${reason}`),
  });
}

function peerOf({ pid }: SimulatedProcess): Peer {
  return {
    origin: 'loopback',
    capturedAt: 'connect',
    pid,
    pidIsHint: false,
    uid: process.geteuid?.(),
    gid: process.getegid?.(),
    groups: process.getgroups?.() ?? [],
  };
}
