import * as api from '@opentelemetry/api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { bidi, serverStream, service, unary } from '../../../src/rpc/contract/service.ts';
import {
  currentTrace,
  runInTrace,
  type TraceContextOptions,
  traceContext,
} from '../../../src/rpc/contract/trace-context.ts';
import { createSessionPair, type SessionPair } from '../../../src/testing/session-pair.ts';
import { collect } from '../../support/contract.ts';
import { OtelContext, W3cPropagator } from '../../support/otel.ts';

const Traced = service('Traced', {
  trace: unary<void, string>(),
  metadata: unary<void, { [key: string]: string }>(),
  onward: unary<void, string>(),
  each: serverStream<number, string>(),
  echo: bidi<number, string>(),
});
const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const trace = { traceparent, tracestate: 'vendor=1' };

/** Two sessions; the far one calls the near one back. */
function pairOf(options: TraceContextOptions, seen: () => string): SessionPair {
  const pair = createSessionPair();
  const interceptors = [traceContext(options)];
  const back = pair.far.client(Traced, { interceptors });
  for (const side of [pair.near, pair.far]) {
    side.serve(
      Traced,
      {
        trace: seen,
        metadata: (_, { metadata }) => ({ ...(metadata as { [key: string]: string }) }),
        onward: () => back.trace(),
        async *each(count) {
          for (let at = 0; at < count; at += 1) {
            await new Promise((resolve) => setTimeout(resolve, 1));
            yield seen();
          }
        },
        async *echo(numbers) {
          for await (const number of numbers) yield `${number} ${seen()}`;
        },
      },
      { interceptors },
    );
  }
  return pair;
}

const own = (): string => JSON.stringify(currentTrace() ?? 'none');

describe('traceContext()', () => {
  it('carries a trace to the handler of each kind, and to the calls that it makes', async () => {
    await using pair = pairOf({}, own);
    const client = pair.near.client(Traced, { interceptors: [traceContext()] });
    const expected = JSON.stringify(trace);
    await runInTrace(trace, async () => {
      expect(await client.trace()).toBe(expected);
      expect(await client.onward()).toBe(expected);
      expect(await collect(client.each(3))).toEqual([expected, expected, expected]);
      expect(await collect(client.echo([1, 2]))).toEqual([`1 ${expected}`, `2 ${expected}`]);
    });
    expect(await client.trace()).toBe('"none"');
    expect(currentTrace()).toBeUndefined();
  });

  it('calls at the same time keep their traces apart', async () => {
    await using pair = pairOf({}, own);
    const client = pair.near.client(Traced, { interceptors: [traceContext()] });
    const ids = Array.from({ length: 50 }, (_, at) => (at + 1).toString(16).padStart(32, '0'));
    const answers = await Promise.all(
      ids.map((id) => runInTrace({ traceparent: `00-${id}-b7ad6b7169203331-00` }, client.onward)),
    );
    expect(answers.map((answer) => JSON.parse(answer).traceparent.slice(3, 35))).toEqual(ids);
  });

  it('leaves the metadata of a call as its caller has set it', async () => {
    await using pair = pairOf({}, own);
    const client = pair.near.client(Traced, { interceptors: [traceContext()] });
    const metadata = { traceparent: traceparent.replace('01', '02'), other: 'x' };
    const seen = await runInTrace(trace, () => client.metadata(undefined, { metadata }));
    expect(seen).toEqual({ ...metadata, tracestate: 'vendor=1' });
  });

  it('leaves out what is not well-formed', async () => {
    await using pair = pairOf({}, own);
    const client = pair.near.client(Traced);
    const wrong = [
      'x',
      `${traceparent}-more`,
      traceparent.toUpperCase(),
      traceparent.replace(/^00/, 'ff'),
      `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
      `00-0af7651916cd43dd8448eb211c80319c-${'0'.repeat(16)}-01`,
    ];
    for (const each of wrong) {
      expect(await client.trace(undefined, { metadata: { traceparent: each } })).toBe('"none"');
      expect(() => runInTrace({ traceparent: each }, own)).toThrow(TypeError);
    }
    const metadata = { traceparent, tracestate: `a=${'b'.repeat(600)}` };
    const seen = await client.trace(undefined, { metadata });
    expect(JSON.parse(seen)).toEqual({ traceparent });
  });

  it('refuses misuse', () => {
    expect(() => traceContext({ api: {} as never })).toThrow('@opentelemetry/api');
    expect(() => traceContext({ otel: api } as never)).toThrow(TypeError);
  });
});

describe('traceContext({ api })', () => {
  beforeEach(() => {
    api.context.setGlobalContextManager(new OtelContext());
    api.propagation.setGlobalPropagator(new W3cPropagator());
  });
  afterEach(() => {
    api.context.disable();
    api.propagation.disable();
  });

  it('carries the context of the active span, by the propagator of the program', async () => {
    const spanOf = (): string => {
      const span = api.trace.getSpanContext(api.context.active());
      return span === undefined ? 'none' : `${span.traceId} ${span.spanId} ${span.isRemote}`;
    };
    await using pair = pairOf({ api }, spanOf);
    const client = pair.near.client(Traced, { interceptors: [traceContext({ api })] });
    const [, traceId = '', spanId = ''] = traceparent.split('-');
    const span = api.trace.wrapSpanContext({ traceId, spanId, traceFlags: 1 });
    const active = api.trace.setSpan(api.context.active(), span);
    const expected = `${traceId} ${spanId} true`;
    await api.context.with(active, async () => {
      expect(await client.trace()).toBe(expected);
      expect(await client.onward()).toBe(expected);
      expect(await collect(client.each(2))).toEqual([expected, expected]);
    });
    expect(await client.trace()).toBe('none');
  });
});
