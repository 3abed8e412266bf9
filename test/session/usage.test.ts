// Mistakes of users: no call hangs, no message is lost, and the error tells the remedy.
import { PassThrough } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { describe, expect, it } from 'vitest';
import { RpcError, SidecallError } from '../../src/base/errors.ts';
import { byteReader, byteWriter } from '../../src/rpc/channels/byte-stream.ts';
import type { Channel } from '../../src/rpc/channels/channel.ts';
import { toWritable } from '../../src/rpc/channels/node-streams.ts';
import type { Interceptor } from '../../src/rpc/contract/interceptor.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { HealthService } from '../../src/rpc/serving/health.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import {
  collect,
  Demo,
  defer,
  demoHandlers,
  Flow,
  flowHandlers,
  turns,
  until,
} from '../support/contract.ts';
import { SteeredClock } from '../support/steered-clock.ts';

describe('interceptors that take their time', () => {
  it('are async functions, for every kind of call', async () => {
    await using pair = createSessionPair();
    pair.far.serve(Flow, flowHandlers());
    pair.far.serve(Demo, demoHandlers());
    const slow: Interceptor = async (call, next) => {
      await turns(1);
      return next(call);
    };
    const flow = pair.near.client(Flow, { interceptors: [slow] });
    expect(await collect(flow.count({ to: 3 }))).toEqual([1, 2, 3]);
    expect(await flow.sum([1, 2])).toEqual({ sum: 3 });
    const sum = flow.sum();
    await sum.send(4);
    expect(await sum.end()).toEqual({ sum: 4 });
    const shout = flow.shout();
    await shout.send('a');
    expect((await shout.next()).value).toBe('A');
    await shout.end();
    expect(await collect(shout)).toEqual([]);
    for await (const number of flow.count({ to: 100 })) if (number === 2) break;
    await pair.near.client(Demo, { interceptors: [slow] }).log('x');
    await until(() => pair.near.stats().calls.open === 0);
  });

  it('that fail, or give nothing, fail the call', async () => {
    await using pair = createSessionPair();
    pair.far.serve(Flow, flowHandlers());
    const refusing: Interceptor = async () => {
      throw new RpcError('unauthenticated', 'who are you');
    };
    const flow = pair.near.client(Flow, { interceptors: [refusing] });
    await expect(collect(flow.count({ to: 1 }))).rejects.toMatchObject({
      status: 'unauthenticated',
    });
    void flow.count({ to: 1 });
    void flow.sum([1]);
    const silent = pair.near.client(Flow, { interceptors: [() => undefined] });
    await expect(collect(silent.count({ to: 1 }))).rejects.toThrow('must return what next() gave');
    await turns(3);
  });

  it('see the timeout that the client gives', async () => {
    using clock = new SteeredClock();
    await using pair = createSessionPair();
    pair.far.serve(Demo, demoHandlers());
    const seen: unknown[] = [];
    const look: Interceptor = (call, next) => {
      seen.push(call.options?.timeoutMs);
      return next(call);
    };
    const demo = pair.near.client(Demo, { timeoutMs: 600_000, interceptors: [look] });
    await demo.add({ a: 1, b: 1 }, { timeoutMs: undefined });
    const hanging = demo.hang(undefined, { timeoutMs: undefined });
    clock.advance(600_000);
    await expect(hanging).rejects.toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
    expect(seen).toEqual([600_000, 600_000]);
  });
});

describe('retry', () => {
  it('of streams leaves no failure behind that nobody awaits', async () => {
    await using pair = createSessionPair();
    pair.far.serve(
      Flow,
      flowHandlers({
        count: ({ to }) => {
          if (to === 0) throw new RpcError('not_found');
          return [1, 2, 3];
        },
      }),
    );
    const flow = pair.near.client(Flow, { retry: true });
    await expect(collect(flow.count({ to: 0 }))).rejects.toMatchObject({ status: 'not_found' });
    for await (const number of flow.count({ to: 9 })) if (number === 1) break;
    void flow.count({ to: 0 });
    await expect(
      collect(flow.count({ to: 1 }, { signal: AbortSignal.abort(new Error('no')) })),
    ).rejects.toThrow('no');
    await expect(flow.count({ to: 1 }, { timeout: 5 } as never).next()).rejects.toBeInstanceOf(
      TypeError,
    );
    await turns(5);
  });
});

describe('requests that are none', () => {
  it('are refused with words', async () => {
    await using pair = createSessionPair();
    pair.far.serve(Flow, flowHandlers());
    const sum = pair.near.client(Flow).sum as unknown as (
      ...args: unknown[]
    ) => Promise<unknown> & { end(): Promise<unknown> };
    await expect(sum(5).end()).rejects.toThrow('something to iterate');
    await expect(sum('abc').end()).rejects.toThrow('something to iterate');
    await expect(sum(function* () {}).end()).rejects.toThrow('something to iterate');
    await expect(sum(null, { timeoutMs: 5 })).rejects.toThrow('something to iterate');
    const late = sum(undefined, { timeoutMs: 20 });
    await turns(1);
    await new Promise((resolve) => setTimeout(resolve, 40));
    await expect(late.end()).rejects.toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
  });

  it('promises in a list are awaited', async () => {
    await using pair = createSessionPair();
    pair.far.serve(Flow, flowHandlers());
    const numbers = [Promise.resolve(1), 2] as never;
    expect(await pair.near.client(Flow).sum(numbers)).toEqual({ sum: 3 });
  });

  it('a handler that gives a text or nothing to iterate has failed', async () => {
    const events: string[] = [];
    await using pair = createSessionPair({
      far: { onEvent: ({ error }) => events.push(error.message) },
    });
    pair.far.serve(Flow, flowHandlers({ shout: (() => 'text') as never }));
    await expect(collect(pair.near.client(Flow).shout([]))).rejects.toMatchObject({
      status: 'internal',
    });
    expect(events.join()).toContain('something to iterate, and no text; got string');
  });
});

describe('closing', () => {
  it('says when it begins, ends accepting at once, and can be hurried', async () => {
    await using pair = createSessionPair();
    const order: string[] = [];
    for (const side of ['near', 'far'] as const) {
      void pair[side].draining.then(() => order.push(side));
      void collect(pair[side].channels(json(), { name: 'c' })).then(() =>
        order.push(`${side} accepts`),
      );
    }
    pair.far.serve(Demo, demoHandlers());
    const hanging = pair.near.client(Demo).hang();
    await turns(2);
    const closing = pair.near.close({ deadlineMs: 600_000 });
    await until(() => order.length === 4);
    expect(pair.near.state).toBe('draining');
    await pair.near.close({ deadlineMs: 0 });
    await closing;
    await expect(hanging).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
  });

  it('a health watch of either side does not hold it up', async () => {
    await using pair = createSessionPair();
    const ours = pair.near.client(HealthService).watch();
    expect((await ours.next()).value).toEqual({ status: 'serving' });
    const ended = ours.next();
    await pair.near.close({ deadlineMs: 600_000 });
    expect((await ended).done).toBe(true);
  });

  it('a channel that goes out of scope loses nothing that was sent', async () => {
    await using pair = createSessionPair();
    const accepted = pair.far.channels(json<number>(), { name: 'c' });
    {
      await using channel = pair.near.openChannel(json<number>(), { name: 'c' });
      for (let at = 0; at < 5; at += 1) await channel.send(at);
    }
    const far = (await accepted.next()).value as Channel<number>;
    await accepted.return?.();
    const got: number[] = [];
    for await (const number of far) {
      got.push(number);
      await turns(2);
      await far.send(number); // nobody listens any more, and that is no failure
    }
    await far.end();
    expect(got).toEqual([0, 1, 2, 3, 4]);
    await until(() => pair.near.stats().calls.open === 0);
  });
});

describe('streams of Node', () => {
  it('a sink that is destroyed without an error cancels its call', async () => {
    await using pair = createSessionPair();
    pair.far.serve(Flow, flowHandlers());
    const sink = toWritable(pair.near.client(Flow).sum());
    sink.on('error', () => undefined);
    sink.destroy();
    await until(() => pair.near.stats().calls.open === 0);
  });

  it('a pipeline into a bidi call ends when its handler returns early', async () => {
    await using pair = createSessionPair();
    pair.far.serve(Flow, flowHandlers({ shout: () => ['early'] }));
    const call = pair.near.client(Flow).shout();
    const source = new PassThrough({ objectMode: true });
    const piping = pipeline(source, toWritable(call));
    expect(await collect(call)).toEqual(['early']);
    source.end();
    await piping;
    await call.end();
  });

  it('bytes by count of a stream that is over', async () => {
    const ended = new PassThrough();
    ended.end();
    ended.resume();
    await new Promise((resolve) => ended.once('close', resolve));
    await expect(byteReader(ended).read(1)).rejects.toMatchObject({
      code: 'ERR_SIDECALL_END_OF_STREAM',
    });
    const boom = new Error('broken');
    const broken = new PassThrough();
    broken.on('error', () => undefined);
    broken.destroy(boom);
    await turns(2);
    await expect(byteReader(broken).read(1)).rejects.toBe(boom);
    await expect(byteWriter(broken).flush({ end: true })).rejects.toBe(boom);
  });
});

describe('what is thrown in a subscription', () => {
  it('is why the channel is over', async () => {
    await using pair = createSessionPair();
    const accepted = pair.far.channels(json<number>(), { name: 'c' });
    const near = pair.near.openChannel(json<number>(), { name: 'c' });
    const far = (await accepted.next()).value as Channel<number>;
    await accepted.return?.();
    const boom = new Error('cannot take it');
    const told = defer<unknown>();
    far.subscribe({
      message: () => {
        throw boom;
      },
      error: told.resolve,
    });
    await near.send(1);
    expect(await told.promise).toBe(boom);
    await expect(far.closed).rejects.toBe(boom);
    await expect(near.closed).rejects.toMatchObject({ code: 'ERR_SIDECALL_CANCELLED' });
  });
});

describe('JSON', () => {
  it.each<[string, unknown]>([
    ['an ArrayBuffer', new ArrayBuffer(4)],
    ['a Float32Array', new Float32Array(4)],
    ['a DataView', new DataView(new ArrayBuffer(4))],
  ])('says that it cannot carry %s', async (what, binary) => {
    await using pair = createSessionPair();
    const failure = await pair.near.call('x', { binary }).catch((error: unknown) => error);
    expect(SidecallError.is(failure) && failure.message).toContain(`cannot carry ${what}`);
  });

  it('says how deep is too deep, and carries what is not', async () => {
    await using pair = createSessionPair();
    pair.far.serve(Demo, demoHandlers());
    const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)]);
    expect(await pair.near.client(Demo).same(nested(64))).toEqual(nested(64));
    await expect(pair.near.client(Demo).same(nested(65))).rejects.toThrow(
      'nested deeper than 64: json({ depthMax })',
    );
  });

  it('a graph of circles is refused at once', async () => {
    await using pair = createSessionPair();
    const a: Record<string, unknown> = {};
    const b = { a };
    Object.assign(a, { b, c: b, d: { a }, e: [a, b] });
    await expect(pair.near.call('x', a)).rejects.toMatchObject({ code: 'ERR_SIDECALL_ENCODE' });
  });
});

it('a channel needs a name', async () => {
  await using pair = createSessionPair();
  expect(() => pair.near.openChannel(json(), {} as never)).toThrow('needs a name');
  expect(() => pair.near.channels(json(), { name: '' })).toThrow('needs a name');
});
