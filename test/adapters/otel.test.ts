// Spans and metrics by the SDK of OpenTelemetry itself: of two processes, of each kind of call, and
// of each way in which one ends.
import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { observeSessions, openTelemetry } from '../../src/adapters/otel.ts';
import { RpcError } from '../../src/base/errors.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { totalStats } from '../../src/open/open-sessions.ts';
import {
  bidi,
  clientStream,
  notification,
  serverStream,
  service,
  unary,
} from '../../src/rpc/contract/service.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { collect } from '../support/contract.ts';

const traced = new URL('../e2e/programs/traced-helper.mjs', import.meta.url);

const Index = service('Index', {
  find: unary<string, string>(),
  each: serverStream<number, string>(),
});
const Store = service('Store', { read: unary<string, string>() });
interface TakenSpan {
  readonly name: string;
  readonly kind: SpanKind;
  readonly traceId: string;
  readonly spanId: string;
  readonly above: string | undefined;
  readonly attributes: Record<string, unknown>;
}
const Spans = service('Spans', { take: unary<void, TakenSpan[]>() });

const Kinds = service('Kinds', {
  unary: unary<string, string>(),
  tell: notification<string>(),
  up: clientStream<string, number>(),
  down: serverStream<number, number>(),
  both: bidi<string, string>(),
});

let exporter: InMemorySpanExporter;
let tracerProvider: BasicTracerProvider;
beforeEach(() => {
  exporter = new InMemorySpanExporter();
  tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
});
afterEach(() => {
  context.disable();
  propagation.disable();
});

function taken(spans: readonly ReadableSpan[]): TakenSpan[] {
  return spans.map((span) => ({
    name: span.name,
    kind: span.kind,
    attributes: span.attributes,
    ...span.spanContext(),
    above: span.parentSpanContext?.spanId,
  }));
}

it('a call of two processes, and the call that its handler makes, are one trace', async () => {
  const interceptors = [openTelemetry({ tracerProvider })];
  const helper = await spawnHelper(traced);
  try {
    helper.serve(Store, { read: (word) => `read ${word}` }, { interceptors });
    const index = helper.client(Index, { interceptors });
    const root = tracerProvider.getTracer('test').startSpan('root');
    await context.with(trace.setSpan(context.active(), root), async () => {
      expect(await index.find('a')).toBe('read a');
      expect(await collect(index.each(2))).toEqual(['read 0', 'read 1']);
    });
    root.end();
    const theirs = await helper.client(Spans).take();
    const ours = taken(exporter.getFinishedSpans());
    const all = [...ours, ...theirs];
    const ids = new Map(all.map((span) => [span.spanId, span]));
    const pathOf = ({ name, kind, above }: TakenSpan): string => {
      const upper = above === undefined ? undefined : ids.get(above);
      return `${upper === undefined ? '' : `${pathOf(upper)} > `}${SpanKind[kind]} ${name}`;
    };
    expect(new Set(all.map(({ traceId }) => traceId)).size).toBe(1);
    const find = 'INTERNAL root > CLIENT Index.find > SERVER Index.find';
    const each = 'INTERNAL root > CLIENT Index.each > SERVER Index.each';
    expect(all.map(pathOf).sort()).toEqual(
      [
        'INTERNAL root',
        'INTERNAL root > CLIENT Index.find',
        find,
        `${find} > CLIENT Store.read`,
        `${find} > CLIENT Store.read > SERVER Store.read`,
        'INTERNAL root > CLIENT Index.each',
        each,
        ...[0, 1].flatMap(() => [
          `${each} > CLIENT Store.read`,
          `${each} > CLIENT Store.read > SERVER Store.read`,
        ]),
      ].sort(),
    );
    const found = theirs.find(
      ({ name, kind }) => name === 'Index.find' && kind === SpanKind.SERVER,
    );
    expect(found?.attributes).toEqual({
      'rpc.system.name': 'sidecall',
      'rpc.method': 'Index.find',
      'rpc.status_code': 'OK',
      'sidecall.peer.pid': process.pid,
    });
  } finally {
    await helper.stop();
  }
});

describe('a span', () => {
  const secret = 'a-secret-word';

  function kinds() {
    const interceptors = [openTelemetry({ tracerProvider })];
    const pair = createSessionPair();
    pair.far.serve(
      Kinds,
      {
        unary: (word) => {
          if (word === 'missing') throw new RpcError('not_found', secret);
          if (word === 'fault') throw new Error(secret);
          return word === 'never' ? new Promise<string>(() => undefined) : word;
        },
        tell: () => undefined,
        up: async (words) => (await collect(words)).length,
        async *down(count) {
          for (let at = 0; ; at += 1) {
            if (at === count) throw new RpcError('data_loss', secret);
            yield at;
          }
        },
        async *both(words) {
          for await (const word of words) yield word;
        },
      },
      { interceptors },
    );
    return { pair, client: pair.near.client(Kinds, { interceptors }) };
  }

  /** `C` or `S`, the method, the status, and `!` where the span says error. */
  function ends(): string[] {
    const spans = exporter.getFinishedSpans();
    return spans
      .map(({ name, kind, attributes, status }) => {
        const isError = status.code === SpanStatusCode.ERROR;
        expect(attributes['error.type']).toBe(isError ? attributes['rpc.status_code'] : undefined);
        const side = SpanKind[kind]?.[0];
        return `${side} ${name} ${attributes['rpc.status_code']}${isError ? '!' : ''}`;
      })
      .sort();
  }

  it('ends with its call, whatever its kind', async () => {
    const { pair, client } = kinds();
    await client.unary('a');
    await client.tell('b');
    const up = client.up();
    await up.send('c');
    expect(ends()).not.toContain('C Kinds.up OK');
    expect(await up.end()).toBe(1);
    expect(await client.up(['d', 'e'])).toBe(2);
    const both = client.both();
    await both.send('f');
    await both.end();
    expect(await collect(both)).toEqual(['f']);
    expect(await collect(client.both(['g']))).toEqual(['g']);
    await pair.close();
    const expected = ['unary', 'tell', 'up', 'up', 'both', 'both'].flatMap((name) => [
      `C Kinds.${name} OK`,
      `S Kinds.${name} OK`,
    ]);
    expect(ends()).toEqual(expected.sort());
  });

  it('has the status of a failure, and says error where it is the fault of that side', async () => {
    const { pair, client } = kinds();
    await expect(client.unary('missing')).rejects.toThrow(secret);
    await expect(client.unary('fault')).rejects.toThrow();
    await expect(client.unary('never', { timeoutMs: 20 })).rejects.toThrow();
    await expect(client.unary('never', { signal: AbortSignal.abort() })).rejects.toThrow();
    await expect(collect(client.down(2))).rejects.toThrow(secret);
    for await (const _ of client.down(1e9)) break;
    await pair.close();
    expect(ends()).toEqual(
      [
        'C Kinds.unary NOT_FOUND!',
        'S Kinds.unary NOT_FOUND',
        'C Kinds.unary INTERNAL!',
        'S Kinds.unary INTERNAL!',
        'C Kinds.unary DEADLINE_EXCEEDED!',
        'C Kinds.unary CANCELLED!',
        'C Kinds.down DATA_LOSS!',
        'S Kinds.down DATA_LOSS!',
        'C Kinds.down CANCELLED!',
        'S Kinds.down CANCELLED',
      ].sort(),
    );
  });

  it.each([
    ['nothing', undefined],
    ['a text', 'abc'],
    ['a promise of nothing', Promise.resolve()],
    [
      'responses that fail to begin',
      {
        [Symbol.iterator]() {
          throw new Error(secret);
        },
      },
    ],
  ])('ends where the handler of a stream gives %s', async (_, result) => {
    const interceptors = [openTelemetry({ tracerProvider })];
    const pair = createSessionPair();
    pair.far.serve(Index, { find: (word) => word, each: () => result as never }, { interceptors });
    await expect(collect(pair.near.client(Index).each(1))).rejects.toThrow();
    await pair.close();
    expect(ends()).toEqual(['S Index.each INTERNAL!']);
  });

  it('has no payload, no metadata and no text of the program', async () => {
    const { pair, client } = kinds();
    await client.unary(secret, { metadata: { token: secret } });
    await expect(client.unary('missing')).rejects.toThrow();
    await pair.close();
    const spans = exporter.getFinishedSpans();
    expect(spans).toHaveLength(4);
    for (const { attributes, events, status } of spans) {
      expect(JSON.stringify([attributes, events, status])).not.toContain(secret);
    }
  });

  it('refuses misuse', () => {
    expect(() => openTelemetry({ provider: 1 } as never)).toThrow(TypeError);
    expect(() => observeSessions({ provider: 1 } as never)).toThrow(TypeError);
  });
});

it('durations of calls and the numbers of all sessions are metrics', async () => {
  const reader = new PeriodicExportingMetricReader({
    exporter: new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE),
  });
  const meterProvider = new MeterProvider({ readers: [reader] });
  /** The metrics that an export would have, as a function of name and attributes. */
  const read = async () => {
    const { resourceMetrics } = await reader.collect();
    const all = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics);
    const points = new Map(all.map(({ descriptor, dataPoints }) => [descriptor.name, dataPoints]));
    return (name: string, wanted: Record<string, string> = {}) =>
      points
        .get(name)
        ?.find(({ attributes }) =>
          Object.entries(wanted).every(([key, value]) => attributes[key] === value),
        )?.value;
  };
  const interceptors = [openTelemetry({ tracerProvider, meterProvider })];
  const instruments = observeSessions({ meterProvider });
  const helper = await spawnHelper(traced);
  try {
    helper.serve(Store, { read: (word) => word });
    const index = helper.client(Index, { interceptors });
    await index.find('first');
    const before = await read();
    for (const word of ['a', 'b', 'c']) await index.find(word);
    const after = await read();
    const grown = (name: string, wanted: Record<string, string>): number =>
      (after(name, wanted) as number) - (before(name, wanted) as number);
    const ok = { 'rpc.method': 'Index.find', 'rpc.status_code': 'OK' };
    expect(after('rpc.client.call.duration', ok)).toMatchObject({ count: 4 });
    const calls = { 'rpc.method': 'Index.find', 'sidecall.side': 'called', outcome: 'succeeded' };
    expect(grown('sidecall.calls', calls)).toBe(3);
    expect(grown('sidecall.calls', { ...calls, outcome: 'failed' })).toBe(0);
    expect(grown('sidecall.messages', { direction: 'sent' })).toBe(6); // requests and answers
    expect(grown('sidecall.message.size', { direction: 'sent' })).toBe(6 * '"a"'.length);
    expect(after('sidecall.sessions')).toBe(totalStats().sessions.open);
    expect(after('sidecall.waits', { reason: 'slot' })).toBe(0);
    instruments.stop();
    instruments.stop();
    await index.find('not read');
    expect((await read())('sidecall.calls', calls)).toBe(after('sidecall.calls', calls));
  } finally {
    instruments.stop();
    await helper.stop();
    await meterProvider.shutdown();
  }
});
