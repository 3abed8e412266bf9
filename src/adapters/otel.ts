// SPDX-License-Identifier: MIT
// `sidecall/otel`: spans and metrics of OpenTelemetry, by its semantic conventions of RPC (1.45).

import {
  type Attributes,
  type Context,
  context,
  type Histogram,
  type MeterProvider,
  metrics,
  propagation,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TracerProvider,
  trace,
} from '@opentelemetry/api';
import { isPromise } from '../base/brands.ts';
import { systemClock } from '../base/clock.ts';
import { RpcError, SidecallError } from '../base/errors.ts';
import { checkKeys } from '../base/misuse.ts';
import { version } from '../base/version.ts';
import { endOfStream } from '../rpc/calling/caller-streams.ts';
import type { InterceptedCall, Interceptor } from '../rpc/contract/interceptor.ts';
import { streamIn, textsOf, withHeaders } from '../rpc/contract/trace-context.ts';

import { checkProvider } from './otel-options.ts';

export { type Instruments, type ObserveOptions, observeSessions } from './otel-metrics.ts';

/** Options of {@link openTelemetry}. */
export interface OpenTelemetryOptions {
  /** Default: the provider that the program has set for all of its code. */
  readonly tracerProvider?: TracerProvider | undefined;
  /** As `tracerProvider`. */
  readonly meterProvider?: MeterProvider | undefined;
}

/** Attributes by the names of the semantic conventions. */
const name = {
  system: 'rpc.system.name',
  method: 'rpc.method',
  status: 'rpc.status_code',
  error: 'error.type',
  peer: 'sidecall.peer.pid',
} as const;

// Failures of a server, as gRPC's conventions say: the others are the caller's own doing.
const faults = [
  'unknown',
  'deadline_exceeded',
  'unimplemented',
  'internal',
  'unavailable',
  'data_loss',
];

/** Seconds. The conventions begin at 5 ms, which no call on one machine should take. */
const boundaries = [
  0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
  0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
];

/**
 * An interceptor for both sides. Of a client: a span of kind `CLIENT` for each call; its context
 * goes with the metadata of the call, as the propagator of the program writes it (`traceparent`).
 * Of `serve()`, or of a `server()`: a span of kind `SERVER` below that of the caller; it is active
 * while the handler runs. Both record their duration, `rpc.client.call.duration` and
 * `rpc.server.call.duration`. No payload, no metadata and no text of the program is recorded.
 * @throws {TypeError} for misuse.
 * @example
 * ```ts
 * import { service, type Session, server, unary } from 'sidecall';
 * import { openTelemetry } from 'sidecall/otel';
 *
 * const Index = service('Index', { find: unary<string, string[]>() });
 * const interceptors = [openTelemetry()];
 * const app = server({ interceptors });
 *
 * async function find(session: Session): Promise<string[]> {
 *   return session.client(Index, { interceptors }).find('word');
 * }
 * ```
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Interceptor {
  checkKeys('openTelemetry()', options, ['tracerProvider', 'meterProvider']);
  checkProvider('openTelemetry()', 'tracerProvider', options.tracerProvider);
  checkProvider('openTelemetry()', 'meterProvider', options.meterProvider);
  const tracer = (options.tracerProvider ?? trace).getTracer('sidecall', version);
  let durations: Durations | undefined;
  const begin = ({ method, side, ctx }: InterceptedCall, parent: Context): TracedCall => {
    const kind = side === 'caller' ? SpanKind.CLIENT : SpanKind.SERVER;
    const attributes: Attributes = { [name.system]: 'sidecall', [name.method]: method };
    const pid = ctx?.peer.pid;
    const own = pid === undefined ? attributes : { ...attributes, [name.peer]: pid };
    // Made for the first call: before an SDK is set up, the API gives histograms that do nothing.
    durations ??= durationsOf(options.meterProvider ?? metrics);
    const span = tracer.startSpan(method, { kind, attributes: own }, parent);
    return new TracedCall(span, trace.setSpan(parent, span), durations[side], attributes);
  };
  return (call, next) => {
    if (call.side === 'caller') return callIn(begin(call, context.active()), call, next);
    const parent = propagation.extract(context.active(), textsOf(call.ctx?.metadata ?? {}));
    return handleIn(begin(call, parent), call, next);
  };
}

type Durations = Readonly<Record<InterceptedCall['side'], Histogram>>;

function durationsOf(provider: MeterProvider): Durations {
  const meter = provider.getMeter('sidecall', version);
  const options = { unit: 's', advice: { explicitBucketBoundaries: boundaries } };
  return {
    caller: meter.createHistogram('rpc.client.call.duration', options),
    handler: meter.createHistogram('rpc.server.call.duration', options),
  };
}

type Next = (call: InterceptedCall) => unknown;

/** A call with its span, which ends once. */
class TracedCall {
  readonly context: Context;
  readonly #span: Span;
  readonly #durations: Histogram;
  readonly #attributes: Attributes;
  readonly #begunMs = systemClock.nowMs();
  #isOver = false;

  constructor(span: Span, within: Context, durations: Histogram, attributes: Attributes) {
    this.#span = span;
    this.context = within;
    this.#durations = durations;
    this.#attributes = attributes;
  }

  /** Runs a part of the call in its context. */
  readonly run = <T>(body: () => T): T => context.with(this.context, body);

  /** `isFault`: the failure is ours, or we are the caller. */
  end(status: string, isFault: boolean, text: string | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const code = status.toUpperCase();
    const outcome: Attributes = { [name.status]: code };
    if (isFault) {
      outcome[name.error] = code;
      this.#span.setStatus({ code: SpanStatusCode.ERROR, ...(text && { message: text }) });
    }
    this.#span.setAttributes(outcome);
    this.#span.end();
    const seconds = (systemClock.nowMs() - this.#begunMs) / 1e3;
    this.#durations.record(seconds, { ...this.#attributes, ...outcome }, this.context);
  }
}

function callIn(traced: TracedCall, call: InterceptedCall, next: Next): unknown {
  const headers: Record<string, string> = {};
  propagation.inject(traced.context, headers);
  const onEnd = (): void => traced.end('ok', false, undefined);
  const onFailed = (error: unknown): void => {
    const text = error instanceof SidecallError ? error.code : undefined;
    traced.end(statusOf(error) ?? 'cancelled', true, text);
  };
  try {
    const result = asked(traced.run(() => next(withHeaders(call, headers))));
    endOf(result).then(onEnd, onFailed);
    return result;
  } catch (error) {
    onFailed(error);
    throw error;
  }
}

/** Of a thenable its promise: the `then` of some objects does their work each time. */
function asked(result: unknown): unknown {
  const isThenable = typeof (result as Partial<Promise<unknown>> | undefined)?.then === 'function';
  return isThenable ? Promise.resolve(result) : result;
}

/** Settles when the call is over, whatever its kind. */
async function endOf(result: unknown): Promise<unknown> {
  const settled = await result;
  return endOfStream(settled) ?? settled;
}

function handleIn(traced: TracedCall, call: InterceptedCall, next: Next): unknown {
  const onEnd = (): void => {
    const { signal } = call.ctx ?? {};
    if (signal?.aborted === true) return onFailed(signal.reason);
    traced.end('ok', false, undefined);
  };
  const onFailed = (error: unknown): void => {
    const status = statusOf(error) ?? 'internal';
    traced.end(status, faults.includes(status), undefined);
  };
  try {
    const result = asked(traced.run(() => next(call)));
    if (call.kind === 'serverStream' || call.kind === 'bidi') {
      return streamIn(traced.run, result, { onEnd, onFailed });
    }
    if (isPromise(result)) result.then(onEnd, onFailed);
    else onEnd();
    return result;
  } catch (error) {
    onFailed(error);
    throw error;
  }
}

/** undefined: an error that has no status. */
function statusOf(error: unknown): string | undefined {
  return RpcError.is(error) || SidecallError.is(error) ? error.status : undefined;
}
