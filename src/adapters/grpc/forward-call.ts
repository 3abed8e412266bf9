// SPDX-License-Identifier: MIT
// The handler at the far end of a target's session makes each call again by grpc-js.
import { once } from 'node:events';
import {
  type CallOptions,
  type Client,
  type ClientDuplexStream,
  type ClientReadableStream,
  type ClientUnaryCall,
  type ClientWritableStream,
  type Metadata,
  type ServiceError,
  status as statusNumbers,
} from '@grpc/grpc-js';
import { onAbort } from '../../base/abort-listeners.ts';
import { systemClock } from '../../base/clock.ts';
import { errorText } from '../../base/error-text.ts';
import { RpcError } from '../../base/errors.ts';
import { ignore } from '../../base/ignore-errors.ts';
import type { Metadata as OwnMetadata } from '../../base/metadata.ts';
import type { CallContext } from '../../rpc/contract/call-context.ts';
import { bytes } from '../../rpc/contract/codec.ts';
import type {
  Handlers,
  Method,
  MethodKind,
  Methods,
  Service,
} from '../../rpc/contract/method-types.ts';
import { bidi, clientStream, serverStream, unary } from '../../rpc/contract/service.ts';
import { callerMetadata } from '../forwarding/caller-contexts.ts';
import type { Forwarder } from '../forwarding/forwarded-calls.ts';
import { localFailure } from '../forwarding/local-failure.ts';
import { checkedMetadata, failureOf, unsayable } from './grpc-failure.ts';
import { codecKey, toGrpc } from './grpc-metadata.ts';
import { asBuffer } from './grpc-service.ts';

/** A method that is forwarded. */
export interface ForwardedMethod {
  /** Its wire name. */
  readonly name: string;
  readonly path: string;
  readonly kind: MethodKind;
  /** The name of the codec of its requests. */
  readonly codec: string;
}

type Requests = AsyncIterable<Uint8Array>;
type AnyCall = ClientUnaryCall | Readable | Writable | Duplex;
type Readable = ClientReadableStream<Buffer>;
type Writable = ClientWritableStream<Buffer>;
type Duplex = ClientDuplexStream<Buffer, Buffer>;

const codecs = { request: bytes, response: bytes };

/** A contract of one method of bytes, and the handler that makes its calls by `client`. */
export function forwarderOf(client: Client, method: ForwardedMethod): Forwarder {
  const start = (ctx: CallContext): Forwarding => new Forwarding(client, method, ctx);
  const [made, handler] = byKind(method.kind, start);
  const { name } = method;
  const contract: Service = { name, methods: { forward: made }, wireName: () => name };
  const handlers = { forward: handler } as unknown as Handlers<Methods>;
  return { contract, handlers, form: `${method.kind} with the codec '${method.codec}'` };
}

function byKind(kind: MethodKind, start: (ctx: CallContext) => Forwarding): [Method, unknown] {
  switch (kind) {
    case 'serverStream':
      return [
        serverStream(codecs),
        (request: Uint8Array, ctx: CallContext) => start(ctx).serverStream(request),
      ];
    case 'clientStream':
      return [
        clientStream(codecs),
        (requests: Requests, ctx: CallContext) => start(ctx).clientStream(requests),
      ];
    case 'bidi':
      return [bidi(codecs), (requests: Requests, ctx: CallContext) => start(ctx).bidi(requests)];
    default: // a notification is answered, so that its failures are known
      return [unary(codecs), (request: Uint8Array, ctx: CallContext) => start(ctx).unary(request)];
  }
}

/** A deadline of gRPC within so many milliseconds of ours is ours. */
const sameDeadlineMs = 50;

class Forwarding {
  readonly #client: Client;
  readonly #method: ForwardedMethod;
  readonly #ctx: CallContext;
  /** True: headers of the server have come. */
  #hasHeard = false;
  #fault: unknown;

  constructor(client: Client, method: ForwardedMethod, ctx: CallContext) {
    this.#client = client;
    this.#method = method;
    this.#ctx = ctx;
  }

  unary(request: Uint8Array): Promise<Uint8Array> {
    return this.#answered((path, metadata, options, callback) =>
      this.#client.makeUnaryRequest(
        path,
        asBuffer,
        asBuffer,
        asBuffer(request),
        metadata,
        options,
        callback,
      ),
    );
  }

  clientStream(requests: Requests): Promise<Uint8Array> {
    const over = new AbortController();
    const answer = this.#answered((path, metadata, options, callback) => {
      const call = this.#client.makeClientStreamRequest(
        path,
        asBuffer,
        asBuffer,
        metadata,
        options,
        callback,
      );
      void sendAll(call, requests, over.signal);
      return call;
    });
    return answer.finally(() => over.abort());
  }

  serverStream(request: Uint8Array): AsyncGenerator<Uint8Array> {
    const { metadata, options } = this.#begin();
    const { path } = this.#method;
    const call = this.#client.makeServerStreamRequest(
      path,
      asBuffer,
      asBuffer,
      asBuffer(request),
      metadata,
      options,
    );
    return this.#responses(call);
  }

  bidi(requests: Requests): AsyncGenerator<Uint8Array> {
    const { metadata, options } = this.#begin();
    const { path } = this.#method;
    const call = this.#client.makeBidiStreamRequest(path, asBuffer, asBuffer, metadata, options);
    const over = new AbortController();
    void sendAll(call, requests, over.signal);
    return this.#responses(call, over);
  }

  /** @throws {RpcError} for metadata that gRPC does not carry. */
  #begin(): { metadata: Metadata; options: CallOptions } {
    const { deadline } = this.#ctx;
    let metadata: Metadata;
    try {
      metadata = toGrpc(callerMetadata(this.#ctx));
    } catch (cause) {
      throw unsayable(this.#method.name, cause);
    }
    metadata.set(codecKey, this.#method.codec);
    if (deadline === undefined) return { metadata, options: {} };
    return { metadata, options: { deadline: Date.now() + deadline - systemClock.nowMs() } };
  }

  /** A call with one answer. */
  #answered(
    begin: (
      path: string,
      metadata: Metadata,
      options: CallOptions,
      callback: (error: ServiceError | null, answer?: Buffer) => void,
    ) => AnyCall,
  ): Promise<Uint8Array> {
    const { metadata, options } = this.#begin();
    let forget = ignore as () => void;
    const answer = new Promise<Uint8Array>((resolve, reject) => {
      const call = begin(this.#method.path, metadata, options, (error, value) => {
        if (error === null) resolve(value as Buffer);
        else reject(error);
      });
      forget = this.#follow(call);
    });
    const checked = answer.then((value) => {
      this.#checkFault();
      return value;
    });
    return checked.catch((error) => this.#fail(error)).finally(() => forget());
  }

  /** Follows the call from now on, also where its responses are never asked for. */
  #responses(call: Readable | Duplex, over?: AbortController): AsyncGenerator<Uint8Array> {
    return this.#iterate(call, this.#follow(call), over);
  }

  async *#iterate(
    call: Readable | Duplex,
    forget: () => void,
    over: AbortController | undefined,
  ): AsyncGenerator<Uint8Array> {
    try {
      for await (const response of call) yield response as Buffer;
      this.#checkFault();
    } catch (error) {
      await this.#fail(error as ServiceError);
    } finally {
      over?.abort();
      forget();
      call.cancel(); // has no effect on a call that is over
    }
  }

  /** Passes headers and trailers on, and cancels the call when ours is given up. */
  #follow(call: AnyCall): () => void {
    const { signal } = this.#ctx;
    call.on('metadata', (headers) => {
      this.#hasHeard = true;
      const own = this.#received(headers);
      if (own === undefined) call.cancel();
      else if (Object.keys(own).length > 0 && !signal.aborted) this.#ctx.sendHeaders(own);
    });
    call.on('status', ({ metadata }) => {
      const own = this.#received(metadata);
      if (own !== undefined) this.#ctx.trailers = own;
    });
    if (signal.aborted) call.cancel();
    return onAbort(signal, () => call.cancel());
  }

  /** Metadata of the server; undefined: more than a session takes, or other keys: a fault. */
  #received(metadata: Metadata): OwnMetadata | undefined {
    try {
      return checkedMetadata(metadata);
    } catch (fault) {
      this.#fault ??= fault;
      return undefined;
    }
  }

  /** @throws {RpcError} where the server sent metadata that cannot be passed on. */
  #checkFault(): void {
    if (this.#fault === undefined) return;
    const text = `${this.#method.name}: the metadata of the server: ${errorText(this.#fault)}`;
    const facts = { delivered: 'unknown', retryable: false } as const;
    throw localFailure('ERR_SIDECALL_DECODE', text, facts);
  }

  async #fail(error: unknown): Promise<never> {
    if (RpcError.is(error)) throw error;
    const failure = error as ServiceError;
    const { signal, deadline } = this.#ctx;
    if (typeof failure.code !== 'number') throw unsayable(this.#method.name, failure);
    // The end of the near call tells the caller of its deadline, a moment later at most.
    const isOurDeadline =
      failure.code === statusNumbers.DEADLINE_EXCEEDED &&
      deadline !== undefined &&
      deadline - systemClock.nowMs() < sameDeadlineMs;
    if (isOurDeadline && !signal.aborted) await once(signal, 'abort');
    if (signal.aborted) {
      throw localFailure('ERR_SIDECALL_CANCELLED', '', { delivered: 'unknown', retryable: false });
    }
    // A fault in the headers has cancelled the call.
    if (failure.code === statusNumbers.CANCELLED) this.#checkFault();
    throw failureOf(this.#method.name, failure, this.#hasHeard);
  }
}

/** Sends requests at the pace of the other side, until `over`. */
async function sendAll(
  call: Writable | Duplex,
  requests: Requests,
  over: AbortSignal,
): Promise<void> {
  const end = onAbort(over, ignore);
  try {
    for await (const request of requests) {
      if (over.aborted) return;
      if (!call.write(asBuffer(request))) await once(call, 'drain', { signal: over });
    }
    call.end();
  } catch {
    call.cancel(); // the caller gave up, or the call is over
  } finally {
    end();
  }
}
