// SPDX-License-Identifier: MIT
// A path that is listened on and watched: if its socket file is lost, it is bound again.

import { type FSWatcher, watch } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import type { NativeAddon } from '../addon/addon-api.ts';
import { atExit } from '../base/at-exit.ts';
import { systemClock, type Timer } from '../base/clock.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { type Arrival, descriptorOf } from './net-socket.ts';
import type { SocketDirectory } from './socket-directory.ts';
import { type BindOptions, BoundPath } from './socket-file.ts';

/** The receiver of the events of a path. */
export interface PathOwner {
  /**
   * True: the connection stays with the socket that Node has made. False: it moves to a descriptor
   * of the addon's, which a hello needs.
   */
  readonly keepsSockets: boolean;
  onConnection(arrival: Arrival): void;
  onDescriptorsExhausted(cause: unknown): void;
  onPathLost(error: SidecallError): void;
}

/** A path whose connections are accepted from {@link ListeningPath.resume} on. */
export interface HeldPath {
  /** A descriptor of another process, which listens there. Default: the path is bound. */
  readonly descriptor?: number | undefined;
}

const rebindPauseMs = 100;
// Pause between two looks for a directory that has gone.
const lostPauseMs = 1_000;
// Connections that are accepted in one turn of the loop, and how long that may take.
const acceptsMax = 256;
const acceptsMaxMs = 0.5;
const noDescriptor = 2_147_483_647;

export class ListeningPath {
  readonly #native: NativeAddon;
  #bound: BoundPath;
  readonly #options: BindOptions;
  readonly #owner: PathOwner;
  readonly #unlinkOnClose: boolean;
  readonly #backlog: number;
  readonly #forget: () => void;
  // undefined: no connections are accepted at present; `#held` is the socket then.
  #server: Server | undefined;
  #held: number | undefined;
  /** Number of the descriptor that listens. */
  #listening: number;
  #watcher: FSWatcher | undefined;
  #rebindTimer: Timer | undefined;
  #isClosed = false;
  #isLost = false;
  /** Another process listens at the path, whose file or directory was removed. */
  isTaken = false;
  #isReferenced = true;

  /**
   * `held`: connections wait. Default: they are accepted at once.
   * @throws {SidecallError} what {@link BoundPath.listen} throws; the directory is closed then.
   */
  constructor(
    native: NativeAddon,
    directory: SocketDirectory,
    options: BindOptions & { readonly unlinkOnClose: boolean },
    owner: PathOwner,
    held?: HeldPath,
  ) {
    this.#native = native;
    this.#owner = owner;
    this.#unlinkOnClose = options.unlinkOnClose;
    this.#backlog = options.backlog;
    this.#options = options;
    this.#bound = new BoundPath(directory, options);
    try {
      checkAccept(native, directory.socketPath);
      if (held?.descriptor !== undefined) this.#bound.adopt();
      this.#listening = held?.descriptor ?? this.#bound.listen();
      if (held === undefined) this.#server = this.#serve(this.#listening);
      else this.#held = this.#listening;
    } catch (error) {
      this.#bound.release();
      directory.close();
      if (held?.descriptor !== undefined) native.closeDescriptor(held.descriptor);
      throw error;
    }
    this.#forget = atExit(() => this.#release());
    this.#removeAtEnd(1);
    this.#watch();
  }

  /** The directory of the socket, which is open until the path is closed. */
  get directory(): SocketDirectory {
    this.#checkOpen();
    return this.#bound.directory;
  }

  /** A duplicate of the descriptor that listens, owned by the addon. */
  duplicate(): number {
    this.#checkOpen();
    return this.#native.duplicate(this.#held ?? this.#listening);
  }

  /** Accepts no connection until {@link ListeningPath.resume}: the kernel keeps them. */
  pause(): void {
    this.#checkOpen();
    if (this.#server === undefined) return;
    this.#held = this.duplicate();
    this.#server.close();
    this.#server = undefined;
  }

  /** Accepts connections again, or for the first time. */
  resume(): void {
    if (this.#isClosed || this.#held === undefined) return;
    this.#listening = this.#held;
    this.#held = undefined;
    this.#server = this.#serve(this.#listening);
    this.#onChanged(); // the file may have gone meanwhile
  }

  /** The path is ours from now on. False: another process still has its lock. */
  tryLock(): boolean {
    this.#checkOpen();
    if (!this.#bound.tryLock()) return false;
    this.#onChanged(); // the file may have gone with the process before
    return true;
  }

  /** Closes it, and leaves the path to the process that has the socket now. */
  giveAway(): void {
    this.#end(() => this.#bound.giveAway());
  }

  close(): void {
    this.#end(() => this.#release());
  }

  /** @throws {SidecallError} `ERR_SIDECALL_CLOSED`: its descriptors are those of others by now. */
  #checkOpen(): void {
    if (this.#isClosed) throw new SidecallError('ERR_SIDECALL_CLOSED', 'the listener was closed');
  }

  #end(release: () => void): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    systemClock.clearTimeout(this.#rebindTimer);
    this.#watcher?.close();
    this.#forget();
    this.#removeAtEnd(0);
    this.#server?.close();
    this.#server = undefined;
    if (this.#held !== undefined) this.#native.closeDescriptor(this.#held);
    this.#held = undefined;
    release();
    this.#bound.directory.close();
  }

  ref(): void {
    this.#isReferenced = true;
    this.#server?.ref();
  }

  unref(): void {
    this.#isReferenced = false;
    this.#server?.unref();
  }

  /** 1: the socket that is at the path now goes with a worker that is terminated. */
  #removeAtEnd(isWanted: 0 | 1): void {
    const { fd, name } = this.#bound.directory;
    if (this.#unlinkOnClose) this.#native.removeAtEnd(fd, name, isWanted);
  }

  #release(): void {
    try {
      if (this.#unlinkOnClose) this.#bound.remove();
      else this.#bound.release();
    } catch {
      // The directory refuses the removal. The lock is free, so the next listener removes the file.
    }
  }

  /** Node accepts and does not read. */
  #serve(fd: number): Server {
    const server = createServer({ pauseOnConnect: true }, (socket) => this.#onSocket(socket, fd));
    server.on('error', (cause) => this.#owner.onDescriptorsExhausted(cause));
    server.listen({ fd, exclusive: true });
    this.#native.disownDescriptor(fd);
    try {
      // Node has called listen() once more, with a backlog of 511: the last call counts.
      this.#native.listenOn(fd, this.#backlog);
    } catch (error) {
      server.close();
      throw error;
    }
    if (!this.#isReferenced) server.unref();
    return server;
  }

  #onSocket(socket: Socket, listening: number): void {
    let fd: number;
    try {
      fd = this.#native.duplicate(descriptorOf(socket));
    } catch (cause) {
      // The duplicate is also the probe: with the last descriptor gone, Node drops connections
      // silently.
      socket.destroy();
      return this.#owner.onDescriptorsExhausted(cause);
    }
    if (this.#owner.keepsSockets) {
      this.#native.closeDescriptor(fd);
      this.#owner.onConnection({ fd: descriptorOf(socket), socket });
    } else {
      socket.destroy(); // closes Node's number; the connection lives on in ours
      this.#owner.onConnection({ fd, socket: undefined });
    }
    this.#acceptMore(listening);
  }

  /**
   * Node accepts one for each turn of the loop: a connection behind a crowd would wait for as
   * many turns. At the end one more descriptor is tried, since Node would drop all further
   * connections without a word where the last one is taken.
   */
  #acceptMore(listening: number): void {
    const begun = systemClock.nowMs();
    try {
      for (
        let count = 1;
        count < acceptsMax && systemClock.nowMs() - begun < acceptsMaxMs;
        count += 1
      ) {
        const fd = this.#server === undefined ? -1 : this.#native.acceptSocket(listening);
        if (fd === -1) break;
        this.#owner.onConnection({ fd, socket: undefined });
      }
      if (this.#server === undefined) return; // closed or paused by the owner
      this.#native.closeDescriptor(this.#native.duplicate(listening));
    } catch (cause) {
      this.#owner.onDescriptorsExhausted(cause);
    }
  }

  /** A file that cannot be looked at any more is not ours to serve. */
  get #isOurs(): boolean {
    try {
      return this.#bound.isOurs && this.#bound.directory.isCurrent;
    } catch {
      return false;
    }
  }

  #watch(): void {
    const { path, name } = this.#bound.directory;
    try {
      this.#watcher = watch(path, { persistent: false }, (_event, file) => {
        if (file === null || file === name || !this.#isOurs) this.#onChanged();
      });
      this.#watcher.on('error', () => undefined);
    } catch {
      // No watch left in the system: everything works, but a deleted socket goes unnoticed.
    }
  }

  #onChanged(): void {
    if (
      this.#isClosed ||
      this.#server === undefined ||
      this.#rebindTimer !== undefined ||
      this.#isOurs
    )
      return;
    this.#rebindAfter(rebindPauseMs);
  }

  /** The pause bounds our work where a process deletes the file in a loop. */
  #rebindAfter(pauseMs: number): void {
    this.#rebindTimer = systemClock.setTimeout(() => this.#rebind(), pauseMs);
    if (!this.#isReferenced) this.#rebindTimer?.unref();
  }

  /** The directory at the path is another one. @throws {SidecallError} where there is none. */
  #followDirectory(): void {
    const before = this.#bound;
    if (before.directory.isCurrent) return;
    const directory = before.directory.reopen();
    this.#removeAtEnd(0);
    try {
      before.remove();
    } catch {
      // It has gone with its directory.
    }
    before.directory.close();
    this.#bound = new BoundPath(directory, this.#options);
    this.#watcher?.close();
    this.#watch();
  }

  #rebind(): void {
    this.#rebindTimer = undefined;
    if (this.#isClosed || this.#server === undefined || this.#isOurs) return;
    const text = `the socket file ${this.#bound.directory.socketPath} was deleted or replaced`;
    try {
      this.#followDirectory();
      const listening = this.#bound.listen();
      const server = this.#serve(listening);
      this.#server.close();
      this.#server = server;
      this.#listening = listening;
      this.#removeAtEnd(1);
      this.#isLost = false;
      this.isTaken = false;
      this.#owner.onPathLost(
        new SidecallError('ERR_SIDECALL_PATH_LOST', `${text}; it was bound again`),
      );
    } catch (cause) {
      if (!this.#isLost) {
        const why = `${text}: ${errorText(cause)}`;
        this.#owner.onPathLost(new SidecallError('ERR_SIDECALL_PATH_LOST', why, { cause }));
      }
      this.#isLost = true;
      this.isTaken = SidecallError.is(cause) && cause.code === 'ERR_SIDECALL_PATH_IN_USE';
      if (!this.isTaken || !this.#bound.directory.isCurrent) this.#rebindAfter(lostPauseMs);
    }
  }
}

/**
 * Node waits for ever, without an error, where a sandbox refuses accept4(): a call without
 * a connection tells.
 * @throws {SidecallError} `ERR_SIDECALL_SYSTEM`.
 */
function checkAccept(native: NativeAddon, path: string): void {
  try {
    native.acceptSocket(noDescriptor);
  } catch (cause) {
    if ((cause as { code?: unknown }).code === 'EBADF') return;
    const text = `${path}: a listener needs accept4(), which this sandbox refuses: ${errorText(cause)}`;
    throw new SidecallError('ERR_SIDECALL_SYSTEM', text, { cause });
  }
}
