// SPDX-License-Identifier: MIT
// A call of gRPC is made again over a session of its caller within the process, so that handlers
// run exactly as for a peer on this machine: one place decodes, times out, cancels, paces and
// reports.

import { Buffer } from 'node:buffer';
import { type EventEmitter, once } from 'node:events';
import type { PeerCertificate } from 'node:tls';
import {
  type Metadata as GrpcMetadata,
  Metadata,
  type ServerDuplexStream,
  type ServerReadableStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
  status as statusNumbers,
} from '@grpc/grpc-js';
import { clientMember } from '../../base/brands.ts';
import { statuses } from '../../base/error-codes.ts';
import { errorText } from '../../base/error-text.ts';
import { RpcError, SidecallError } from '../../base/errors.ts';
import { emitEvent, type OnEvent } from '../../base/events.ts';
import { noBytes } from '../../base/ignore-errors.ts';
import { ranges, sessionRanges } from '../../base/limits/option-limits.ts';
import type { Peer } from '../../base/peer.ts';
import type { CallOptions } from '../../rpc/contract/call-options.ts';
import type { Service } from '../../rpc/contract/method-types.ts';
import { requestsOf } from './call-requests.ts';
import type { Gate } from './caller-gate.ts';
import { peerOfCall } from './caller-peers.ts';
import type { CallerSessions } from './caller-sessions.ts';
import { setDetails } from './error-details.ts';
import { checkHeaders, codecKey, fromGrpc, toGrpc } from './grpc-metadata.ts';

/** The settings that all calls of a gRPC server have in common. */
export interface GrpcServiceParts {
  readonly sessions: CallerSessions;
  readonly gate: Gate;
  /** The application states that callers from other machines use TLS only. */
  readonly isEncrypted: boolean;
  readonly onEvent: OnEvent | undefined;
  /** Notifications whose handlers run; their calls were answered before. */
  readonly notifications: { count: number };
}

/** The method of a call. */
export interface BridgedMethod {
  /** The contract with methods of bytes, and the method in it. */
  readonly raw: Service;
  readonly member: string;
  readonly wireName: string;
  readonly isNotification: boolean;
  /** The name of the codec of its requests. */
  readonly codec: string;
}

/** Of any kind. */
export type AnyCall =
  | ServerUnaryCall<Uint8Array, Uint8Array>
  | ServerReadableStream<Uint8Array, Uint8Array>
  | ServerWritableStream<Uint8Array, Uint8Array>
  | ServerDuplexStream<Uint8Array, Uint8Array>;

/** A failed call as grpc-js takes it. */
interface GrpcFailure {
  readonly code: number;
  readonly details: string;
  readonly metadata: GrpcMetadata;
}

/** The reason of the signal of a cancelled call: one for all, since no handler sees it. */
const givenUp = new RpcError('cancelled', 'the caller gave up');

// biome-ignore lint/suspicious/noExplicitAny: the kinds of methods differ
type RawMethod = (...args: any[]) => any;

/** UTF-16 units of an error's text: at most nine bytes each in a header. */
const textMax = 4_096;
/** Notifications whose handlers run, for all callers of a server. */
const notificationsMax = sessionRanges.streamsMax.standard;

/** One call of gRPC, made again within this process. */
export class CallBridge {
  readonly #parts: GrpcServiceParts;
  readonly #call: AnyCall;
  readonly #method: BridgedMethod;
  readonly #cancelled = new AbortController();
  #trailers: GrpcMetadata = new Metadata();
  // A value of a handler that gRPC cannot carry fails the call, whatever else the handler said.
  #fault: unknown;
  #isOver = false;

  constructor(parts: GrpcServiceParts, call: AnyCall, method: BridgedMethod) {
    this.#parts = parts;
    this.#method = method;
    this.#call = call;
    const emitter: EventEmitter = call;
    // grpc-js emits it for calls that have ended well, too.
    emitter.on('cancelled', () => {
      if (!this.#isOver) this.#cancelled.abort(givenUp);
    });
    emitter.on('error', () => undefined); // a connection that broke is a cancel
  }

  /** Answers the call with one response, which is empty for a notification. */
  async single(callback: sendUnaryData<Uint8Array>): Promise<void> {
    try {
      const response = await this.#onSession((method, options) =>
        'request' in this.#call
          ? method(this.#call.request, options)
          : method(requestsOf(this.#call), options),
      );
      this.#isOver = true;
      callback(null, (response as Uint8Array | undefined) ?? noBytes, this.#trailers);
    } catch (error) {
      callback(this.#failureOf(error));
    }
  }

  /** A stream of responses, at the pace of their reader. */
  async stream(): Promise<void> {
    const call = this.#call as ServerWritableStream<Uint8Array, Uint8Array>;
    try {
      await this.#onSession(async (method, options) => {
        const request = 'request' in this.#call ? this.#call.request : requestsOf(this.#call);
        const responses: AsyncIterable<Uint8Array> = method(request, options);
        for await (const response of responses) {
          if (!call.write(response)) await this.#drained(call);
        }
      });
      this.#isOver = true;
      call.end(this.#trailers);
    } catch (error) {
      call.emit('error', this.#failureOf(error));
    }
  }

  /** Runs a call on the session of its caller. */
  async #onSession<T>(run: (method: RawMethod, options: CallOptions) => Promise<T>): Promise<T> {
    const { sessions, notifications } = this.#parts;
    const { raw, member, isNotification } = this.#method;
    const peer = await this.#peer();
    this.#checkCodec();
    this.#checkNotifications();
    // The end of its own session tells that the handler of a notification has settled.
    const session = isNotification ? sessions.alone(peer) : sessions.enter(peer);
    try {
      const client = session.client(raw) as { readonly [name: string]: RawMethod };
      return await run(client[clientMember(member)] as RawMethod, this.#options());
    } finally {
      if (!isNotification) sessions.leave(session);
      else {
        notifications.count += 1;
        void session.close().finally(() => {
          notifications.count -= 1;
        });
      }
    }
  }

  /** @throws {RpcError} where so many run that no more are taken. */
  #checkNotifications(): void {
    const { notifications } = this.#parts;
    if (!this.#method.isNotification || notifications.count < notificationsMax) return;
    const text = `${notificationsMax} notifications are handled at the moment`;
    throw new RpcError('resource_exhausted', text);
  }

  /** @throws {RpcError} where the caller says that its requests are of another codec. */
  #checkCodec(): void {
    const [named] = this.#call.metadata.get(codecKey);
    const { codec } = this.#method;
    if (named === undefined || named === codec) return;
    const text = `the requests are encoded by the codec '${String(named)}', this method takes '${codec}': both sides must use the same contract`;
    throw new RpcError('invalid_argument', text);
  }

  /** @throws {RpcError} where it is refused. */
  async #peer(): Promise<Peer> {
    const known = peerOfCall(this.#call);
    if (known !== undefined) return known;
    const { transportSecurityType, sslPeerCertificate } = this.#call.getAuthContext() as {
      transportSecurityType?: string;
      sslPeerCertificate?: PeerCertificate;
    };
    return this.#parts.gate.admit(
      {
        method: this.#call.getPath(),
        metadata: fromGrpc(this.#call.metadata),
        address: this.#call.getPeer(),
        isEncrypted: transportSecurityType === 'ssl' || this.#parts.isEncrypted,
        certificate: isCertificate(sslPeerCertificate) ? sslPeerCertificate : undefined,
      },
      this.#cancelled.signal,
    );
  }

  #options(): CallOptions {
    const deadline = Number(this.#call.getDeadline());
    const leftMs = Math.max(0, Math.ceil(deadline - Date.now()));
    return {
      signal: this.#cancelled.signal,
      timeoutMs: leftMs <= ranges.timeoutMs.max ? leftMs : undefined,
      metadata: fromGrpc(this.#call.metadata),
      onHeaders: (headers) => this.#guarded(() => this.#call.sendMetadata(toGrpc(headers))),
      onTrailers: (trailers) =>
        this.#guarded(() => {
          this.#trailers = toGrpc(trailers);
        }),
    };
  }

  /**
   * Runs `send`. An error (a value of the handler that gRPC cannot carry) fails the call here,
   * since no caller would catch it.
   */
  #guarded(send: () => void): void {
    try {
      send();
    } catch (error) {
      this.#fault = error;
      this.#cancelled.abort(error);
    }
  }

  async #drained(call: ServerWritableStream<Uint8Array, Uint8Array>): Promise<void> {
    const { signal } = this.#cancelled;
    await once(call, 'drain', { signal });
  }

  /** Never throws: the call would stay without an answer. */
  #failureOf(error: unknown): GrpcFailure {
    const fault = this.#fault;
    if (fault !== undefined) return this.#unsayable(fault);
    try {
      return this.#sayable(error);
    } catch (cause) {
      return this.#unsayable(cause);
    }
  }

  /** An error that gRPC cannot carry: the caller gets INTERNAL, and `onEvent` the cause. */
  #unsayable(cause: unknown): GrpcFailure {
    this.#reportUnsayable(cause);
    return { code: statusNumbers.INTERNAL, details: '', metadata: new Metadata() };
  }

  #reportUnsayable(cause: unknown): void {
    const method = this.#method.wireName;
    const words = `${method}: gRPC cannot carry what the handler said: ${errorText(cause)}`;
    const error = new SidecallError('ERR_SIDECALL_RPC', words, { cause });
    emitEvent(this.#parts.onEvent, { type: 'handler-failed', error, peer: undefined, method });
  }

  #sayable(error: unknown): GrpcFailure {
    const metadata = this.#trailers;
    if (this.#cancelled.signal.aborted) {
      return { code: statusNumbers.CANCELLED, details: 'the caller gave up', metadata };
    }
    // Our own checks of what the caller sent: metadata that is too long, for instance.
    if (!SidecallError.is(error)) {
      return {
        code: statusNumbers.INVALID_ARGUMENT,
        details: sayableText(errorText(error)),
        metadata,
      };
    }
    const code = statuses.indexOf(error.status);
    // The session puts the method in front of its errors; the gRPC caller
    // knows it, so it is removed.
    const prefix = `${this.#method.wireName}: `;
    const message = sayableText(error.message);
    const details = message.startsWith(prefix) ? message.slice(prefix.length) : message;
    if (!RpcError.is(error)) return { code, details, metadata };
    const own = toGrpc(error.metadata);
    for (const key of Object.keys(own.getMap())) metadata.remove(key);
    metadata.merge(own);
    const textBytes = encodeURIComponent(details).length;
    checkHeaders(metadata, textBytes);
    const said = metadata.clone();
    setDetails(said, { code, message: details, details: error.details });
    try {
      checkHeaders(said, textBytes);
      return { code, details, metadata: said };
    } catch (cause) {
      this.#reportUnsayable(cause); // the status and the text go without details
      return { code, details, metadata };
    }
  }
}

/**
 * The text without lone surrogates, which cannot be encoded for a header, and cut to what fits into
 * one: each byte beyond ASCII takes three.
 */
function sayableText(text: string): string {
  return Buffer.from(text.slice(0, textMax)).toString();
}

function isCertificate(found: PeerCertificate | undefined): boolean {
  return found !== undefined && Object.keys(found).length > 0;
}
