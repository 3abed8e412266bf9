// SPDX-License-Identifier: MIT
// grpcTarget(): clients of contracts over gRPC.
import {
  type Channel,
  type ChannelCredentials,
  type ChannelOptions,
  Client,
  credentials,
} from '@grpc/grpc-js';
import { SidecallError } from '../../base/errors.ts';
import { ignore, quiet } from '../../base/ignore-errors.ts';
import { ranges, sessionRanges } from '../../base/limits/option-limits.ts';
import { checkInteger, checkKeys, checkObject, nodeError } from '../../base/misuse.ts';
import type { ClientOptions } from '../../rpc/calling/client.ts';
import type { Methods, Service, Client as TypedClient } from '../../rpc/contract/method-types.ts';
import { Session } from '../../rpc/session/session.ts';
import { ForwardedCalls } from '../forwarding/forwarded-calls.ts';
import { forwarderOf } from './forward-call.ts';
import { pathOf } from './grpc-service.ts';

/** Options of {@link grpcTarget}. */
export interface GrpcTargetOptions {
  /**
   * As grpc-js makes them: `credentials.createSsl()` for other machines. Required, but for
   * addresses that begin with `unix:`.
   */
  readonly credentials?: ChannelCredentials | undefined;
  /** Largest answer that is accepted, in bytes. Default 4 MiB; 1 KiB to 1 GiB. */
  readonly receiveMaxBytes?: number | undefined;
  /**
   * Further options of the channel, as grpc-js names them. Default: its own, but for the pause
   * between attempts to connect: 50 ms to 1 s.
   */
  readonly channelOptions?: ChannelOptions | undefined;
}

/**
 * A service at an address of gRPC, on this machine or another, as the target of typed clients:
 * `client(Contract)` is that of a session, with the same options, errors, deadlines, cancels and
 * streams, over `@grpc/grpc-js` with its name resolution, load balancing and TLS. It connects when
 * the first call is made, and again whenever the connection is lost. JSON contracts need a server
 * of this package at the other end, or one that takes JSON; those of `.proto` files any gRPC
 * server. A notification is a unary call with an empty answer, for which its promise waits.
 * At `unix:/path` nothing checks which process listens, unlike `connect()`: the directory of the
 * path must be one that only the user of the server can write to.
 * @param address as of grpc-js (`host:443`, `dns:///name`, `unix:/path`), or a channel of it.
 * @throws {TypeError | RangeError} for misuse.
 * @example
 * ```ts
 * import { credentials } from '@grpc/grpc-js';
 * import { service, unary } from 'sidecall';
 * import { grpcTarget } from 'sidecall/grpc';
 *
 * const Clock = service('Clock', { now: unary<void, number>() });
 *
 * await using target = grpcTarget('clock.example:443', { credentials: credentials.createSsl() });
 * console.log(await target.client(Clock).now());
 * ```
 */
export function grpcTarget(address: string | Channel, options: GrpcTargetOptions = {}): GrpcTarget {
  checkKeys('grpcTarget()', options, ['credentials', 'receiveMaxBytes', 'channelOptions']);
  const receiveMaxBytes = checkInteger(
    'receiveMaxBytes',
    options.receiveMaxBytes,
    sessionRanges.receiveMaxBytes,
  );
  const channelOptions: ChannelOptions = {
    // As connect({ reconnect }): a server that comes back is found within a second. The default of
    // grpc-js grows to two minutes.
    'grpc.initial_reconnect_backoff_ms': ranges.reconnectFirstMs.standard,
    'grpc.max_reconnect_backoff_ms': ranges.reconnectMaxMs.standard,
    'grpc.max_receive_message_length': receiveMaxBytes,
    ...checkObject('channelOptions', options.channelOptions),
  };
  if (isChannel(address)) {
    const clientOptions = { ...channelOptions, channelOverride: address };
    return new GrpcTarget(
      new Client(address.getTarget(), credentials.createInsecure(), clientOptions),
    );
  }
  if (typeof address !== 'string' || address === '') {
    const text = 'grpcTarget() needs an address, or a channel of @grpc/grpc-js';
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  const isLocal = address.startsWith('unix:');
  const given =
    checkObject('credentials', options.credentials) ??
    (isLocal ? credentials.createInsecure() : undefined);
  if (given === undefined) {
    const text = `grpcTarget('${address}') needs credentials: credentials.createSsl() of @grpc/grpc-js, or createInsecure() where no other machine can listen in`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  return new GrpcTarget(new Client(address, given, channelOptions));
}

function isChannel(address: unknown): address is Channel {
  return typeof (address as Partial<Channel> | undefined)?.getConnectivityState === 'function';
}

/** The services at an address. Made by {@link grpcTarget}. */
export class GrpcTarget implements AsyncDisposable {
  /** Resolves (never rejects) once {@link GrpcTarget.close} is done. */
  readonly closed: Promise<void>;
  readonly #grpc: Client;
  readonly #calls = new ForwardedCalls('gRPC');
  #closing: Promise<void> | undefined;
  #resolveClosed: () => void = ignore;

  /** @internal Use `grpcTarget()`. */
  constructor(grpc: Client) {
    this.#grpc = grpc;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
  }

  /**
   * The typed functions of a service at the address; as {@link Session.client}.
   * @throws {TypeError} for a contract that gRPC cannot carry: messages of `leased`, names beyond
   * letters, digits, `_` and dots.
   */
  client<M extends Methods>(service: Service<M>, options?: ClientOptions): TypedClient<M> {
    return this.#calls.client(service, options, (member, method) =>
      forwarderOf(this.#grpc, {
        name: service.wireName(member),
        path: pathOf('grpcTarget()', service as unknown as Service, member),
        kind: method.kind,
        codec: method.request.name,
      }),
    );
  }

  /**
   * Resolves when a connection is open and has been accepted, for programs that want to know at
   * their start.
   * @param options.timeoutMs default 5,000; 10 to 60,000.
   * @throws (as rejection) {SidecallError} `ERR_SIDECALL_NO_LISTENER` where it is not within that
   * time; {TypeError | RangeError} for misuse.
   */
  ready(options: { readonly timeoutMs?: number | undefined } = {}): Promise<void> {
    return quiet(this.#ready(options));
  }

  /** @throws {TypeError} always: gRPC has no channels. Use a `bidi` method. */
  openChannel(): never {
    throw cannot('openChannel', 'gRPC carries calls, no channels: use a bidi() method');
  }

  /** @throws {TypeError} always: gRPC has no byte streams. Use a `bidi` method of `bytes`. */
  openDuplex(): never {
    throw cannot('openDuplex', 'gRPC carries messages: use a bidi() method of bytes');
  }

  /** @throws {TypeError} always: memory is not shared with other machines. */
  allocate(): never {
    throw cannot('allocate', 'memory is not shared over gRPC: use the codec bytes');
  }

  /**
   * Refuses new calls, lets those under way finish, and closes the channel. A second call has no
   * further effect.
   * @param options.deadlineMs for calls under way: default 5,000; 0 to 600,000.
   */
  close(options: { readonly deadlineMs?: number | undefined } = {}): Promise<void> {
    return quiet(this.#checkAndClose(options));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #ready(options: { readonly timeoutMs?: number | undefined }): Promise<void> {
    checkKeys('ready()', options, ['timeoutMs']);
    const timeoutMs = checkInteger('timeoutMs', options.timeoutMs, ranges.connectTimeoutMs);
    const channel = this.#grpc.getChannel();
    await new Promise<void>((resolve, reject) => {
      this.#grpc.waitForReady(Date.now() + timeoutMs, (cause) => {
        if (cause === undefined) return resolve();
        const text = `${channel.getTarget()}: no connection was accepted within ${timeoutMs} ms`;
        reject(new SidecallError('ERR_SIDECALL_NO_LISTENER', text, { cause }));
      });
    });
  }

  async #checkAndClose(options: { readonly deadlineMs?: number | undefined }): Promise<void> {
    checkKeys('close()', options, ['deadlineMs']);
    const deadlineMs = checkInteger('deadlineMs', options.deadlineMs, ranges.closeDeadlineMs);
    this.#closing ??= this.#close(deadlineMs);
    await this.#closing;
  }

  async #close(deadlineMs: number): Promise<void> {
    await this.#calls.close(deadlineMs);
    this.#grpc.close();
    this.#resolveClosed();
  }
}

function cannot(what: string, why: string): TypeError {
  return nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', `${what}(): ${why}`);
}
