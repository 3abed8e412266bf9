// SPDX-License-Identifier: MIT
// A listener: who may become a session, how many, and who serves them.
import type { Socket } from 'node:net';
import { resolve } from 'node:path';
import { SidecallError } from './errors.ts';
import {
  establishOverDescriptor,
  establishOverStream,
  type SessionSettings,
  withDeadline,
} from './establish.ts';
import { emitEvent } from './events.ts';
import { ranges } from './limits.ts';
import type { NativeAddon } from './native.ts';
import { checkInteger, checkKeys } from './options.ts';
import type { Peer } from './peer.ts';
import type { Health } from './rpc/health.ts';
import type { Registry, ServeOptions } from './rpc/registry.ts';
import type { Handlers, Methods, Service } from './rpc/service.ts';
import type { Session } from './rpc/session.ts';
import { SessionQueue } from './session-queue.ts';
import type { BindOptions } from './uds/bind.ts';
import { removePrivateDirectory, SocketDirectory } from './uds/directory.ts';
import { atExit } from './uds/exit-cleanup.ts';
import { HelloBook, type HelloTicket } from './uds/hello-book.ts';
import { DescriptorWire } from './uds/hello-wire.ts';
import { ListeningPath } from './uds/listening-path.ts';
import { authorize, kernelPeer, ownUid, type PeerPolicy } from './uds/peer.ts';
import { listenAtPlainPath, type PlainListener } from './uds/plain-path.ts';

/** Checked options of `listen()`. */
export interface ListenerSettings {
  readonly path: string;
  readonly privateDirectory: string | undefined;
  readonly session: SessionSettings;
  readonly registry: Registry;
  readonly authorize: PeerPolicy | undefined;
  readonly helloTimeoutMs: number;
  readonly hellosMax: number;
  readonly sessionsMax: number;
  readonly sessionsPerUidMax: number;
  readonly bind: BindOptions & { readonly unlinkOnClose: boolean };
  readonly unsafeDirectory: boolean;
  /** undefined: identity is by path permissions. */
  readonly native: NativeAddon | undefined;
  readonly pathPeer: Peer | undefined;
}

const exhaustedPauseMs = 1_000;

/** Listens at a path. Iterate it for sessions, or {@link Listener.serve} all of them. */
export class Listener implements AsyncIterable<Session>, AsyncDisposable {
  /** Absolute path of the socket, to give to whoever shall connect. */
  readonly path: string;
  /** Resolves (never rejects) once {@link Listener.close} is done. */
  readonly closed: Promise<void>;
  readonly #settings: ListenerSettings;
  readonly #hellos: HelloBook;
  readonly #sessions = new Set<Session>();
  readonly #perUid = new Map<number | undefined, number>();
  readonly #queue = new SessionQueue();
  #admitted = 0;
  #isServing = false;
  #forgetDirectory: (() => void) | undefined;
  #isClosing = false;
  #listening: ListeningPath | undefined;
  #plain: PlainListener | undefined;
  #exhaustedAt = Number.NEGATIVE_INFINITY;
  #closing: Promise<void> | undefined;
  #resolveClosed!: () => void;

  private constructor(settings: ListenerSettings) {
    this.path = resolve(settings.path);
    this.#settings = settings;
    this.#hellos = new HelloBook(settings.hellosMax);
    this.closed = new Promise((done) => {
      this.#resolveClosed = done;
    });
  }

  /** @internal Use `listen()`. */
  static async open(settings: ListenerSettings): Promise<Listener> {
    const listener = new Listener(settings);
    const { native } = settings;
    if (native === undefined) await listener.#listenByPath();
    else listener.#listenByKernel(native);
    const { privateDirectory } = settings;
    // Behind the cleanup of the socket: by then the directory is empty.
    if (privateDirectory !== undefined) {
      listener.#forgetDirectory = atExit(() => removePrivateDirectory(privateDirectory));
    }
    return listener;
  }

  /** Sessions open at this moment. */
  get sessionCount(): number {
    return this.#sessions.size;
  }

  /**
   * Answers calls of a service on every session, present and future. Sessions then need not be iterated.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where a handler is missing or the service is served.
   */
  serve<M extends Methods>(
    service: Service<M>,
    handlers: Handlers<M>,
    options?: ServeOptions,
  ): void {
    this.#settings.registry.add(service, handlers, options);
    this.#isServing = true;
    if (!this.#queue.hasReader) this.#queue.clear();
  }

  /** What all sessions say of our services to whoever asks. `close()` shuts it down first. */
  get health(): Health {
    return this.#settings.registry.health;
  }

  /** Sessions in the order they were opened. Ends when the listener closes; leaving the loop does not close it. */
  [Symbol.asyncIterator](): AsyncIterator<Session, undefined> {
    return this.#queue.reader();
  }

  /**
   * Stops listening, removes the socket file, and closes all sessions in order. Twice is once.
   * @param options.deadlineMs for calls in flight: default 5,000; 0 to 600,000.
   */
  async close(options: { readonly deadlineMs?: number | undefined } = {}): Promise<void> {
    checkKeys('close()', options, ['deadlineMs']);
    const deadlineMs = checkInteger('deadlineMs', options.deadlineMs, ranges.closeDeadlineMs);
    this.#closing ??= this.#close(deadlineMs);
    await this.#closing;
  }

  /** The listener keeps the process alive (the default). */
  ref(): void {
    this.#listening?.ref();
    this.#plain?.server.ref();
  }

  /** The listener alone does not keep the process alive. Its sessions still do: `unref()` those, too. */
  unref(): void {
    this.#listening?.unref();
    this.#plain?.server.unref();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal */
  onConnection(fd: number): void {
    const native = this.#settings.native as NativeAddon;
    const ticket = this.#hellos.enter();
    void this.#meet(ticket, async (meeting, signal) => {
      const wire = new DescriptorWire(native, fd, signal);
      ticket.silentSince = () => wire.lastByteAt;
      const peer = await this.#authorize(native, fd, meeting, signal);
      const role = { side: 'accepting', admit: () => this.#admit(meeting, peer) } as const;
      return establishOverDescriptor(native, fd, peer, role, this.#settings.session, signal, wire);
    });
  }

  /** @internal */
  onDescriptorsExhausted(cause: unknown): void {
    const now = performance.now();
    if (now - this.#exhaustedAt < exhaustedPauseMs) return;
    this.#exhaustedAt = now;
    const words = `${this.path}: no file descriptor is left to accept connections`;
    const error = new SidecallError('ERR_SIDECALL_LIMIT_DESCRIPTORS', words, { cause });
    emitEvent(this.#settings.session.onEvent, { type: 'limit', error, peer: undefined });
  }

  /** @internal */
  onPathLost(error: SidecallError): void {
    emitEvent(this.#settings.session.onEvent, { type: 'path-lost', error, peer: undefined });
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
    const ticket = this.#hellos.enter();
    const { session, authorize: policy, pathPeer } = this.#settings;
    const peer = pathPeer as Peer;
    void this.#meet(ticket, async (meeting, signal) => {
      meeting.peer = peer;
      try {
        signal.throwIfAborted();
        if (policy !== undefined) await authorize(policy, { peer, isAlive: undefined }, signal);
      } catch (error) {
        socket.destroy();
        throw error;
      }
      const role = { side: 'accepting', admit: () => this.#admit(meeting, peer) } as const;
      return establishOverStream(socket, peer, role, session, signal);
    });
  }

  /** One connection from accept to session. Never throws: what goes wrong is that connection's event. */
  async #meet(
    ticket: HelloTicket,
    attempt: (meeting: Meeting, signal: AbortSignal) => Promise<Session>,
  ): Promise<void> {
    const meeting: Meeting = { peer: undefined, isAdmitted: false };
    try {
      const what = `a connection to ${this.path}`;
      const { helloTimeoutMs } = this.#settings;
      const session = await withDeadline(what, helloTimeoutMs, ticket.signal, (signal) =>
        attempt(meeting, signal),
      );
      this.#adopt(session);
    } catch (error) {
      if (meeting.isAdmitted) this.#dismiss(meeting.peer as Peer);
      this.#report(SidecallError.from(error), meeting.peer);
    } finally {
      this.#hellos.leave(ticket);
    }
  }

  /** The kernel's word and the policy's. Closes the descriptor where it throws. */
  async #authorize(
    native: NativeAddon,
    fd: number,
    meeting: Meeting,
    signal: AbortSignal,
  ): Promise<Peer> {
    try {
      signal.throwIfAborted();
      const known = kernelPeer(native, fd, 'connect');
      meeting.peer = known.peer;
      await authorize(this.#settings.authorize, known, signal);
      return known.peer;
    } catch (error) {
      native.closeDescriptor(fd);
      throw error;
    }
  }

  #admit(meeting: Meeting, peer: Peer): SidecallError | undefined {
    const { sessionsMax, sessionsPerUidMax } = this.#settings;
    const ofUid = this.#perUid.get(peer.uid) ?? 0;
    if (this.#isClosing) return full('the listener is closing');
    if (this.#admitted >= sessionsMax) return full(`${sessionsMax} sessions are open`);
    if (ofUid >= sessionsPerUidMax) {
      return full(`uid ${peer.uid} has ${sessionsPerUidMax} sessions open`);
    }
    this.#admitted += 1;
    this.#perUid.set(peer.uid, ofUid + 1);
    meeting.isAdmitted = true;
    return undefined;
  }

  #dismiss(peer: Peer): void {
    this.#admitted -= 1;
    const left = (this.#perUid.get(peer.uid) ?? 1) - 1;
    if (left > 0) this.#perUid.set(peer.uid, left);
    else this.#perUid.delete(peer.uid);
  }

  #adopt(session: Session): void {
    this.#sessions.add(session);
    void session.closed.then(() => {
      this.#sessions.delete(session);
      this.#queue.remove(session);
      this.#dismiss(session.peer);
    });
    if (this.#isClosing) void session.close({ deadlineMs: 0 });
    else if (!this.#isServing || this.#queue.hasReader) this.#queue.push(session);
  }

  #report(error: SidecallError, peer: Peer | undefined): void {
    if (this.#isClosing) return;
    const { onEvent } = this.#settings.session;
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
      await this.#settings.registry.shutDown();
      await Promise.all([...this.#sessions].map((session) => session.close({ deadlineMs })));
      this.#resolveClosed();
    }
  }
}

/** What is known of a connection that is not a session yet. */
interface Meeting {
  peer: Peer | undefined;
  isAdmitted: boolean;
}

function full(words: string): SidecallError {
  return new SidecallError('ERR_SIDECALL_LIMIT_CONNECTIONS', words);
}
