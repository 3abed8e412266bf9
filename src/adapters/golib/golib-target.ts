// SPDX-License-Identifier: MIT
// connectGolib(): typed clients of contracts over golib's RPC.
import { RpcError, SidecallError } from '../../base/errors.ts';
import type { OnEvent } from '../../base/events.ts';
import { ignore, quiet } from '../../base/ignore-errors.ts';
import { ranges } from '../../base/limits/option-limits.ts';
import {
  checkBoolean,
  checkFunction,
  checkInteger,
  checkKeys,
  nodeError,
} from '../../base/misuse.ts';
import type { Peer } from '../../base/peer.ts';
import { type ConnectBaseOptions, connect, plainConnectNames } from '../../rendezvous/connect.ts';
import type { ClientOptions } from '../../rpc/calling/client.ts';
import type { CallContext } from '../../rpc/contract/call-context.ts';
import { bytes } from '../../rpc/contract/codec.ts';
import type {
  Client,
  Handlers,
  Method,
  Methods,
  Service,
} from '../../rpc/contract/method-types.ts';
import { unary } from '../../rpc/contract/service.ts';
import { callerMetadata } from '../forwarding/caller-contexts.ts';
import { ForwardedCalls, type Forwarder } from '../forwarding/forwarded-calls.ts';
import { localFailure } from '../forwarding/local-failure.ts';
import { checkFrames, type FrameOptions, FrameSocket } from './frame-socket.ts';
import { GolibConnection } from './golib-connection.ts';

/** Options of {@link connectGolib}. */
export interface GolibTargetOptions extends ConnectBaseOptions, FrameOptions {
  /**
   * Time of calls that say nothing else, in milliseconds: golib's servers answer some failures
   * without an id, so that a call without a deadline could wait for ever. Default 300,000, as
   * golib; 1 to 2,147,483,647.
   */
  readonly callTimeoutMs?: number | undefined;
  /** The name that the Go program has registered, by the wire name. Default: the wire name. */
  readonly methodName?: ((wireName: string) => string) | undefined;
  /**
   * Each call has a connection of its own, so that an error without an id belongs to it for
   * certain. Default: no.
   */
  readonly oneCallPerConnection?: boolean | undefined;
  /** Told of errors of the server that belong to no call (`adapter-failed`). */
  readonly onEvent?: OnEvent | undefined;
}

const frameNames = ['receiveMaxBytes', 'frameTimeoutMs'] as const;
const ownNames = ['callTimeoutMs', 'methodName', 'oneCallPerConnection', 'onEvent'] as const;
const ofPlain = plainConnectNames.filter((name) => name !== 'protocol');
const callTimeout = { standard: 300_000, min: 1, max: ranges.timeoutMs.max };

/**
 * Connects to a Go program that serves by golib's `chunk/rpc`, `json/rpc` or `proto/rpc`. Its
 * methods are unary; a notification is a call whose answer is dropped. Metadata do not travel. When
 * the connection has ended, the next call opens another one.
 * docs/guide/golib.md lists what the Go side does otherwise than a session.
 * @throws (as rejection) what `connect({ protocol: 'plain' })` rejects with; {TypeError |
 * RangeError} for misuse.
 * @example
 * ```ts
 * import { service, unary } from 'sidecall';
 * import { connectGolib } from 'sidecall/golib';
 *
 * const Sums = service('math', { sum: unary<{ Ints: number[] }, { Sum: number }>() });
 *
 * await using go = await connectGolib({
 *   path: '/run/user/1000/math/socket',
 *   methodName: (wireName) => `/${wireName.replace('.', '/')}`,
 * });
 * console.log((await go.client(Sums).sum({ Ints: [1, 2, 3] })).Sum);
 * ```
 */
export async function connectGolib(options: GolibTargetOptions): Promise<GolibTarget> {
  if (typeof options !== 'object' || options === null || options.path === undefined) {
    const text = "connectGolib() needs the options of connect(): { path: '/run/…/socket' }";
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  checkKeys('connectGolib()', options, [...frameNames, ...ownNames, ...ofPlain]);
  const entries = Object.entries(options);
  const isOurs = (name: string): boolean => [...frameNames, ...ownNames].includes(name as never);
  const { callTimeoutMs, methodName, oneCallPerConnection, onEvent } = options;
  checkFunction('methodName', methodName);
  checkFunction('onEvent', onEvent);
  const hasOwnConnections = checkBoolean('oneCallPerConnection', oneCallPerConnection);
  const place = Object.fromEntries(
    entries.filter(([name]) => !isOurs(name)),
  ) as unknown as ConnectBaseOptions;
  const frames = checkFrames(options);
  const open = async (signal?: AbortSignal): Promise<GolibConnection> => {
    const plain = { ...place, protocol: 'plain', ...(signal && { signal }) } as const;
    const socket = await connect(plain);
    return new GolibConnection(new FrameSocket(socket, frames), onEvent);
  };
  const settings = {
    callTimeoutMs: checkInteger('callTimeoutMs', callTimeoutMs, callTimeout),
    methodName: methodName ?? ((wireName: string) => wireName),
  };
  return new GolibTarget(await open(), open, { ...settings, hasOwnConnections });
}

interface GolibSettings {
  readonly callTimeoutMs: number;
  /** Each call has a connection of its own. */
  readonly hasOwnConnections: boolean;
  readonly methodName: (wireName: string) => string;
}

type Open = (signal?: AbortSignal) => Promise<GolibConnection>;

/** A Go program that serves by golib. Made by {@link connectGolib}. */
export class GolibTarget implements AsyncDisposable {
  /** Resolves (never rejects) once {@link GolibTarget.close} is done. */
  readonly closed: Promise<void>;
  readonly #calls = new ForwardedCalls('golib');
  #connection: GolibConnection;
  #opening: Promise<GolibConnection> | undefined;
  readonly #open: Open;
  readonly #settings: GolibSettings;
  #closing: Promise<void> | undefined;
  #resolveClosed: () => void = ignore;

  /** @internal Use `connectGolib()`. */
  constructor(connection: GolibConnection, open: Open, settings: GolibSettings) {
    this.#connection = connection;
    this.#open = open;
    this.#settings = settings;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
  }

  /** The process that listens, as of the last connection. */
  get peer(): Peer {
    return this.#connection.peer;
  }

  /**
   * The typed functions of a service; as {@link Session.client}.
   * @throws {TypeError} for a contract with streams: golib's RPC has none.
   */
  client<M extends Methods>(service: Service<M>, options?: ClientOptions): Client<M> {
    const timeoutMs = options?.timeoutMs ?? this.#settings.callTimeoutMs;
    return this.#calls.client(service, { ...options, timeoutMs }, (member, method) =>
      this.#forwarder(service.wireName(member), method),
    );
  }

  /**
   * Refuses new calls, lets those under way finish, and closes the connection. A second call has no
   * further effect.
   * @param options.deadlineMs for calls under way: default 5,000; 0 to 600,000.
   */
  close(options: { readonly deadlineMs?: number | undefined } = {}): Promise<void> {
    return quiet(this.#checkAndClose(options));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #forwarder(name: string, { kind }: Method): Forwarder {
    if (kind !== 'unary' && kind !== 'notification') {
      const text = `connectGolib(): '${name}' is ${kind}; golib's RPC is unary: see chunkStream() and protoStream()`;
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
    }
    const method = this.#settings.methodName(name);
    if (typeof method !== 'string' || method === '') {
      const text = `methodName('${name}') must give a name, got '${String(method)}'`;
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
    }
    const forward = (request: Uint8Array, ctx: CallContext): Promise<Uint8Array> =>
      this.#call(name, method, request, ctx);
    const methods = { forward: unary({ request: bytes, response: bytes }) };
    const contract: Service = { name, methods, wireName: () => name };
    return { contract, handlers: { forward } as unknown as Handlers<Methods>, form: kind };
  }

  async #call(
    name: string,
    method: string,
    request: Uint8Array,
    ctx: CallContext,
  ): Promise<Uint8Array> {
    if (Object.keys(callerMetadata(ctx)).length > 0) {
      throw localFailure('ERR_SIDECALL_ENCODE', `${name}: golib carries no metadata`, {
        delivered: 'no',
        retryable: false,
      });
    }
    try {
      if (!this.#settings.hasOwnConnections) {
        const connection = await this.#connected();
        return await connection.call(method, request, ctx);
      }
      const connection = await this.#open(ctx.signal);
      try {
        return await connection.call(method, request, ctx);
      } finally {
        connection.close();
      }
    } catch (error) {
      if (RpcError.is(error)) throw error;
      const { code, message, delivered, retryable } = SidecallError.from(error);
      throw localFailure(code, `${name}: ${message}`, { delivered, retryable });
    }
  }

  /** The connection; a new one where it has ended. */
  async #connected(): Promise<GolibConnection> {
    if (!this.#connection.isOver) return this.#connection;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    this.#connection = await this.#opening;
    return this.#connection;
  }

  async #checkAndClose(options: { readonly deadlineMs?: number | undefined }): Promise<void> {
    checkKeys('close()', options, ['deadlineMs']);
    const deadlineMs = checkInteger('deadlineMs', options.deadlineMs, ranges.closeDeadlineMs);
    this.#closing ??= this.#close(deadlineMs);
    await this.#closing;
  }

  async #close(deadlineMs: number): Promise<void> {
    await this.#calls.close(deadlineMs);
    const opened = await this.#opening?.catch(() => undefined);
    opened?.close();
    this.#connection.close();
    await this.#connection.closed;
    this.#resolveClosed();
  }
}
