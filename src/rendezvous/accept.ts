// SPDX-License-Identifier: MIT
// The life of a listener's path: it is bound, lets connections in, and closes with them.

import type { Socket } from 'node:net';
import type { NativeAddon } from '../addon/addon-api.ts';
import { AsyncQueue } from '../base/async-queue.ts';
import { atExit } from '../base/at-exit.ts';
import { systemClock } from '../base/clock.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { emitEvent } from '../base/events.ts';
import { quiet } from '../base/ignore-errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { checkInteger, checkKeys } from '../base/misuse.ts';
import { pause } from '../base/pause.ts';
import type { Arrival } from '../uds/net-socket.ts';
import { ownUid } from '../uds/peer-credentials.ts';
import { listenAtPlainPath, type PlainServer } from '../uds/plain-path.ts';
import { remedyAt, removePrivateDirectory } from '../uds/private-directory.ts';
import { absolutePath, SocketDirectory } from '../uds/socket-directory.ts';
import { type HeldPath, ListeningPath } from '../uds/watched-path.ts';
import type {
  AcceptedConnection,
  AcceptorSettings,
  ConnectionHandlers,
} from './accepted-connection.ts';
import { ConnectionGate } from './connection-gate.ts';

const exhaustedPauseMs = 1_000;
const helloLookMs = 2;
const never = new AbortController().signal;

/** One path, and the connections that it let in. */
export class PathAcceptor<C extends AcceptedConnection> {
  /** Absolute path of the socket. */
  readonly path: string;
  /** Resolves (never rejects) once {@link PathAcceptor.close} is done. */
  readonly closed: Promise<void>;
  readonly #settings: AcceptorSettings;
  readonly #handlers: ConnectionHandlers<C>;
  readonly #gate: ConnectionGate<C>;
  readonly #connections = new Set<C>();
  readonly #ending = new AbortController();
  readonly #queue = new AsyncQueue<C>();
  // The end of connections, from the moment at which the listener ends: of those, too, that come
  // meanwhile.
  #endOf: ((connection: C) => Promise<void>) | undefined;
  readonly #ends: Promise<void>[] = [];
  #isServing = false;
  /** Connections that were let in, ever. */
  ever = 0;
  #forgetDirectory: (() => void) | undefined;
  #listening: ListeningPath | undefined;
  #plain: PlainServer | undefined;
  #exhaustedAt = Number.NEGATIVE_INFINITY;
  #closing: Promise<void> | undefined;
  #resolveClosed!: () => void;

  private constructor(settings: AcceptorSettings, handlers: ConnectionHandlers<C>) {
    this.path = absolutePath(settings.path);
    this.#settings = settings;
    this.#handlers = handlers;
    this.#gate = new ConnectionGate(this.path, settings, handlers);
    this.closed = new Promise((done) => {
      this.#resolveClosed = done;
    });
  }

  static async open<C extends AcceptedConnection>(
    settings: AcceptorSettings,
    handlers: ConnectionHandlers<C>,
    held?: HeldPath,
  ): Promise<PathAcceptor<C>> {
    const acceptor = new PathAcceptor(settings, handlers);
    const { native } = settings;
    if (native === undefined) await acceptor.#listenByPath();
    else acceptor.#listenByKernel(native, held);
    const { privateDirectory } = settings;
    // Registered after the cleanup of the socket, so that the directory is
    // empty when it is removed.
    if (privateDirectory !== undefined) {
      acceptor.#forgetDirectory = atExit(() => removePrivateDirectory(privateDirectory));
      native?.removeAtEnd(-1, privateDirectory, 1);
    }
    return acceptor;
  }

  /** Aborted when it begins to close. */
  get ending(): AbortSignal {
    return this.#ending.signal;
  }

  /** Connections that were let in and are not over. */
  get count(): number {
    return this.#connections.size;
  }

  /** A successor is waited for. */
  set isHandingOver(isHandingOver: boolean) {
    this.#gate.isHandingOver = isHandingOver;
  }

  /** Connections are served, and need not be iterated. */
  serve(): void {
    this.#isServing = true;
    if (this.#queue.hasReader) return;
    for (const connection of this.#connections) connection.onTaken?.();
    this.#queue.clear();
  }

  reader(): AsyncIterator<C, undefined> {
    return this.#queue.reader();
  }

  /** The path that is listened on by the kernel's word; undefined: by path permissions. */
  get listening(): ListeningPath | undefined {
    return this.#listening;
  }

  /**
   * Leaves the path to the process that has its socket now, and ends the connections by `end`;
   * those, too, that are in their hello at that moment.
   */
  async giveAway(end: (connection: C) => Promise<void>): Promise<void> {
    if (this.#closing !== undefined) return this.#closing;
    this.#closing = this.#end(() => this.#listening?.giveAway(), end, true);
    await this.#closing;
  }

  /** Closes the path and its connections; a second call does nothing. */
  close(options: { readonly deadlineMs?: number | undefined } = {}): Promise<void> {
    return quiet(this.#checkAndClose(options));
  }

  /**
   * Closes where no connection is open or on its way to be. False: one is, and all goes on. The
   * kernel keeps connections that come meanwhile; at the close they see that nobody listens.
   */
  async closeIfUnused(): Promise<boolean> {
    if (this.#isUsed) return false;
    if (this.#closing === undefined) this.#listening?.pause();
    if (this.#isUsed) {
      if (this.#closing === undefined) this.#listening?.resume();
      return false;
    }
    await this.close();
    return true;
  }

  get #isUsed(): boolean {
    return this.#connections.size > 0 || this.#gate.pending > 0;
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
  get keepsSockets(): boolean {
    return this.#handlers.keepsSockets;
  }

  /** @internal */
  onConnection(arrival: Arrival): void {
    const native = this.#settings.native as NativeAddon;
    if (this.#gate.decidesAtOnce) return this.#adopt(this.#gate.passAtOnce(native, arrival));
    void this.#gate.pass(native, arrival)?.then((connection) => this.#adopt(connection));
  }

  /** @internal */
  onStream(socket: Socket): void {
    void this.#gate.passStream(socket)?.then((connection) => this.#adopt(connection));
  }

  /** @internal */
  onDescriptorsExhausted(cause: unknown): void {
    const now = systemClock.nowMs();
    if (now - this.#exhaustedAt < exhaustedPauseMs) return;
    this.#exhaustedAt = now;
    const error = notAccepted(this.path, cause);
    emitEvent(this.#settings.onEvent, { type: 'limit', error, peer: undefined });
  }

  /** @internal */
  onPathLost(error: SidecallError): void {
    emitEvent(this.#settings.onEvent, { type: 'path-lost', error, peer: undefined });
  }

  #listenByKernel(native: NativeAddon, held: HeldPath | undefined): void {
    const { bind, unsafeDirectory } = this.#settings;
    const advice = remedyAt(this.path);
    const trust = { owners: [ownUid(), 0], unsafeDirectory, advice };
    let directory: SocketDirectory;
    try {
      directory = new SocketDirectory(native, this.path, trust);
    } catch (error) {
      if (held?.descriptor !== undefined) native.closeDescriptor(held.descriptor);
      throw error;
    }
    this.#listening = new ListeningPath(native, directory, bind, this, held);
  }

  async #listenByPath(): Promise<void> {
    const { bind, unsafeDirectory } = this.#settings;
    this.#plain = await listenAtPlainPath(this.path, { ...bind, unsafeDirectory }, this);
  }

  #adopt(connection: C | undefined): void {
    if (connection === undefined) return;
    this.#connections.add(connection);
    this.ever += 1;
    void connection.closed.then(() => {
      this.#connections.delete(connection);
      this.#queue.remove(connection);
      this.#gate.release(connection.peer);
    });
    if (this.#endOf !== undefined) this.#ends.push(this.#endOf(connection));
    else if (!this.#isServing || this.#queue.hasReader) this.#queue.push(connection);
    else connection.onTaken?.();
  }

  #close(deadlineMs: number): Promise<void> {
    this.#gate.close();
    const leave = (): void => {
      this.#listening?.close();
      this.#plain?.close();
      const { privateDirectory } = this.#settings;
      if (privateDirectory !== undefined) {
        this.#settings.native?.removeAtEnd(-1, privateDirectory, 0);
        removePrivateDirectory(privateDirectory);
      }
    };
    return this.#end(leave, async (each) => void (await each.close({ deadlineMs })));
  }

  async #end(
    leave: () => void,
    end: (connection: C) => Promise<void>,
    awaitsHellos = false,
  ): Promise<void> {
    this.#endOf = end;
    this.#ending.abort();
    try {
      leave();
      this.#queue.end();
      this.#forgetDirectory?.();
    } finally {
      await this.#handlers.onClosing();
      this.#ends.push(...[...this.#connections].map(end));
      // Each hello has a time-out.
      while (awaitsHellos && this.#gate.pending > 0) await pause(systemClock, helloLookMs, never);
      while (this.#ends.length > 0) await Promise.all(this.#ends.splice(0));
      this.#resolveClosed();
    }
  }
}

/** Errors of a process, or a system, without a free descriptor. */
const exhausted = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM']);

function notAccepted(path: string, cause: unknown): SidecallError {
  if (exhausted.has(String((cause as { code?: unknown }).code))) {
    const text = `${path}: no file descriptor is left to accept connections`;
    return new SidecallError('ERR_SIDECALL_LIMIT_DESCRIPTORS', text, { cause });
  }
  const text = `${path}: the system accepts no connection: ${errorText(cause)}`;
  return new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
}
