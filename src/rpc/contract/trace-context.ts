// SPDX-License-Identifier: MIT
// W3C trace context (https://www.w3.org/TR/trace-context/): the trace of a caller goes with the
// metadata of its calls, and is that of the handler while it runs.

import { AsyncLocalStorage } from 'node:async_hooks';
import { isPromise } from '../../base/brands.ts';
import { isIterable, iteratorOf } from '../../base/iterable.ts';
import type { Metadata } from '../../base/metadata.ts';
import { checkKeys, nodeError } from '../../base/misuse.ts';
import type { InterceptedCall, Interceptor } from './interceptor.ts';

/** A trace as it travels: the two headers of W3C. */
export interface Trace {
  /** Version, trace id, id of the span above, flags: `00-<32 hex>-<16 hex>-01`. */
  readonly traceparent: string;
  /** Key-values of tracing systems; left out where there are none. At most 512 characters. */
  readonly tracestate?: string | undefined;
}

/** The parts of `@opentelemetry/api` that are used: give the module itself. */
export interface TraceApi {
  readonly context: {
    active(): unknown;
    // biome-ignore lint/suspicious/noExplicitAny: the contexts of the API are its own
    with<T>(context: any, run: () => T): T;
  };
  readonly propagation: {
    // biome-ignore lint/suspicious/noExplicitAny: as above
    inject(context: any, carrier: Record<string, string>): void;
    // biome-ignore lint/suspicious/noExplicitAny: as above
    extract(context: any, carrier: Record<string, string>): unknown;
  };
}

/** Options of {@link traceContext}. */
export interface TraceContextOptions {
  /**
   * OpenTelemetry: `import * as api from '@opentelemetry/api'`. The context of its active span is
   * sent, by the propagator that the program has set, and is active in handlers. Default: none;
   * then the trace of {@link currentTrace} travels.
   */
  readonly api?: TraceApi | undefined;
}

const traces = new AsyncLocalStorage<Trace>();

/**
 * The trace of the call whose handler runs here, or of {@link runInTrace}; undefined: there is
 * none. With OpenTelemetry ask that instead.
 */
export function currentTrace(): Trace | undefined {
  return traces.getStore();
}

/**
 * Runs a function, and everything that it starts, in a trace.
 * @throws {TypeError} for what is no trace; what `run` throws.
 */
export function runInTrace<T>(trace: Trace, run: () => T): T {
  const checked = traceOf(trace);
  if (checked === undefined) {
    const text = `runInTrace() needs a traceparent of the form 00-<32 hex>-<16 hex>-<2 hex>, got '${String(trace?.traceparent)}'`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  return traces.run(checked, run);
}

/**
 * An interceptor for both sides. Of a client: puts `traceparent` and `tracestate` into the metadata
 * of each call, unless the call has them. Of `serve()`, or of a `server()`: restores them while the
 * handler runs, so that calls that it makes belong to the same trace. What a caller sends is
 * checked; a trace that is not well-formed is left out. Over gRPC these are the usual headers.
 * @throws {TypeError} for misuse.
 * @example
 * ```ts
 * import * as api from '@opentelemetry/api';
 * import { type Session, server, service, traceContext, unary } from 'sidecall';
 *
 * const Index = service('Index', { find: unary<string, string[]>() });
 * const interceptors = [traceContext({ api })];
 * const app = server({ interceptors });
 *
 * async function find(session: Session): Promise<string[]> {
 *   return session.client(Index, { interceptors }).find('word');
 * }
 * ```
 */
export function traceContext(options: TraceContextOptions = {}): Interceptor {
  checkKeys('traceContext()', options, ['api']);
  const { api } = options;
  const isApi =
    typeof api?.propagation?.inject === 'function' && typeof api.context?.with === 'function';
  if (api !== undefined && !isApi) {
    const text = 'traceContext(): api must be the module @opentelemetry/api';
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  const carrier = api === undefined ? own : byApi(api);
  return (call, next) => {
    if (call.side === 'caller') return next(withHeaders(call, carrier.send()));
    const run = carrier.receive(call.ctx?.metadata ?? {});
    if (run === undefined) return next(call);
    const result = run(() => next(call));
    const isStream = call.kind === 'serverStream' || call.kind === 'bidi';
    return isStream ? streamIn(run, result) : result;
  };
}

type Run = <T>(body: () => T) => T;

interface Carrier {
  /** The headers of the trace of the moment. */
  send(): Record<string, string>;
  /** The trace that has arrived, as something to run in; undefined: there is none. */
  receive(metadata: Metadata): Run | undefined;
}

const own: Carrier = {
  send() {
    const { traceparent, tracestate } = traces.getStore() ?? {};
    if (traceparent === undefined) return {};
    return tracestate === undefined ? { traceparent } : { traceparent, tracestate };
  },
  receive(metadata) {
    const trace = traceOf(metadata);
    return trace && ((body) => traces.run(trace, body));
  },
};

function byApi({ context, propagation }: TraceApi): Carrier {
  return {
    send() {
      const headers: Record<string, string> = {};
      propagation.inject(context.active(), headers);
      return headers;
    },
    receive(metadata) {
      const extracted = propagation.extract(context.active(), textsOf(metadata));
      return (body) => context.with(extracted, body);
    },
  };
}

/** The metadata that are texts. */
export function textsOf(metadata: Metadata): Record<string, string> {
  const texts = Object.entries(metadata).filter(([, value]) => typeof value === 'string');
  return Object.fromEntries(texts) as Record<string, string>;
}

/** The call with further metadata, which those that it has go before. */
export function withHeaders(
  call: InterceptedCall,
  headers: Record<string, string>,
): InterceptedCall {
  if (Object.keys(headers).length === 0) return call;
  const metadata = { ...headers, ...call.options?.metadata };
  return { ...call, options: { ...call.options, metadata } };
}

const parentForm = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const stateForm = /^[\x20-\x7e]{1,512}$/;

/** The trace in the metadata of a caller; undefined: there is none, or it is not well-formed. */
function traceOf(given: {
  readonly traceparent?: unknown;
  readonly tracestate?: unknown;
}): Trace | undefined {
  const { traceparent, tracestate } = given;
  if (typeof traceparent !== 'string' || !parentForm.test(traceparent)) return undefined;
  const hasState = typeof tracestate === 'string' && stateForm.test(tracestate);
  return Object.freeze(hasState ? { traceparent, tracestate } : { traceparent });
}

/** Told once or more often how the responses of a handler end. */
export interface StreamEnd {
  onEnd(): void;
  onFailed(error: unknown): void;
}

/** The responses of a handler, each made in the trace: a generator runs when it is asked. */
export function streamIn(run: Run, result: unknown, end?: StreamEnd): unknown {
  if (isPromise(result)) {
    const responses = Promise.resolve(result).then((value) => streamIn(run, value, end));
    if (end !== undefined) responses.catch((error) => end.onFailed(error));
    return responses;
  }
  if (!isIterable(result)) {
    end?.onFailed(new TypeError('the result of the handler cannot be iterated'));
    return result; // the session says what is wrong
  }
  const iterator = run(() => iteratorOf(result));
  const ending = iterator.return?.bind(iterator);
  const next = async (): Promise<IteratorResult<unknown>> => {
    try {
      const step = await run(() => iterator.next());
      if (step.done === true) end?.onEnd();
      return step;
    } catch (error) {
      end?.onFailed(error);
      throw error;
    }
  };
  const onReturn = async (value?: unknown): Promise<unknown> => {
    try {
      return await run(() => ending?.(value) ?? { done: true, value });
    } finally {
      end?.onEnd();
    }
  };
  return {
    [Symbol.asyncIterator]: () => ({ next, ...((ending ?? end) && { return: onReturn }) }),
  };
}
