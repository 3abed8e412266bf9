// The two parts of an SDK of OpenTelemetry that carry contexts, as small as a test needs them.
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Context,
  type ContextManager,
  ROOT_CONTEXT,
  type TextMapPropagator,
  trace,
} from '@opentelemetry/api';

export class OtelContext implements ContextManager {
  readonly #contexts = new AsyncLocalStorage<Context>();

  active(): Context {
    return this.#contexts.getStore() ?? ROOT_CONTEXT;
  }

  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    context: Context,
    run: F,
    self?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#contexts.run(context, () => run.apply(self, args));
  }

  bind<T>(_context: Context, target: T): T {
    return target;
  }

  enable(): this {
    return this;
  }

  disable(): this {
    return this;
  }
}

export class W3cPropagator implements TextMapPropagator<Record<string, string>> {
  inject(context: Context, carrier: Record<string, string>): void {
    const span = trace.getSpanContext(context);
    if (span !== undefined) carrier.traceparent = `00-${span.traceId}-${span.spanId}-01`;
  }

  extract(context: Context, carrier: Record<string, string>): Context {
    const [, traceId, spanId] = carrier.traceparent?.split('-') ?? [];
    if (traceId === undefined || spanId === undefined) return context;
    return trace.setSpanContext(context, { traceId, spanId, traceFlags: 1, isRemote: true });
  }

  fields(): string[] {
    return ['traceparent'];
  }
}
