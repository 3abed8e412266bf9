// SPDX-License-Identifier: MIT
// Typed clients whose calls another protocol carries. Each call is made on a session within this
// process, and a handler at its far end makes it again by that protocol: so options, errors,
// deadlines, cancels and streams are those of a session.

import { quiet } from '../../base/ignore-errors.ts';
import { checkLimits, sessionRanges } from '../../base/limits/option-limits.ts';
import { nodeError } from '../../base/misuse.ts';
import { LastingTarget } from '../../lasting/lasting-target.ts';
import type { MethodCall, Step, StreamCall } from '../../rpc/calling/call-target.ts';
import { type ClientOptions, makeClient } from '../../rpc/calling/client.ts';
import type { CallContext } from '../../rpc/contract/call-context.ts';
import type { CallOptions } from '../../rpc/contract/call-options.ts';
import type {
  Client,
  Handlers,
  Method,
  Methods,
  Service,
} from '../../rpc/contract/method-types.ts';
import { checkService } from '../../rpc/contract/service.ts';
import { Registry } from '../../rpc/serving/registry.ts';
import { Session } from '../../rpc/session/session.ts';
import { CallKind } from '../../wire/frame-header.ts';
import { loopbackPair } from '../../wire/loopback-transport.ts';
import { CallerContexts } from './caller-contexts.ts';
import { localFailureOf } from './local-failure.ts';

/** A contract of one method of bytes, and the handler that makes its calls. */
export interface Forwarder {
  readonly contract: Service;
  readonly handlers: Handlers<Methods>;
  /** Contracts that differ in it cannot share the method: its kind, and what else matters. */
  readonly form: string;
}

const gigabyte = sessionRanges.receiveMaxBytes.max;
/** The other protocol bounds messages itself. */
const limits = checkLimits({
  receiveMaxBytes: gigabyte,
  sendQueueMaxBytes: gigabyte,
  jsonMaxBytes: gigabyte,
  metadataMaxBytes: sessionRanges.metadataMaxBytes.max,
  streamsMax: sessionRanges.streamsMax.max,
});

const thisProcess = Object.freeze({
  origin: 'loopback',
  capturedAt: 'connect',
  pid: process.pid,
  pidIsHint: false,
  uid: undefined,
  gid: undefined,
  groups: undefined,
} as const);

/** Clients over the two ends of a session, of which the far one makes the calls. */
export class ForwardedCalls {
  readonly #near: Session;
  readonly #far: Session;
  readonly #contexts = new CallerContexts();
  readonly #target = new TranslatingTarget(this.#contexts);
  readonly #registry = new Registry();
  /** The forms of the methods that the far end forwards, by their wire names. */
  readonly #forwarded = new Map<string, string>();

  /** `protocol`: its name, for errors. */
  constructor(protocol: string) {
    const [nearEnd, farEnd] = loopbackPair();
    const common = { own: limits, remote: limits, peer: thisProcess, laneReason: protocol };
    this.#near = new Session({ ...common, transport: nearEnd });
    const registry = this.#registry;
    registry.settle();
    this.#far = new Session({ ...common, transport: farEnd, registry, introspection: false });
    this.#target.set(this.#near, true);
  }

  /**
   * The functions of a service.
   * @param forward makes the forwarder of a method. It throws for one that cannot be forwarded.
   * @throws {TypeError} what `forward` throws, and for a name that has two forms.
   */
  client<M extends Methods>(
    service: Service<M>,
    options: ClientOptions | undefined,
    forward: (member: string, method: Method) => Forwarder,
  ): Client<M> {
    checkService('client()', service);
    for (const [member, method] of Object.entries<Method>(service.methods)) {
      const name = service.wireName(member);
      const { contract, handlers, form } = forward(member, method);
      const known = this.#forwarded.get(name);
      if (known === form) continue;
      if (known !== undefined) {
        const text = `client(): '${name}' is ${known} in another contract, and ${form} in this one`;
        throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
      }
      this.#forwarded.set(name, form);
      // The caller is this process: its calls are made at once.
      this.#registry.addOwn(contract, this.#inContext(handlers), { isBuiltIn: true });
    }
    return makeClient(service, this.#target, options);
  }

  #inContext(handlers: Handlers<Methods>): Handlers<Methods> {
    const entries = Object.entries(handlers as { readonly [name: string]: Forward });
    const wrapped = entries.map(([name, forward]): [string, Forward] => [
      name,
      (request, ctx) => this.#contexts.run(ctx, () => forward(request, ctx)),
    ]);
    return Object.fromEntries(wrapped) as unknown as Handlers<Methods>;
  }

  /** Refuses new calls, and resolves when those under way are over. */
  async close(deadlineMs: number): Promise<void> {
    await Promise.all([this.#near.close({ deadlineMs }), this.#far.close({ deadlineMs })]);
  }
}

type Forward = (request: unknown, ctx: CallContext) => unknown;

/** Calls on the near session, with the failures of the connection as what they are. */
class TranslatingTarget extends LastingTarget {
  readonly #contexts: CallerContexts;

  constructor(contexts: CallerContexts) {
    super({ name: 'the target', pending: 'it was closed' });
    this.#contexts = contexts;
  }

  protected override async callOn(
    session: Session,
    callable: MethodCall,
    value: unknown,
    options: CallOptions | undefined,
  ): Promise<unknown> {
    const kept = this.#contexts.keep(options);
    try {
      const isNotification = callable.kind === CallKind.notification;
      const answered = isNotification ? { ...callable, ...emptyAnswer } : callable;
      return await super.callOn(session, answered, value, kept.options);
    } catch (error) {
      throw localFailureOf(error);
    } finally {
      kept.forget();
    }
  }

  protected override streamOn(
    session: Session,
    callable: MethodCall,
    value: unknown,
    options: CallOptions | undefined,
  ): StreamCall {
    const kept = this.#contexts.keep(options);
    const stream = super.streamOn(session, callable, value, kept.options);
    void stream.promise.then(kept.forget, kept.forget);
    return new TranslatedStream(stream);
  }
}

/** A notification as a unary call. */
const emptyAnswer = {
  kind: CallKind.unary,
  response: { name: 'none', encode: () => '', decode: () => undefined },
};

/** A stream whose failures are translated as those of other calls. */
class TranslatedStream implements StreamCall {
  readonly promise: Promise<unknown>;
  readonly #call: StreamCall;

  constructor(call: StreamCall) {
    this.#call = call;
    this.promise = translated(call.promise);
  }

  get queuedBytes(): number {
    return this.#call.queuedBytes;
  }

  next(): Promise<Step> {
    return translated(this.#call.next());
  }

  cancelReading(): void {
    this.#call.cancelReading();
  }

  send(value: unknown): Promise<void> {
    return translated(this.#call.send(value));
  }

  end(): Promise<void> {
    return translated(this.#call.end());
  }

  cancel(reason: unknown): void {
    this.#call.cancel(reason);
  }
}

function translated<T>(result: Promise<T>): Promise<T> {
  return quiet(
    result.catch((error: unknown) => {
      throw localFailureOf(error);
    }),
  );
}
