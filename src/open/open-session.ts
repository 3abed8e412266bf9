// SPDX-License-Identifier: MIT
// From a connected, authorized socket to a session: hello, lane, transport. The same from either
// side.

import type { Socket } from 'node:net';
import type { NativeAddon } from '../addon/addon-api.ts';
import { systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { emitEvent } from '../base/events.ts';
import { ignore } from '../base/ignore-errors.ts';
import type { Peer } from '../base/peer.ts';
import { Session } from '../rpc/session/session.ts';
import { RingMemory } from '../shm/hello-memory.ts';
import { RingTransport } from '../shm/ring-transport.ts';
import {
  type Admit,
  type HelloMemory,
  type HelloResult,
  helloAsAccepting,
  helloAsConnecting,
} from '../uds/hello.ts';
import { HelloFeature } from '../uds/hello-bytes.ts';
import { DescriptorWire, type HelloWire, StreamWire } from '../uds/hello-wire.ts';
import { descriptorOpener, readQueued, streamOpener } from '../uds/net-socket.ts';
import { ownerOf } from '../uds/peer-credentials.ts';
import { whenPeerExits } from '../uds/peer-exit.ts';
import { SocketTransport } from '../uds/socket-transport.ts';
import type { LaneCapacity, Transport } from '../wire/transport.ts';
import { pollBudgetOf, ringMemoryMaxBytes } from './configure.ts';
import { traced } from './frame-trace.ts';
import { laneReasonOf, noRingReason, plainLaneReason, unavailable } from './lane.ts';
import { tellMissingAddon } from './missing-addon.ts';
import { addOpenSession } from './open-sessions.ts';
import type { SessionSettings } from './session-options.ts';
import { threadRecorder } from './thread-recorder.ts';

/**
 * The role in the hello: which side speaks first, whether it connects to take the path over, and
 * whether the accepting side has room.
 */
export type Role =
  | { readonly side: 'connecting'; readonly takesOver?: boolean | undefined }
  | { readonly side: 'accepting'; readonly admit?: Admit | undefined };

/**
 * Makes a session over a descriptor that the addon owns.
 * @throws what the hello throws, and `ERR_SIDECALL_SHM_UNAVAILABLE`; the descriptor is closed then.
 */
export async function establishOverDescriptor(
  native: NativeAddon,
  fd: number,
  peer: Peer,
  role: Role,
  settings: SessionSettings,
  signal: AbortSignal,
  wire = new DescriptorWire(native, fd, signal),
): Promise<Session> {
  const owner = ownerOf(peer);
  wire.owner = owner;
  // The name of the sender needs the place of the descriptors that this peer may have sent.
  const hasPlace = native.whyNoMemory(owner) === 0;
  const isListeners = hasPlace && role.side === 'connecting' && peer.capturedAt === 'listen';
  const whyNot = noRingReason(native, settings, owner);
  const memory = whyNot === undefined ? memoryFor(native, settings, owner, signal) : undefined;
  try {
    if (isListeners) native.askForSender(fd, true);
    const hello = await sayHello(wire, role, settings, memory);
    signal.throwIfAborted();
    if (isListeners) native.askForSender(fd, false);
    native.refuseDescriptors(fd);
    const laneReason = laneReasonOf(settings, whyNot, hello, memory);
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
            capacity: memory.laneCapacity,
            open,
            pollBudgetUs: pollBudgetOf(settings.pollBudgetUs),
          })
        : new SocketTransport(open, owner, undefined, buffersOf(native, fd, settings));
    const hasConnected = role.side === 'accepting' && peer.capturedAt === 'connect';
    const isWatched = hasConnected || (isListeners && wire.isSentBy(peer.pid));
    const endWithPeer = isWatched ? watchPeer(native, fd, peer) : sameSession;
    return endWithPeer(makeSession(transport, peer, hello, laneReason, settings));
  } catch (error) {
    // A socket on which descriptors were admitted is closed on a thread: one may be
    // queued whose close blocks.
    if (memory === undefined) native.closeDescriptor(fd);
    else native.closeReceived(fd, owner);
    throw error;
  } finally {
    memory?.close();
  }
}

/**
 * Makes a session over a stream that Node made. @throws what the hello throws; it is destroyed
 * then.
 */
export async function establishOverStream(
  socket: Socket,
  peer: Peer,
  role: Role,
  settings: SessionSettings,
  signal: AbortSignal,
): Promise<Session> {
  socket.on('error', ignore);
  try {
    const hello = await sayHello(new StreamWire(socket, signal), role, settings, undefined);
    signal.throwIfAborted();
    const reason = plainLaneReason(settings);
    if (settings.lane !== 'socket') tellMissingAddon(settings.onEvent, peer);
    const transport = new SocketTransport(streamOpener(socket), ownerOf(peer));
    return makeSession(transport, peer, hello, reason, settings);
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/**
 * Watches the process at the other end of a path: its session ends with it, also where a forked
 * child holds the socket. A listener is known by the process that called `listen()`. It is watched
 * where that process has sent the hello itself: in a program that forks after `listen()`, a child
 * accepts, and lives on. A helper dies with its parent.
 */
function watchPeer(native: NativeAddon, fd: number, peer: Peer): (session: Session) => Session {
  let session: Session | undefined;
  const forget = whenPeerExits(native, fd, () => {
    const did = peer.capturedAt === 'connect' ? 'had connected' : 'listened';
    const text = `process ${peer.pid}, which ${did}, has ended`;
    session?.terminate(new SidecallError('ERR_SIDECALL_PEER_GONE', text));
  });
  return (made) => {
    session = made;
    if (forget !== undefined) void made.closed.then(forget);
    return made;
  };
}

/** Sets the buffers of the socket lane where that is asked for. Returns what the kernel gives. */
function buffersOf(
  native: NativeAddon,
  fd: number,
  { socketBufferBytes }: SessionSettings,
): LaneCapacity {
  if (socketBufferBytes !== undefined) native.setSocketBuffers(fd, socketBufferBytes);
  return native.readSocketBuffers(fd);
}

const sameSession = (session: Session): Session => session;

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
  return new RingMemory(native, { ...sizes, waits: true, owner, signal, clock: systemClock });
}

function sayHello(
  wire: HelloWire,
  role: Role,
  { limits }: SessionSettings,
  memory: HelloMemory | undefined,
): Promise<HelloResult> {
  if (role.side === 'connecting') {
    const features = role.takesOver === true ? HelloFeature.takesOver : 0;
    return helloAsConnecting(wire, limits, memory, features);
  }
  return helloAsAccepting(wire, limits, role.admit, memory);
}

/** Tells `onEvent` that this side could not provide shared memory for a ring. */
function reportFailure(
  memory: RingMemory | undefined,
  settings: SessionSettings,
  peer: Peer,
): void {
  if (memory?.failure === undefined) return;
  emitEvent(settings.onEvent, { type: 'lane', error: unavailable(memory.failure), peer });
}

function makeSession(
  transport: Transport,
  peer: Peer,
  hello: HelloResult,
  laneReason: string,
  settings: SessionSettings,
): Session {
  const remote = hello.peer.limits;
  const isInspection = settings.isInspection === true;
  const session = new Session({
    ...settings,
    transport: traced(transport, peer),
    peer,
    own: settings.limits,
    remote,
    laneReason,
    recorder: isInspection ? undefined : threadRecorder(),
    isSampled: !isInspection,
  });
  if (!isInspection) addOpenSession(session);
  settings.sums.add(session);
  return session;
}
