// A helper with an SDK of OpenTelemetry of its own: it serves, calls its parent back, and hands out
// the spans that its SDK has exported.
import { context, propagation } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { openTelemetry } from '../../../dist/adapters/otel.js';
import { parent, serverStream, service, unary } from '../../../dist/index.js';

const exporter = new InMemorySpanExporter();
const tracerProvider = new BasicTracerProvider({
  spanProcessors: [new SimpleSpanProcessor(exporter)],
});
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
propagation.setGlobalPropagator(new W3CTraceContextPropagator());

const Index = service('Index', { find: unary(), each: serverStream() });
const Store = service('Store', { read: unary() });
const Spans = service('Spans', { take: unary() });
const interceptors = [openTelemetry({ tracerProvider })];

const session = await parent();
const store = session.client(Store, { interceptors });
session.serve(
  Index,
  {
    find: (word) => store.read(word),
    async *each(count) {
      for (let at = 0; at < count; at += 1) yield await store.read(`${at}`);
    },
  },
  { interceptors },
);
session.serve(Spans, {
  take: () => {
    const spans = exporter.getFinishedSpans().map((span) => ({
      name: span.name,
      kind: span.kind,
      attributes: span.attributes,
      ...span.spanContext(),
      above: span.parentSpanContext?.spanId,
    }));
    exporter.reset();
    return spans;
  },
});
