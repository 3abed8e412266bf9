// SPDX-License-Identifier: MIT
// Methods of a contract as functions.

import { clientMember, isPromise } from '../../base/brands.ts';
import { isIterable } from '../../base/iterable.ts';
import { ranges } from '../../base/limits/option-limits.ts';
import { checkInteger, checkKeys, nodeError } from '../../base/misuse.ts';
import { sendsMany } from '../../wire/frame-header.ts';
import type { CallOptions } from '../contract/call-options.ts';
import { checkInterceptors, type Interceptor } from '../contract/interceptor.ts';
import type { Client, Method, MethodKind, Methods, Service } from '../contract/method-types.ts';
import { builtInPrefix, callKindOf, checkService } from '../contract/service.ts';
import type { CallTarget, MethodCall, StreamCall } from './call-target.ts';
import { CallerBidi, CallerClientStream, CallerServerStream } from './caller-streams.ts';
import { failed, type Invoke, intercepted } from './intercepted-call.ts';
import { checkRetry, Retrying, type RetryOptions } from './retry.ts';
import { sendAll } from './send-all.ts';

/** Options of `client()`. */
export interface ClientOptions {
  /** `timeoutMs` of calls that do not say otherwise. Default: none; 0 to 2,147,483,647. */
  readonly timeoutMs?: number | undefined;
  /**
   * Functions around every call; the first is the outermost. A repeated call is one call to them.
   * Default: none.
   */
  readonly interceptors?: readonly Interceptor[] | undefined;
  /** Repeats what may be repeated: `true` for the defaults of {@link RetryOptions}. Default: no. */
  readonly retry?: boolean | RetryOptions | undefined;
}

/**
 * One function for each method, as {@link Client} names them; the object is frozen, and has no
 * prototype.
 */
export function makeClient<M extends Methods>(
  service: Service<M>,
  target: CallTarget,
  options: ClientOptions = {},
): Client<M> {
  checkService('client()', service);
  checkKeys('client()', options, ['timeoutMs', 'interceptors', 'retry']);
  const { timeoutMs } = options;
  if (timeoutMs !== undefined) checkInteger('timeoutMs', timeoutMs, ranges.timeoutMs);
  const interceptors = checkInterceptors('client()', options.interceptors);
  const retry = checkRetry(options.retry);
  const caller = retry === undefined ? target : new Retrying(target, retry);
  const client = Object.create(null) as Record<string, unknown>;
  for (const [method, description] of Object.entries(service.methods)) {
    const callable = callableOf(service.wireName(method), description);
    const plain = invoke(caller, callable, description.kind);
    const called = intercepted(target.clock, callable.name, description.kind, plain, interceptors);
    client[clientMember(method)] = withArguments(
      callable.name,
      description.kind,
      called,
      timeoutMs,
    );
  }
  return Object.freeze(client) as Client<M>;
}

/** A method of a contract as the calling half needs it. */
function callableOf(name: string, description: Method): MethodCall {
  const kind = callKindOf[description.kind];
  return {
    name,
    kind,
    request: description.request,
    response: 'response' in description ? description.response : undefined,
    isBulk: 'priority' in description && description.priority === 'bulk',
    isBuiltIn: name.startsWith(builtInPrefix) && !sendsMany(kind),
    isIdempotent: description.idempotent,
  };
}

function invoke(target: CallTarget, callable: MethodCall, kind: MethodKind): Invoke {
  const open = (request: unknown, options: CallOptions | undefined): StreamCall =>
    target.openStream(callable, request, options);
  switch (kind) {
    case 'serverStream':
      return (request, options) => new CallerServerStream(open(request, options));
    case 'clientStream':
      return (requests, options) => {
        const call = open(undefined, options);
        if (requests === undefined) return new CallerClientStream(call);
        void sendAll(call, requests as AsyncIterable<unknown>);
        return call.promise;
      };
    case 'bidi':
      return (requests, options) => {
        const call = open(undefined, options);
        if (requests === undefined) return new CallerBidi(call);
        void sendAll(call, requests as AsyncIterable<unknown>);
        return new CallerServerStream(call);
      };
    default:
      return (request, options) => target.call(callable, request, options);
  }
}

/** Streams of requests may be left out: then they are sent. */
function withArguments(
  name: string,
  kind: MethodKind,
  called: Invoke,
  timeoutMs: number | undefined,
): (...args: unknown[]) => unknown {
  const complete = (options: unknown): CallOptions | undefined => {
    const given = options as CallOptions | undefined;
    if (timeoutMs === undefined || given?.timeoutMs !== undefined) return given;
    return { ...given, timeoutMs };
  };
  if (kind !== 'clientStream' && kind !== 'bidi') {
    if (timeoutMs === undefined) return called as (...args: unknown[]) => unknown;
    return (request, options) => called(request, complete(options));
  }
  return (first, second) => {
    if (isIterable(first)) return called(first, complete(second));
    if (first === undefined) return called(undefined, complete(second));
    const isOptions = typeof first === 'object' && first !== null && !isPromise(first);
    if (isOptions) return called(undefined, complete(first));
    const got = isPromise(first) ? 'a promise' : typeof first;
    const text = `${name}: requests must be something to iterate, and no text; got ${got}`;
    const error = nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
    const isStream = second === undefined && !isPromise(first);
    return failed(kind, isStream ? undefined : first, error);
  };
}
