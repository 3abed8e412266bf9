// SPDX-License-Identifier: MIT
// The door of a listener: who may come in, how many at once, and what becomes of them when it
// closes.

import type { Socket } from 'node:net';
import { resolve } from 'node:path';
import type { NativeAddon } from '../addon/addon-api.ts';
import { AsyncQueue } from '../base/async-queue.ts';
import { nowMs } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { emitEvent, type OnEvent } from '../base/events.ts';
import { ranges } from '../base/limits.ts';
import { checkInteger, checkKeys } from '../base/misuse.ts';
import type { Peer } from '../base/peer.ts';
import { quiet } from '../base/quiet.ts';
import { notInTime, withDeadline } from '../open/time-limit.ts';
import { atExit } from '../uds/exit-cleanup.ts';
import { DescriptorWire } from '../uds/hello-wire.ts';
import { type KnownPeer, kernelPeer, ownUid } from '../uds/peer-credentials.ts';
import { authorize, type PeerPolicy } from '../uds/peer-policy.ts';
import { listenAtPlainPath, type PlainServer } from '../uds/plain-path.ts';
import { newPace, readableWaits } from '../uds/readable-waits.ts';
import { removePrivateDirectory, SocketDirectory } from '../uds/socket-directory.ts';
import type { BindOptions } from '../uds/socket-file.ts';
import { ListeningPath } from '../uds/watched-path.ts';
import { type PendingHello, PendingHellos } from './pending-hellos.ts';
import { full, SessionCount } from './session-count.ts';

/** Checked options that every listener has. */
export interface AcceptorSettings {
  readonly path: string;
  readonly privateDirectory: string | undefined;
  readonly onEvent: OnEvent | undefined;
  readonly authorize: PeerPolicy | undefined;
  readonly helloTimeoutMs: number;
  readonly hellosMax: number;
  readonly sessionsMax: number;
  readonly sessionsPerUidMax: number;
  readonly sessionsPerProcessMax: number;
  readonly bind: BindOptions & { readonly unlinkOnClose: boolean };
  readonly unsafeDirectory: boolean;
  /** undefined: identity is by path permissions. */
  readonly native: NativeAddon | undefined;
  readonly pathPeer: Peer | undefined;
}

const exhaustedPauseMs = 1_000;
/** So many connections in their hello at once are no crowd. */
const crowdMin = 32;

/** A connection that a listener lets in: a session, or a plain one. */
export interface AcceptedConnection {
  readonly peer: Peer;
  readonly closed: Promise<unknown>;
  /** The connection was taken from the listener, or will never be. */
  onTaken?(): void;
  close(options: { readonly deadlineMs: number }): Promise<void>;
}

/** Asked once per guest, when it is known who it is: why there is no room, or undefined. */
type Admit = () => SidecallError | undefined;

/** The steps for a connection whose peer the policy has accepted. */
export interface ConnectionHandlers<G extends AcceptedConnection> {
  /** Guests speak first: in a crowd, one that has said nothing yet costs next to nothing. */
  readonly guestsSpeakFirst: boolean;
  /** Owns the descriptor from here on, also where it throws. */
  receive(arrival: {
    readonly native: NativeAddon;
    readonly fd: number;
    readonly peer: Peer;
    readonly admit: Admit;
    readonly signal: AbortSignal;
    readonly wire: DescriptorWire;
  }): Promise<G>;
  /** The same without the addon. */
  receiveStream(arrival: {
    readonly socket: Socket;
    readonly peer: Peer;
    readonly admit: Admit;
    readonly signal: AbortSignal;
  }): Promise<G>;
  /** No more come; those that are in are about to be closed. */
  onClosing(): Promise<void>;
}

/** One path, and whoever came in by it. */
export class PathAcceptor<G extends AcceptedConnection> {
  /** Absolute path of the socket. */
  readonly path: string;
  /** Resolves (never rejects) once {@link PathAcceptor.close} is done. */
  readonly closed: Promise<void>;
  readonly #settings: AcceptorSettings;
  readonly #host: ConnectionHandlers<G>;
  readonly #hellos: PendingHellos;
  readonly #guests = new Set<G>();
  readonly #counts: SessionCount;
  readonly #queue = new AsyncQueue<G>();
  #isServing = false;
  #forgetDirectory: (() => void) | undefined;
  #isClosing = false;
  #listening: ListeningPath | undefined;
  #plain: PlainServer | undefined;
  #exhaustedAt = Number.NEGATIVE_INFINITY;
  #closing: Promise<void> | undefined;
  #resolveClosed!: () => void;

  private constructor(settings: AcceptorSettings, host: ConnectionHandlers<G>) {
    this.path = resolve(settings.path);
    this.#settings = settings;
    this.#host = host;
    this.#hellos = new PendingHellos(settings.hellosMax);
    this.#counts = new SessionCount(settings);
    this.closed = new Promise((done) => {
      this.#resolveClosed = done;
    });
  }

  static async open<G extends AcceptedConnection>(
    settings: AcceptorSettings,
    host: ConnectionHandlers<G>,
  ): Promise<PathAcceptor<G>> {
    const door = new PathAcceptor(settings, host);
    const { native } = settings;
    if (native === undefined) await door.#listenByPath();
    else door.#listenByKernel(native);
    const { privateDirectory } = settings;
    // Behind the cleanup of the socket: by then the directory is empty.
    if (privateDirectory !== undefined) {
      door.#forgetDirectory = atExit(() => removePrivateDirectory(privateDirectory));
    }
    return door;
  }

  /** Guests at this moment. */
  get count(): number {
    return this.#guests.size;
  }

  /** Guests are looked after, and need not be iterated. */
  serve(): void {
    this.#isServing = true;
    if (this.#queue.hasReader) return;
    for (const guest of this.#guests) guest.onTaken?.();
    this.#queue.clear();
  }

  reader(): AsyncIterator<G, undefined> {
    return this.#queue.reader();
  }

  /** Twice is once. */
  close(options: { readonly deadlineMs?: number | undefined } = {}): Promise<void> {
    return quiet(this.#checkAndClose(options));
  }

  async #checkAndClose(options: { readonly deadlineMs?: number | undefined }): Promise<void> {
    checkKeys('close()', options, ['deadlineMs']);
    const deadlineMs = checkInteger('deadlineMs', options.deadlineMs, ranges.closeDeadlineMs);
    this.#closing ??= this.#close(deadlineMs);
    await this.#closing;
  }

  ref(): void {
    this.#listening?.ref();
    this.#plain?.server.ref();
  }

  unref(): void {
    this.#listening?.unref();
    this.#plain?.server.unref();
  }

  /** @internal */
  onConnection(fd: number): void {
    const native = this.#settings.native as NativeAddon;
    const ticket = this.#enterByKernel(native, fd);
    if (ticket === undefined) {
      native.closeDescriptor(fd);
      return;
    }
    ticket.hasUnread = () => hasUnread(native, fd);
    const isCrowd = this.#hellos.size > crowdMin;
    if (!isCrowd || !this.#host.guestsSpeakFirst || ticket.uid !== ownUid()) {
      this.#begin(native, fd, ticket);
      return;
    }
    // The connection's turn comes with its first byte. `#begin` finds out what else ended the wait.
    const waits = readableWaits(native);
    const wait = waits.wait({
      fd,
      owner: ticket.owner,
      pace: newPace(),
      endAt: ticket.enteredAt + this.#settings.helloTimeoutMs,
      isFresh: true,
      onEnd: () => this.#begin(native, fd, ticket),
    });
    ticket.onAbort = () => waits.end(wait);
  }

  #begin(native: NativeAddon, fd: number, ticket: PendingHello): void {
    const known = this.#identify(native, fd);
    const refusal = this.#refusalOf(ticket);
    if (known === undefined || refusal !== undefined) {
      // Its hello may lie in the kernel, with a descriptor whose close blocks.
      if (ticket.hasUnread()) native.closeStranger(fd, ticket.owner);
      else native.closeDescriptor(fd);
      this.#hellos.leave(ticket);
      if (known !== undefined && refusal !== undefined) this.#report(refusal, known.peer);
      return;
    }
    const { peer } = known;
    void this.#meet(ticket, peer, async (meeting, signal) => {
      const wire = new DescriptorWire(native, fd, signal);
      ticket.silentSince = () => wire.silentSince;
      await this.#authorize(native, fd, known, signal);
      const admit = (): SidecallError | undefined => this.#admit(meeting, peer);
      return this.#host.receive({ native, fd, peer, admit, signal, wire });
    });
  }

  /** @internal */
  onDescriptorsExhausted(cause: unknown): void {
    const now = nowMs();
    if (now - this.#exhaustedAt < exhaustedPauseMs) return;
    this.#exhaustedAt = now;
    const text = `${this.path}: no file descriptor is left to accept connections`;
    const error = new SidecallError('ERR_SIDECALL_LIMIT_DESCRIPTORS', text, { cause });
    emitEvent(this.#settings.onEvent, { type: 'limit', error, peer: undefined });
  }

  /** @internal */
  onPathLost(error: SidecallError): void {
    emitEvent(this.#settings.onEvent, { type: 'path-lost', error, peer: undefined });
  }

  #listenByKernel(native: NativeAddon): void {
    const { bind, unsafeDirectory } = this.#settings;
    const trust = { owners: [ownUid(), 0], unsafeDirectory };
    const directory = new SocketDirectory(native, this.path, trust);
    this.#listening = new ListeningPath(native, directory, bind, this);
  }

  async #listenByPath(): Promise<void> {
    const { bind, unsafeDirectory } = this.#settings;
    this.#plain = await listenAtPlainPath(this.path, { ...bind, unsafeDirectory }, this);
  }

  /** @internal */
  onStream(socket: Socket): void {
    const { authorize: policy, pathPeer } = this.#settings;
    const peer = pathPeer as Peer;
    const ticket = this.#enter(peer);
    if (ticket === undefined) {
      socket.destroy();
      return;
    }
    void this.#meet(ticket, peer, async (meeting, signal) => {
      try {
        signal.throwIfAborted();
        if (policy !== undefined) await authorize(policy, { peer, isAlive: undefined }, signal);
      } catch (error) {
        socket.destroy();
        throw error;
      }
      const admit = (): SidecallError | undefined => this.#admit(meeting, peer);
      return this.#host.receiveStream({ socket, peer, admit, signal });
    });
  }

  /** Why a connection that has waited for its turn goes no further; undefined: it does. */
  #refusalOf(ticket: PendingHello): SidecallError | undefined {
    if (ticket.reason !== undefined) return ticket.reason;
    // A program that is told of a refusal may close the listener in the middle of `enter()`.
    if (this.#isClosing) return new SidecallError('ERR_SIDECALL_CLOSED');
    const { helloTimeoutMs } = this.#settings;
    if (nowMs() - ticket.enteredAt < helloTimeoutMs) return undefined;
    return notInTime(this.#what, helloTimeoutMs);
  }

  get #what(): string {
    return `a connection to ${this.path}`;
  }

  /**
   * One connection from accept to guest. Never throws: what goes wrong is that connection's event.
   */
  async #meet(
    ticket: PendingHello,
    peer: Peer,
    attempt: (meeting: PendingConnection, signal: AbortSignal) => Promise<G>,
  ): Promise<void> {
    const meeting: PendingConnection = { isAdmitted: false };
    try {
      const { helloTimeoutMs } = this.#settings;
      const elapsedMs = nowMs() - ticket.enteredAt;
      const guest = await withDeadline(
        this.#what,
        helloTimeoutMs,
        ticket.signal,
        (signal) => attempt(meeting, signal),
        elapsedMs,
      );
      this.#adopt(guest);
    } catch (error) {
      if (meeting.isAdmitted) this.#counts.release(peer);
      this.#report(SidecallError.from(error), peer);
    } finally {
      this.#hellos.leave(ticket);
    }
  }

  /** The kernel's word. undefined: it has none, and the connection is refused. */
  #identify(native: NativeAddon, fd: number): KnownPeer | undefined {
    try {
      return kernelPeer(native, fd, 'connect');
    } catch (error) {
      this.#report(SidecallError.from(error), undefined);
      return undefined;
    }
  }

  /**
   * A place among those that are in their hello, for whom the kernel names. undefined: there is
   * none.
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

  /** The policy's word. Closes the descriptor where it throws. */
  async #authorize(
    native: NativeAddon,
    fd: number,
    known: KnownPeer,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      signal.throwIfAborted();
      await authorize(this.#settings.authorize, known, signal);
    } catch (error) {
      native.closeDescriptor(fd);
      throw error;
    }
  }

  #admit(meeting: PendingConnection, peer: Peer): SidecallError | undefined {
    const refusal = this.#isClosing ? full('the listener is closing') : this.#counts.admit(peer);
    meeting.isAdmitted = refusal === undefined;
    return refusal;
  }

  #adopt(guest: G): void {
    this.#guests.add(guest);
    void guest.closed.then(() => {
      this.#guests.delete(guest);
      this.#queue.remove(guest);
      this.#counts.release(guest.peer);
    });
    if (this.#isClosing) void guest.close({ deadlineMs: 0 });
    else if (!this.#isServing || this.#queue.hasReader) this.#queue.push(guest);
    else guest.onTaken?.();
  }

  #report(error: SidecallError, peer: Peer | undefined): void {
    if (this.#isClosing) return;
    const { onEvent } = this.#settings;
    const type = error.code === 'ERR_SIDECALL_LIMIT_CONNECTIONS' ? 'limit' : 'refused';
    emitEvent(onEvent, { type, error, peer });
  }

  async #close(deadlineMs: number): Promise<void> {
    this.#isClosing = true;
    this.#hellos.abort(new SidecallError('ERR_SIDECALL_CLOSED'));
    try {
      this.#listening?.close();
      this.#plain?.close();
      this.#queue.end();
      const { privateDirectory } = this.#settings;
      if (privateDirectory !== undefined) removePrivateDirectory(privateDirectory);
      this.#forgetDirectory?.();
    } finally {
      await this.#host.onClosing();
      await Promise.all([...this.#guests].map((guest) => guest.close({ deadlineMs })));
      this.#resolveClosed();
    }
  }
}

/** A connection that is not a session yet. */
interface PendingConnection {
  isAdmitted: boolean;
}

function hasUnread(native: NativeAddon, fd: number): boolean {
  try {
    return native.queuedBytes(fd) > 0;
  } catch {
    return false; // closed: its meeting is about to end
  }
}
