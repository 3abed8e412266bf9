// SPDX-License-Identifier: MIT
// Sessions within this process, over which the calls of gRPC callers are made again: one for each
// caller, since its far end says who calls.

import { type Clock, systemClock } from '../../base/clock.ts';
import type { OnEvent } from '../../base/events.ts';
import { checkLimits, ranges, sessionRanges } from '../../base/limits/option-limits.ts';
import type { Peer } from '../../base/peer.ts';
import type { Client, Methods, Service } from '../../rpc/contract/method-types.ts';
import type { Registry } from '../../rpc/serving/registry.ts';
import { Session } from '../../rpc/session/session.ts';
import { loopbackPair } from '../../wire/loopback-transport.ts';

const gigabyte = ranges.blockBytes.max;
// grpc-js has bounded messages and calls before we see them.
const limits = checkLimits({
  receiveMaxBytes: gigabyte,
  sendQueueMaxBytes: gigabyte,
  metadataMaxBytes: sessionRanges.metadataMaxBytes.max,
  streamsMax: sessionRanges.streamsMax.max,
  sessionWindowBytes: sessionRanges.sessionWindowBytes.max,
});
/** Time for handlers that run: all of it. */
const lastCalls = { deadlineMs: ranges.closeDeadlineMs.max };
/** Time between two looks for sessions without calls, which are closed at the second one. */
const lookMs = 100;

/** The two ends of a session whose peer is one caller. */
export class CallerSession {
  readonly #near: Session;
  readonly #far: Session;
  readonly #clients = new Map<Service, Client<Methods>>();
  /** Calls in flight. */
  calls = 0;
  /** Looks at which it had no calls, one after the other. */
  idleLooks = 0;

  constructor(peer: Peer, registry: Registry, onEvent: OnEvent | undefined) {
    const [nearEnd, farEnd] = loopbackPair();
    const common = { own: limits, remote: limits, laneReason: 'a caller of gRPC', peer };
    this.#near = new Session({ ...common, transport: nearEnd });
    this.#far = new Session({
      ...common,
      transport: farEnd,
      registry,
      introspection: false,
      startsAll: true,
      onEvent,
    });
  }

  /** The functions of a contract, the same each time. */
  client(service: Service): Client<Methods> {
    let client = this.#clients.get(service);
    if (client === undefined) {
      client = this.#near.client(service);
      this.#clients.set(service, client);
    }
    return client;
  }

  /** Resolves when the handlers that run have settled. */
  async close(): Promise<void> {
    await Promise.all([this.#near.close(lastCalls), this.#far.close(lastCalls)]);
  }
}

/** The sessions of the callers of one server. */
export class CallerSessions {
  readonly #registry: Registry;
  readonly #onEvent: OnEvent | undefined;
  readonly #clock: Clock;
  readonly #sessions = new Map<Peer | string, CallerSession>();
  #isLooking = false;

  constructor(registry: Registry, onEvent: OnEvent | undefined, clock = systemClock) {
    this.#registry = registry;
    this.#onEvent = onEvent;
    this.#clock = clock;
  }

  /** The session of a caller, for one more call, which ends by {@link CallerSessions.leave}. */
  enter(peer: Peer): CallerSession {
    const key = keyOf(peer);
    let session = this.#sessions.get(key);
    if (session === undefined) {
      session = this.alone(peer);
      this.#sessions.set(key, session);
    }
    session.calls += 1;
    this.#lookLater();
    return session;
  }

  leave(session: CallerSession): void {
    session.calls -= 1;
    session.idleLooks = 0;
  }

  /** A session that no other call uses. */
  alone(peer: Peer): CallerSession {
    return new CallerSession(peer, this.#registry, this.#onEvent);
  }

  #lookLater(): void {
    if (this.#isLooking) return;
    this.#isLooking = true;
    this.#clock.setTimeout(() => this.#look(), lookMs).unref();
  }

  #look(): void {
    this.#isLooking = false;
    for (const [key, session] of this.#sessions) {
      if (session.calls > 0) continue;
      session.idleLooks += 1;
      if (session.idleLooks < 2) continue;
      this.#sessions.delete(key);
      void session.close();
    }
    if (this.#sessions.size > 0) this.#lookLater();
  }
}

/** The kernel tells a process by its connection; `authenticate` a caller by origin and name. */
function keyOf(peer: Peer): Peer | string {
  const isNamed = peer.origin === 'tls' || peer.origin === 'secret';
  return isNamed ? JSON.stringify([peer.origin, peer.name]) : peer;
}
