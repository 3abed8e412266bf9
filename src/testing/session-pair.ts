// SPDX-License-Identifier: MIT
// `sidecall/testing`: two sessions in one process, so that handlers and callers are tested without
// others.
import type { OnEvent } from '../base/events.ts';
import { checkLimits, type SessionLimits } from '../base/limits/option-limits.ts';
import { checkBoolean, checkFunction, checkKeys, checkObject } from '../base/misuse.ts';
import type { Peer } from '../base/peer.ts';
import { held } from '../rpc/serving/hold-door.ts';
import { Registry, type Services, servedSetOf } from '../rpc/serving/registry.ts';
import { Session } from '../rpc/session/session.ts';
import { loopbackPair } from '../wire/loopback-transport.ts';

/** One end of a pair. */
export interface PairSide {
  /** As of `connect()`. */
  readonly limits?: Partial<SessionLimits> | undefined;
  /** The peer that this end sees: parts of a {@link Peer}, completed by this process. */
  readonly peer?: Partial<Peer> | undefined;
  readonly introspection?: boolean | undefined;
  /** As of `connect()`: a list of `implement(…)`, or a `server()`. */
  readonly services?: Services | undefined;
  readonly onEvent?: OnEvent | undefined;
}

/** Options of {@link createSessionPair}. */
export interface PairOptions {
  readonly near?: PairSide | undefined;
  readonly far?: PairSide | undefined;
}

/** Two sessions that are each other's peer. */
export interface SessionPair extends AsyncDisposable {
  readonly near: Session;
  readonly far: Session;
  /** Both ends see that the other is gone, as when a process dies. */
  cut(): void;
  /** Closes both in order. */
  close(): Promise<void>;
}

/**
 * Two sessions over memory of this process. Everything is as between two processes, messages are
 * encoded and decoded, and arrive in a later turn of the event loop; `peer.origin` is `loopback`.
 * @throws {TypeError | RangeError} for misuse.
 */
export function createSessionPair(options: PairOptions = {}): SessionPair {
  checkKeys('createSessionPair()', options, ['near', 'far']);
  const { near: nearSide = {}, far: farSide = {} } = options;
  const [nearEnd, farEnd] = loopbackPair();
  const nearLimits = checkSide('near', nearSide);
  const farLimits = checkSide('far', farSide);
  const near = sessionOver(nearEnd, nearSide, nearLimits, farLimits);
  const far = sessionOver(farEnd, farSide, farLimits, nearLimits);
  // Both were checked to be open in this turn, so that neither promise rejects.
  void held(nearSide.services, near);
  void held(farSide.services, far);
  const close = async (): Promise<void> => {
    await Promise.all([near.close(), far.close()]);
  };
  return { near, far, cut: () => nearEnd.destroy(), close, [Symbol.asyncDispose]: close };
}

function checkSide(name: string, side: PairSide): SessionLimits {
  checkKeys(name, side, ['limits', 'peer', 'introspection', 'services', 'onEvent']);
  checkFunction('onEvent', side.onEvent);
  checkObject('peer', side.peer);
  if (side.introspection !== undefined) checkBoolean('introspection', side.introspection);
  new Registry().addAll(side.services);
  return checkLimits({
    ...servedSetOf(side.services)?.limits,
    ...checkObject('limits', side.limits),
  });
}

function sessionOver(
  transport: ReturnType<typeof loopbackPair>[0],
  { peer, introspection, services, onEvent }: PairSide,
  own: SessionLimits,
  remote: SessionLimits,
): Session {
  return new Session({
    transport,
    peer: { ...thisProcess(), ...peer },
    own,
    remote,
    laneReason: 'a pair of sessions in one process',
    introspection,
    services,
    onEvent,
  });
}

function thisProcess(): Peer {
  return {
    origin: 'loopback',
    capturedAt: 'connect',
    pid: process.pid,
    pidIsHint: false,
    uid: process.geteuid?.(),
    gid: process.getegid?.(),
    groups: process.getgroups?.() ?? [],
  };
}
