// SPDX-License-Identifier: MIT
// A listener whose connections become sessions, and the services that all of them have.

import { systemClock } from '../base/clock.ts';
import type { SidecallError } from '../base/errors.ts';
import { establishOverDescriptor, establishOverStream } from '../open/open-session.ts';
import type { SessionSettings } from '../open/session-options.ts';
import type { Methods, Service } from '../rpc/contract/method-types.ts';
import type { Health } from '../rpc/serving/health.ts';
import type { HandlersFor, Registry, ServeOptions } from '../rpc/serving/registry.ts';
import type { Session } from '../rpc/session/session.ts';
import { PathAcceptor } from './accept.ts';
import type { AcceptorSettings } from './accepted-connection.ts';

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

  private constructor(acceptor: PathAcceptor<Session>, registry: Registry) {
    this.path = acceptor.path;
    this.closed = acceptor.closed;
    this.#acceptor = acceptor;
    this.#registry = registry;
  }

  /** @internal Use `listen()`. */
  static async open({ session, registry, ...settings }: ListenerSettings): Promise<Listener> {
    const roleOf = (admit: () => SidecallError | undefined) =>
      ({ side: 'accepting', admit }) as const;
    const acceptor = await PathAcceptor.open<Session>(settings, {
      receive: ({ native, fd, peer, admit, signal, wire }) =>
        establishOverDescriptor(native, fd, peer, roleOf(admit), session, signal, wire),
      receiveStream: ({ socket, peer, admit, signal }) =>
        establishOverStream(socket, peer, roleOf(admit), session, signal),
      peersSpeakFirst: true,
      onClosing: async () => registry.shutDown(systemClock),
    });
    return new Listener(acceptor, registry);
  }

  /** Sessions open at this moment. */
  get sessionCount(): number {
    return this.#acceptor.count;
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
}
