// SPDX-License-Identifier: MIT
// A listener whose connections become sessions, and the services that all of them have.

import { onAbort } from '../base/abort-listeners.ts';
import { systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { quiet } from '../base/ignore-errors.ts';
import { nodeError } from '../base/misuse.ts';
import type { Peer } from '../base/peer.ts';
import { monitorSums } from '../open/monitor.ts';
import { establishOverDescriptor, establishOverStream } from '../open/open-session.ts';
import type { SessionSettings } from '../open/session-options.ts';
import type { Handlers, Methods, Service } from '../rpc/contract/method-types.ts';
import type { Health } from '../rpc/serving/health.ts';
import type { HandlersFor, ServeOptions } from '../rpc/serving/implementation.ts';
import type { Registry } from '../rpc/serving/registry.ts';
import type { Session } from '../rpc/session/session.ts';
import type { SessionSums, TotalStats } from '../rpc/session/session-sums.ts';
import { DescriptorWire } from '../uds/hello-wire.ts';
import type { HeldPath } from '../uds/watched-path.ts';
import { PathAcceptor } from './accept.ts';
import type { AcceptorSettings, Admit, ConnectionHandlers } from './accepted-connection.ts';
import {
  checkHandOver,
  type GivenPath,
  type HandedOver,
  HandOver,
  type HandOverOptions,
  type HandOverSettings,
  orAborted,
} from './hand-over.ts';
import { HandOverService } from './hand-over-service.ts';
import { offerSocket } from './offered-socket.ts';
import { proofNameOf, takeProof } from './path-proof.ts';

/** Checked options of `listen()`. */
export interface ListenerSettings extends AcceptorSettings {
  readonly session: SessionSettings;
  readonly registry: Registry;
}

/** Listens at a path. Iterate it for sessions, or {@link Listener.serve} all of them. */
export class Listener implements AsyncIterable<Session>, AsyncDisposable {
  /** Absolute path of the socket, for the process that shall connect. */
  readonly path: string;
  /** Resolves (never rejects) once {@link Listener.close} is done. */
  readonly closed: Promise<void>;
  readonly #acceptor: PathAcceptor<Session>;
  readonly #registry: Registry;
  readonly #sums: SessionSums;
  readonly #settings: AcceptorSettings;
  #epoch: number;
  #isHandingOver = false;

  private constructor(
    acceptor: PathAcceptor<Session>,
    registry: Registry,
    settings: AcceptorSettings,
    epoch: number,
    { sums, monitor }: SessionSettings,
  ) {
    this.#sums = sums;
    monitorSums(monitor, sums, acceptor.closed);
    this.#settings = settings;
    this.#epoch = epoch;
    this.path = acceptor.path;
    this.closed = acceptor.closed;
    this.#acceptor = acceptor;
    this.#registry = registry;
  }

  /** @internal Use `listen()`. */
  static async open(
    { session, registry, ...settings }: ListenerSettings,
    held?: HeldPath & { readonly epoch?: number | undefined },
  ): Promise<Listener> {
    const roleOf = (admit: Admit) => ({ side: 'accepting', admit }) as const;
    const handlers: ConnectionHandlers<Session> = {
      keepsSockets: false,
      receive: ({ native, arrival: { fd }, peer, admit, ticket: { signal }, onWire }) => {
        const wire = new DescriptorWire(native, fd, signal);
        onWire(wire);
        return establishOverDescriptor(native, fd, peer, roleOf(admit), session, signal, wire);
      },
      receiveStream: ({ socket, peer, admit, ticket: { signal } }) =>
        establishOverStream(socket, peer, roleOf(admit), session, signal),
      peersSpeakFirst: true,
      onClosing: async () => registry.shutDown(systemClock),
    };
    const acceptor = await PathAcceptor.open(settings, handlers, held);
    return new Listener(acceptor, registry, settings, held?.epoch ?? 0, session);
  }

  /** @internal Accepts connections from now on. */
  begin(): void {
    this.checkOpen();
    this.#acceptor.listening?.resume();
  }

  /** @internal Its services are those of a server: sessions need not be iterated. */
  beginServing(): void {
    this.#acceptor.serve();
  }

  /** @internal @throws {SidecallError} `ERR_SIDECALL_CLOSED`. */
  checkOpen(): void {
    if (!this.#acceptor.ending.aborted) return;
    throw new SidecallError('ERR_SIDECALL_CLOSED', 'the listener was closed');
  }

  /** @internal False: another process has the lock of the path. */
  tryLock(): boolean {
    return this.#acceptor.listening?.tryLock() ?? true;
  }

  /** @internal Serves a service of the package, until the returned function is called. */
  serveOwn<M extends Methods>(service: Service<M>, handlers: Handlers<M>): () => void {
    return this.#registry.addOwn(service, handlers);
  }

  /** @internal Another process listens at the path, whose directory was removed meanwhile. */
  get isPathTaken(): boolean {
    return this.#acceptor.listening?.isTaken ?? false;
  }

  /** Hand-overs of this path before this listener. */
  get epoch(): number {
    return this.#epoch;
  }

  /** The numbers of all sessions together, those that are over included. */
  stats(): TotalStats {
    return this.#sums.stats();
  }

  /** Sessions open at this moment. */
  get sessionCount(): number {
    return this.#acceptor.count;
  }

  /** @internal Sessions ever. */
  get sessionsEver(): number {
    return this.#acceptor.ever;
  }

  /**
   * Answers calls of a service on every session, present and future. Sessions then need not be
   * iterated.
   * @throws {TypeError} `ERR_INVALID_ARG_VALUE` where a handler is missing or the service is
   * served.
   */
  serve<M extends Methods, O extends ServeOptions = ServeOptions>(
    service: Service<M>,
    handlers: HandlersFor<M, O>,
    options?: O,
  ): void {
    this.#registry.add(service, handlers, options);
    this.#acceptor.serve();
  }

  /** The health of our services, the same for all sessions. `close()` shuts it down first. */
  get health(): Health {
    return this.#registry.health;
  }

  /**
   * Sessions in the order they were opened. Ends when the listener closes; leaving the loop does
   * not close it.
   */
  [Symbol.asyncIterator](): AsyncIterator<Session, undefined> {
    return this.#acceptor.reader();
  }

  /**
   * Stops listening, removes the socket file, and closes all sessions in order. A second
   * call has no further effect.
   * @param options.deadlineMs for calls in flight: default 5,000; 0 to 600,000.
   */
  close(options?: { readonly deadlineMs?: number | undefined }): Promise<void> {
    return this.#acceptor.close(options);
  }

  /** @internal Closes, unless a session is open or on its way to be. */
  closeIfUnused(): Promise<boolean> {
    return this.#acceptor.closeIfUnused();
  }

  /**
   * Gives the listening socket to a successor: waits for a process that calls `listen({ path,
   * takeOver })`, and until that one is ready and accepts, everything stays as it is. Then this
   * listener is closed: its sessions say goaway, calls that have begun finish, and connections with
   * `reconnect` move by themselves. No connection is refused meanwhile. Where a successor fails,
   * the listener goes on, and waits for the next one.
   * @throws (as rejection) {SidecallError} `ERR_SIDECALL_CLOSED` where the listener is closed,
   * `ERR_SIDECALL_DEADLINE_EXCEEDED` where no successor has come within `waitMs`,
   * `ERR_SIDECALL_ADDON_UNAVAILABLE` without the addon; `signal.reason`; `TypeError`/`RangeError`
   * for misuse. The listener goes on.
   * @example
   * ```ts
   * import type { Listener } from 'sidecall';
   *
   * async function untilReplaced(listener: Listener): Promise<void> {
   *   const { moved, forced } = await listener.handOver({ deadlineMs: 30_000 });
   *   console.log(`${moved} sessions moved, ${forced} were cut off`);
   * }
   * ```
   */
  handOver(options: HandOverOptions = {}): Promise<HandedOver> {
    return quiet(this.#handOver(options));
  }

  /** The listener keeps the process alive (the default). */
  ref(): void {
    this.#acceptor.ref();
  }

  /**
   * The listener alone does not keep the process alive. Its sessions still do: `unref()` those,
   * too.
   */
  unref(): void {
    this.#acceptor.unref();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #handOver(options: HandOverOptions): Promise<HandedOver> {
    const settings = checkHandOver(options);
    settings.signal?.throwIfAborted();
    this.checkOpen();
    if (this.#isHandingOver) {
      throw nodeError(
        TypeError,
        'ERR_INVALID_ARG_VALUE',
        'handOver() was called twice: await the first call, or abort it by its signal',
      );
    }
    this.#isHandingOver = true;
    this.#acceptor.isHandingOver = true;
    try {
      const successor = await this.#nextOwner(settings);
      this.#epoch += 1;
      const counts = { moved: 0, forced: 0, drained: 0, cutOff: 0 };
      await this.#acceptor.giveAway(async (session) => {
        const { drained, forced, isOrderly } = await session.closeCounted(settings.deadlineMs);
        if (session.peer === successor) return; // over which it has asked
        if (isOrderly && forced === 0) counts.moved += 1;
        else counts.forced += 1;
        counts.drained += drained;
        counts.cutOff += forced;
      });
      return { epoch: this.#epoch, successor, ...counts };
    } finally {
      this.#isHandingOver = false;
      this.#acceptor.isHandingOver = false;
    }
  }

  /** Waits for the process that has the path next. */
  async #nextOwner({ to, refuse, waitMs, signal }: HandOverSettings): Promise<Peer> {
    const { native } = this.#settings;
    const { listening } = this.#acceptor;
    if (native === undefined || listening === undefined) {
      const text = "handOver() needs the addon, and identity 'kernel'";
      throw new SidecallError('ERR_SIDECALL_ADDON_UNAVAILABLE', text);
    }
    const ended = new AbortController();
    const path: GivenPath = {
      clock: systemClock,
      epoch: this.#epoch,
      pause: () => listening.pause(),
      resume: () => listening.resume(),
      proofName: () => proofNameOf(listening.directory.name),
      takeProof: (name, { uid = -1 }) => takeProof(listening.directory, name, uid),
      offer: (successor) =>
        offerSocket(native, this.#settings, successor, () => listening.duplicate()),
    };
    const handOver = new HandOver(path, { to, refuse }, ended.signal);
    const unserve = this.#registry.addOwn(HandOverService, {
      takeOver: (steps, ctx) => handOver.serve(steps, ctx),
    });
    const text = `no successor was ready within ${waitMs} ms (waitMs)`;
    const late = new SidecallError('ERR_SIDECALL_DEADLINE_EXCEEDED', text);
    const timer =
      waitMs === undefined ? undefined : systemClock.setTimeout(() => ended.abort(late), waitMs);
    timer?.unref();
    const forget = signal && onAbort(signal, () => ended.abort(signal.reason));
    const forgetEnd = onAbort(this.#acceptor.ending, () =>
      ended.abort(new SidecallError('ERR_SIDECALL_CLOSED', 'the listener was closed')),
    );
    try {
      return await orAborted(handOver.taken, ended.signal);
    } finally {
      systemClock.clearTimeout(timer);
      forget?.();
      forgetEnd();
      unserve();
      ended.abort();
    }
  }
}
