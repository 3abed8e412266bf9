// SPDX-License-Identifier: MIT
// The steps of one connection from accept to session: a place among the pending hellos, the
// credentials from the kernel, the policy, the hello.

import type { Socket } from 'node:net';
import type { NativeAddon } from '../addon/addon-api.ts';
import { systemClock, type Timer } from '../base/clock.ts';
import { SidecallError, withoutStack } from '../base/errors.ts';
import { emitEvent } from '../base/events.ts';
import { tuning } from '../base/limits/internal-limits.ts';
import type { Peer } from '../base/peer.ts';
import { notInTime } from '../open/time-limit.ts';
import { HelloFeature, type PeerHello } from '../uds/hello-bytes.ts';
import type { DescriptorWire } from '../uds/hello-wire.ts';
import { type Arrival, dropArrival } from '../uds/net-socket.ts';
import { type KnownPeer, kernelPeer, ownerOf, ownUid } from '../uds/peer-credentials.ts';
import { authorize, type PeerRules, refusalByRules } from '../uds/peer-policy.ts';
import { newPace, readableWaits } from '../uds/readable-waits.ts';
import type {
  AcceptedConnection,
  AcceptorSettings,
  Admit,
  ConnectionHandlers,
} from './accepted-connection.ts';
import { type PendingHello, PendingHellos } from './pending-hellos.ts';
import { full, SessionCount } from './session-count.ts';

/**
 * Pending connections above which there is a crowd: a connection then waits for its first byte
 * before its hello begins.
 */
const crowdThreshold = 32;

/** Successors, and programs that ask which version listens, beyond the limits of sessions. */
const successorsMax = 8;

const never = new AbortController().signal;

/** A connection that is not a session yet. */
interface PendingConnection {
  isAdmitted: boolean;
}

/** A connection that was let in; undefined: it was refused, which is that connection's event. */
type Passed<C> = Promise<C | undefined>;

export class ConnectionGate<C extends AcceptedConnection> {
  readonly #what: string;
  readonly #settings: AcceptorSettings;
  readonly #handlers: ConnectionHandlers<C>;
  readonly #hellos: PendingHellos;
  readonly #counts: SessionCount;
  #isClosing = false;
  /**
   * The path may be taken over: successors of our own user find room beyond the limits, since a
   * full listener could not be replaced otherwise.
   */
  isHandingOver = false;

  constructor(path: string, settings: AcceptorSettings, handlers: ConnectionHandlers<C>) {
    this.#what = `a connection to ${path}`;
    this.#settings = settings;
    this.#handlers = handlers;
    this.#hellos = new PendingHellos(settings.hellosMax);
    this.#counts = new SessionCount(settings);
  }

  /** Connections without a hello, by a policy of rules: none of them has to wait. */
  get decidesAtOnce(): boolean {
    const { authorize: policy } = this.#settings;
    return this.#handlers.receiveAtOnce !== undefined && typeof policy !== 'function';
  }

  /** Owns the connection from here on. undefined: it was refused. */
  passAtOnce(native: NativeAddon, arrival: Arrival): C | undefined {
    const known = this.#identify(native, arrival.fd);
    const rules = this.#settings.authorize as PeerRules | undefined;
    const refusal =
      known && (refusalByRules(rules, known) ?? this.#admit({ isAdmitted: false }, known.peer));
    if (known === undefined || refusal !== undefined) {
      dropArrival(native, arrival, unreadOwner(native, arrival.fd));
      if (refusal !== undefined) this.#report(refusal, known?.peer);
      return undefined;
    }
    try {
      return this.#handlers.receiveAtOnce?.(native, arrival, known.peer);
    } catch (error) {
      this.#counts.release(known.peer);
      this.#report(SidecallError.from(error), known.peer);
      return undefined;
    }
  }

  /** Owns the connection from here on. undefined: there was no place for it. */
  pass(native: NativeAddon, arrival: Arrival): Passed<C> | undefined {
    const { fd } = arrival;
    // A connection that the peer has closed already takes no place, which a live
    // one may need, and no time.
    // Where our side speaks first, a peer may end its half at once and still read.
    const isOver = this.#handlers.peersSpeakFirst && isPeerClosed(native, fd);
    const ticket = isOver ? undefined : this.#enterByKernel(native, fd);
    if (ticket === undefined) {
      if (isOver) this.#reportLeft(native, fd);
      dropArrival(native, arrival, undefined);
      return undefined;
    }
    ticket.hasUnread = () => hasUnread(native, fd);
    const isCrowd = this.#hellos.size > crowdThreshold;
    if (!isCrowd || !this.#handlers.peersSpeakFirst || ticket.uid !== ownUid()) {
      return this.#begin(native, arrival, ticket);
    }
    // The connection's turn comes with its first byte. `#begin` finds out what else ended the wait.
    return new Promise((resolve) => {
      const waits = readableWaits(native);
      const wait = waits.wait({
        fd,
        owner: ticket.owner,
        pace: newPace(),
        endAt: ticket.enteredAt + this.#settings.helloTimeoutMs,
        isFresh: true,
        onEnd: () => resolve(this.#begin(native, arrival, ticket)),
      });
      ticket.onAbort = () => waits.end(wait);
    });
  }

  /** The same for a listener without the addon. */
  passStream(socket: Socket): Passed<C> | undefined {
    const { authorize: policy, pathPeer } = this.#settings;
    const peer = pathPeer as Peer;
    const ticket = this.#enter(peer);
    if (ticket === undefined) {
      socket.destroy();
      return undefined;
    }
    return this.#admitInTime(ticket, peer, async (pending) => {
      const { signal } = ticket;
      try {
        signal.throwIfAborted();
        if (policy !== undefined) await authorize(policy, { peer, isAlive: undefined }, signal);
      } catch (error) {
        socket.destroy();
        throw error;
      }
      const admit: Admit = (hello) => this.#admit(pending, peer, hello);
      return this.#handlers.receiveStream({ socket, peer, admit, ticket });
    });
  }

  /** Connections on their way. */
  get pending(): number {
    return this.#hellos.size;
  }

  /** A connection that was let in is over: its place is free. */
  release(peer: Peer): void {
    this.#counts.release(peer);
  }

  /** Ends those that are in their hello, and lets in no more. */
  close(): void {
    this.#isClosing = true;
    this.#hellos.abort(new SidecallError('ERR_SIDECALL_CLOSED'));
  }

  #begin(native: NativeAddon, arrival: Arrival, ticket: PendingHello): Passed<C> | undefined {
    const { fd } = arrival;
    const known = this.#identify(native, fd);
    const refusal = this.#refusalOf(ticket);
    if (known === undefined || refusal !== undefined) {
      // Its hello may lie in the kernel, with a descriptor whose close blocks.
      dropArrival(native, arrival, ticket.hasUnread() ? ticket.owner : undefined);
      this.#hellos.remove(ticket);
      if (known !== undefined && refusal !== undefined) this.#report(refusal, known.peer);
      return undefined;
    }
    const { peer } = known;
    return this.#admitInTime(ticket, peer, async (pending) => {
      const onWire = (wire: DescriptorWire): void => {
        ticket.silentSince = () => wire.silentSince;
        ticket.workedMs = () => wire.workedMs;
      };
      ticket.silentSince = systemClock.nowMs; // while the policy decides, the peer has to wait
      await this.#authorize(native, arrival, known, ticket);
      const admit: Admit = (hello) => this.#admit(pending, peer, hello);
      return this.#handlers.receive({ native, arrival, peer, admit, ticket, onWire });
    });
  }

  /** Never rejects: what goes wrong is that connection's event. */
  async #admitInTime(
    ticket: PendingHello,
    peer: Peer,
    attempt: (pending: PendingConnection) => Promise<C>,
  ): Passed<C> {
    const pending: PendingConnection = { isAdmitted: false };
    const { helloTimeoutMs } = this.#settings;
    let timer: Timer | undefined;
    const watch = (): void => {
      const leftMs = ticket.enteredAt + helloTimeoutMs + extraMs(ticket) - systemClock.nowMs();
      // A timer may be a millisecond early.
      if (leftMs > 0) timer = systemClock.setTimeout(watch, Math.ceil(leftMs));
      else ticket.abort(notInTime(this.#what, helloTimeoutMs));
    };
    watch();
    try {
      return await attempt(pending);
    } catch (error) {
      if (pending.isAdmitted) this.#counts.release(peer);
      this.#report(SidecallError.from(error), peer);
      return undefined;
    } finally {
      systemClock.clearTimeout(timer);
      this.#hellos.remove(ticket);
    }
  }

  /** Why a connection that has waited for its turn goes no further; undefined: it does. */
  #refusalOf(ticket: PendingHello): SidecallError | undefined {
    if (ticket.reason !== undefined) return ticket.reason;
    // A program that is told of a refusal may close the listener in the middle of `enter()`.
    if (this.#isClosing) return new SidecallError('ERR_SIDECALL_CLOSED');
    const { helloTimeoutMs } = this.#settings;
    if (systemClock.nowMs() - ticket.enteredAt < helloTimeoutMs) return undefined;
    return notInTime(this.#what, helloTimeoutMs);
  }

  /** The credentials from the kernel. undefined: it has none, and the connection is refused. */
  #identify(native: NativeAddon, fd: number): KnownPeer | undefined {
    try {
      return kernelPeer(native, fd, 'connect');
    } catch (error) {
      this.#report(SidecallError.from(error), undefined);
      return undefined;
    }
  }

  /**
   * A place among the hellos, for the process that the kernel names. undefined: there is none.
   */
  #enterByKernel(native: NativeAddon, fd: number): PendingHello | undefined {
    try {
      return this.#hellos.enter(native.peerIds(fd));
    } catch (error) {
      const known = this.#identify(native, fd);
      if (known !== undefined) this.#report(SidecallError.from(error), known.peer);
      return undefined;
    }
  }

  #enter(peer: Peer): PendingHello | undefined {
    try {
      return this.#hellos.enter(peer);
    } catch (error) {
      this.#report(SidecallError.from(error), peer);
      return undefined;
    }
  }

  /** Applies the policy. Ends the connection where it throws. */
  async #authorize(
    native: NativeAddon,
    arrival: Arrival,
    known: KnownPeer,
    ticket: PendingHello,
  ): Promise<void> {
    const { authorize: policy } = this.#settings;
    try {
      if (ticket.reason !== undefined) throw ticket.reason;
      // Rules are compared at once, and need no signal.
      await authorize(policy, known, typeof policy === 'function' ? ticket.signal : never);
    } catch (error) {
      dropArrival(native, arrival, undefined);
      throw error;
    }
  }

  /** A connection that was over before its turn: the rest of its identity is not looked up. */
  #reportLeft(native: NativeAddon, fd: number): void {
    const text = `${processText(native, fd)} connected and left without a byte`;
    this.#report(
      withoutStack(() => new SidecallError('ERR_SIDECALL_PEER_GONE', text)),
      undefined,
    );
  }

  #admit(pending: PendingConnection, peer: Peer, hello?: PeerHello): SidecallError | undefined {
    const takesOver = ((hello?.features ?? 0) & HelloFeature.takesOver) !== 0;
    const isSuccessor = takesOver && this.isHandingOver && peer.uid === ownUid();
    const refusal = this.#isClosing
      ? full('the listener is closing')
      : this.#counts.admit(peer, isSuccessor ? successorsMax : 0);
    pending.isAdmitted = refusal === undefined;
    return refusal;
  }

  #report(error: SidecallError, peer: Peer | undefined): void {
    if (this.#isClosing) return;
    const { onEvent } = this.#settings;
    const type = error.code === 'ERR_SIDECALL_LIMIT_CONNECTIONS' ? 'limit' : 'refused';
    emitEvent(onEvent, { type, error, peer });
  }
}

/**
 * Time beyond the time-out of the hello: ours does not count where we make and check shared memory,
 * and the peer, which checks and maps ours, may take as long again.
 */
function extraMs({ workedMs }: PendingHello): number {
  return Math.min(2 * workedMs(), tuning.helloWorkMaxMs);
}

/** The process of a connection, as text. */
function processText(native: NativeAddon, fd: number): string {
  try {
    const { pid, uid } = native.peerIds(fd);
    return `process ${pid} of uid ${uid}`;
  } catch {
    return 'a process that the kernel does not name';
  }
}

function isPeerClosed(native: NativeAddon, fd: number): boolean {
  try {
    return native.isPeerClosed(fd);
  } catch {
    return false; // a later step finds the error
  }
}

/** The owner of bytes that wait in the connection, with which a descriptor may have come. */
function unreadOwner(native: NativeAddon, fd: number): number | undefined {
  try {
    return hasUnread(native, fd) ? ownerOf(native.peerIds(fd)) : undefined;
  } catch {
    return undefined;
  }
}

function hasUnread(native: NativeAddon, fd: number): boolean {
  try {
    return native.queuedBytes(fd) > 0;
  } catch {
    return false; // closed: the connection is about to end
  }
}
