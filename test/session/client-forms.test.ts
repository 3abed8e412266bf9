// Introspection, pairs of sessions for tests, streams of calls as streams of Node and the Web.

import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { describe, expect, it } from 'vitest';
import {
  toReadable,
  toReadableStream,
  toWritable,
  toWritableStream,
} from '../../src/rpc/channels/node-streams.ts';
import type { CallContext } from '../../src/rpc/contract/call-context.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { HealthService } from '../../src/rpc/serving/health.ts';
import { ReflectionService } from '../../src/rpc/serving/reflection.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { Demo, defer, demoHandlers, Flow, flowHandlers } from '../support/contract.ts';

describe('introspection', () => {
  it('is off for other users, and as the option says', async () => {
    const other = { peer: { uid: 12_345 } };
    await using pair = createSessionPair({ far: other });
    const list = pair.near.client(ReflectionService).list();
    await expect(list).rejects.toMatchObject({ status: 'unimplemented' });
    await using open = createSessionPair({ far: { ...other, introspection: true } });
    expect((await open.near.client(ReflectionService).list()).services).toEqual([]);
    await using shut = createSessionPair({ far: { introspection: false } });
    await expect(shut.near.client(ReflectionService).list()).rejects.toMatchObject({
      status: 'unimplemented',
    });
    expect(await shut.near.client(HealthService).check()).toEqual({ status: 'serving' });
  });
});

describe('sidecall/testing', () => {
  it('a pair of sessions tests handlers without processes', async () => {
    await using pair = createSessionPair({ far: { peer: { uid: 7, pid: 99 } } });
    pair.far.serve(Demo, demoHandlers({ same: (_value, ctx) => [ctx.peer.uid, ctx.peer.pid] }));
    expect(await pair.near.client(Demo).same(1)).toEqual([7, 99]);
    expect(pair.near.lane).toBe('loopback');
    const hanging = pair.near.client(Demo).hang();
    pair.cut();
    await expect(hanging).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    expect(() => createSessionPair({ middle: {} } as never)).toThrow(TypeError);
    expect(() => createSessionPair({ near: { limits: { streamsMax: 0 } } })).toThrow(RangeError);
  });
});

describe('a contract with a method that is named then', () => {
  it('has clients that an async function may return, and the function then$', async () => {
    await using pair = createSessionPair();
    const then = 'then'; // a name that only a contract may have
    const methods = { [then]: unary<number, number>(), first: unary<void, number>() };
    const Steps = service('Steps', methods);
    pair.far.serve(Steps, { [then]: (value: number) => value + 1, first: () => 0 });
    const steps = await (async () => pair.near.client(Steps))();
    expect(await steps.first()).toBe(0);
    expect(await steps.then$(1)).toBe(2);
    expect(await pair.near.call('Steps.then', 2)).toBe(3);
  });
});

describe('adapters', () => {
  it('streams of calls are streams of Node and the Web, and cancel the call', async () => {
    await using pair = createSessionPair();
    const left = defer();
    pair.far.serve(
      Flow,
      flowHandlers({
        async *count({ to }, { signal }) {
          signal.addEventListener('abort', () => left.resolve());
          for (let at = 1; at <= to; at += 1) yield at;
        },
      }),
    );
    const flow = pair.near.client(Flow);
    const got: number[] = [];
    for await (const number of toReadable(flow.count({ to: 3 }))) got.push(number);
    expect(got).toEqual([1, 2, 3]);
    const web = toReadableStream(flow.count({ to: 1_000_000 }));
    const reader = web.getReader();
    expect(await reader.read()).toEqual({ done: false, value: 1 });
    await reader.cancel();
    await left.promise;
    const sum = flow.sum();
    await pipeline(Readable.from([1, 2, 3]), toWritable(sum));
    expect(await sum.end()).toEqual({ sum: 6 });
    const second = flow.sum();
    await toReadableStream(flow.count({ to: 4 })).pipeTo(toWritableStream(second));
    expect(await second.end()).toEqual({ sum: 10 });
    const third = flow.sum();
    const sink = toWritable(third);
    sink.on('error', () => undefined);
    sink.destroy(new Error('stop'));
    await expect(third.end()).rejects.toThrow('stop');
  });

  it('per client there is a timeout for calls that name none', async () => {
    await using pair = createSessionPair();
    const deadlines: (number | undefined)[] = [];
    const record = (_value: unknown, ctx: CallContext): void => void deadlines.push(ctx.deadline);
    pair.far.serve(Demo, demoHandlers({ same: record }));
    const demo = pair.near.client(Demo, { timeoutMs: 60_000 });
    await demo.same(1);
    await demo.same(1, { timeoutMs: 600_000 });
    const now = performance.now();
    expect(deadlines[0]).toBeLessThan(now + 60_001);
    expect(deadlines[1]).toBeGreaterThan(now + 300_000);
    expect(json<number>().name).toBe('json');
  });
});
