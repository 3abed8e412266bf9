// Two sessions that are each other's peer, over every transport there is.

import { requireNative } from '../../src/addon/load-addon.ts';
import { SidecallError } from '../../src/base/errors.ts';
import type { OnEvent } from '../../src/base/events.ts';
import { checkLimits, type SessionLimits } from '../../src/base/limits/option-limits.ts';
import type { Peer } from '../../src/base/peer.ts';
import { establishOverDescriptor } from '../../src/open/open-session.ts';
import {
  checkSessionOptions,
  type SessionOptions,
  type SessionSettings,
} from '../../src/open/session-options.ts';
import { Session } from '../../src/rpc/session/session.ts';
import { type LoopbackTransport, loopbackPair } from '../../src/wire/loopback-transport.ts';

export interface PairOptions {
  readonly near?: Partial<SessionLimits>;
  readonly far?: Partial<SessionLimits>;
  readonly onNearEvent?: OnEvent;
  readonly onFarEvent?: OnEvent;
  /** Over the loopback only. */
  readonly stalledAfterMs?: number;
}

export interface Pair extends AsyncDisposable {
  readonly near: Session;
  readonly far: Session;
  /** Cuts the connection: each end loses its peer. */
  readonly cut: () => void;
}

export interface LaneUnderTest {
  readonly lane: string;
  readonly openPair: (options?: PairOptions) => Promise<Pair>;
}

export const loopbackPeer: Peer = {
  origin: 'loopback',
  capturedAt: 'connect',
  pid: process.pid,
  pidIsHint: false,
  uid: process.geteuid?.() ?? 0,
  gid: process.getegid?.() ?? 0,
  groups: [],
};

export const lanes: readonly LaneUnderTest[] = [
  { lane: 'loopback', openPair: async (options) => openLoopback(options) },
  { lane: 'socket', openPair: (options) => openSocketPair(options, 'socket') },
  { lane: 'ring', openPair: (options) => openSocketPair(options, 'ring') },
];

/** Opens a pair over the loopback; its transports are returned, too. */
export function openLoopback(
  options: PairOptions = {},
): Pair & { transports: [LoopbackTransport, LoopbackTransport] } {
  const transports = loopbackPair();
  const near = checkLimits(options.near);
  const far = checkLimits(options.far);
  const { stalledAfterMs } = options;
  const parts = { peer: loopbackPeer, laneReason: 'a test', stalledAfterMs };
  const pair = {
    near: new Session({
      ...parts,
      transport: transports[0],
      own: near,
      remote: far,
      onEvent: options.onNearEvent,
    }),
    far: new Session({
      ...parts,
      transport: transports[1],
      own: far,
      remote: near,
      onEvent: options.onFarEvent,
    }),
  };
  return {
    ...pair,
    transports,
    cut: () => transports[0].destroy(),
    [Symbol.asyncDispose]: () => closeBoth(pair.near, pair.far),
  };
}

/** Opens a pair over rings; `native`: another addon for the near side. */
export async function openRingPair(
  nearOptions: SessionOptions,
  farOptions: SessionOptions,
  native = requireNative('the test'),
): Promise<Pair> {
  const addon = requireNative('the test');
  const fds = addon.socketPair();
  const { signal } = new AbortController();
  const open = (side: 'accepting' | 'connecting', own: typeof addon, options: SessionOptions) =>
    establishOverDescriptor(
      own,
      side === 'accepting' ? fds.near : fds.far,
      loopbackPeer,
      { side },
      checkSessionOptions({ lane: 'ring', ...options }, undefined),
      signal,
    );
  const [near, far] = await Promise.all([
    open('accepting', native, nearOptions),
    open('connecting', addon, farOptions),
  ]);
  return {
    near,
    far,
    cut: () => far.terminate(new SidecallError('ERR_SIDECALL_PEER_GONE')),
    [Symbol.asyncDispose]: () => closeBoth(near, far),
  };
}

/** Opens a pair over two sockets in this process. */
async function openSocketPair(
  options: PairOptions = {},
  lane: 'ring' | 'socket' = 'socket',
): Promise<Pair> {
  const native = requireNative('the test');
  const { near: nearFd, far: farFd } = native.socketPair();
  const { signal } = new AbortController();
  const [near, far] = await Promise.all([
    establishOverDescriptor(
      native,
      nearFd,
      loopbackPeer,
      { side: 'accepting' },
      settingsOf(options.near, options.onNearEvent, lane),
      signal,
    ),
    establishOverDescriptor(
      native,
      farFd,
      loopbackPeer,
      { side: 'connecting' },
      settingsOf(options.far, options.onFarEvent, lane),
      signal,
    ),
  ]);
  return {
    near,
    far,
    cut: () => far.terminate(new SidecallError('ERR_SIDECALL_PEER_GONE')),
    [Symbol.asyncDispose]: () => closeBoth(near, far),
  };
}

export function settingsOf(
  limits: Partial<SessionLimits> | undefined,
  onEvent: OnEvent | undefined,
  lane: 'auto' | 'ring' | 'socket' = 'auto',
): SessionSettings {
  return { ...checkSessionOptions({ limits, lane, onEvent }, undefined) };
}

async function closeBoth(near: Session, far: Session): Promise<void> {
  await Promise.all([near.close({ deadlineMs: 1000 }), far.close({ deadlineMs: 1000 })]);
}
