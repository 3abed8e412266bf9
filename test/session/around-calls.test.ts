// Interceptors, deadlines that are inherited, cancels in the middle, health: over every lane.

import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from 'vitest';
import { RpcError } from '../../src/base/errors.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import type { Interceptor } from '../../src/rpc/contract/interceptor.ts';
import { serverStream, service, unary } from '../../src/rpc/contract/service.ts';
import { HealthService } from '../../src/rpc/serving/health.ts';
import { ReflectionService } from '../../src/rpc/serving/reflection.ts';
import {
  collect,
  Demo,
  demoHandlers,
  Flow,
  flowHandlers,
  turns,
  until,
} from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';
import { SteeredClock } from '../support/steered-clock.ts';

describe.each(lanes)("around calls over the '$lane'", ({ lane, openPair }) => {
  it('interceptors stand around calls on both sides, outermost first', async () => {
    await using pair = await openPair();
    const order: string[] = [];
    const note =
      (who: string): Interceptor =>
      async (call, next) => {
        order.push(`${who} ${call.side} ${call.kind} ${call.method}`);
        const answer = await next(call);
        order.push(`${who} done`);
        return answer;
      };
    pair.far.serve(Demo, demoHandlers(), { interceptors: [note('c'), note('d')] });
    const demo = pair.near.client(Demo, { interceptors: [note('a'), note('b')] });
    expect(await demo.add({ a: 1, b: 2 })).toEqual({ sum: 3 });
    expect(order).toEqual([
      'a caller unary Demo.add',
      'b caller unary Demo.add',
      'c handler unary Demo.add',
      'd handler unary Demo.add',
      'd done',
      'c done',
      'b done',
      'a done',
    ]);
  });

  it('an interceptor changes requests, options and answers, and wraps streams', async () => {
    await using pair = await openPair();
    const handlerSide: Interceptor = (call, next) => {
      const result = next(call);
      if (call.kind !== 'serverStream') return result;
      return (async function* () {
        for await (const value of result as AsyncIterable<number>) yield value * 10;
      })();
    };
    const callerSide: Interceptor = (call, next) => {
      const options = { ...call.options, metadata: { ...call.options?.metadata, token: 'secret' } };
      if (call.kind !== 'serverStream') return next({ ...call, options });
      return next({ ...call, options, request: { to: 2 } });
    };
    let token: unknown;
    const handlers = flowHandlers({
      async *count({ to }, ctx) {
        token = ctx.metadata.token;
        for (let at = 1; at <= to; at += 1) yield at;
      },
    });
    pair.far.serve(Flow, handlers, { interceptors: [handlerSide] });
    const flow = pair.near.client(Flow, { interceptors: [callerSide] });
    expect(await collect(flow.count({ to: 99 }))).toEqual([10, 20]);
    expect(token).toBe('secret');
    expect(await flow.sum([1, 2])).toEqual({ sum: 3 });
  });

  it('authorizes each method by the peer', async () => {
    await using pair = await openPair();
    const allowed = new Set(['Demo.add']);
    const gate: Interceptor = (call, next) => {
      const isOurs = call.ctx?.peer.uid === process.geteuid?.();
      if (isOurs && allowed.has(call.method)) return next(call);
      throw new RpcError('permission_denied', `${call.method} is not for you`);
    };
    pair.far.serve(Demo, demoHandlers(), { interceptors: [gate] });
    const demo = pair.near.client(Demo);
    expect(await demo.add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    await expect(demo.same(1)).rejects.toMatchObject({ status: 'permission_denied' });
  });

  it('what an interceptor of the caller throws comes as a rejection or a failed stream', async () => {
    await using pair = await openPair();
    pair.far.serve(Flow, flowHandlers());
    const boom = new Error('no');
    const flow = pair.near.client(Flow, {
      interceptors: [
        () => {
          throw boom;
        },
      ],
    });
    await expect(collect(flow.count({ to: 1 }))).rejects.toBe(boom);
    await expect(flow.sum([1])).rejects.toBe(boom);
    await expect(flow.sum().send(1)).rejects.toBe(boom);
    await expect(flow.shout().next()).rejects.toBe(boom);
    void flow.shout(['unawaited']);
    await turns(2);
  });

  it('AsyncLocalStorage: callers keep their context, handlers have that of serve()', async () => {
    await using pair = await openPair();
    const store = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    await store.run('serving', async () => {
      pair.far.serve(
        Flow,
        flowHandlers({
          async *count(_request, ctx) {
            seen.push(store.getStore());
            ctx.sendHeaders({});
            ctx.trailers = { a: 'b' };
            yield 1;
            await turns(1);
            seen.push(store.getStore());
          },
        }),
      );
      pair.far.serve(Demo, demoHandlers({ same: () => store.getStore() ?? 'none' }));
    });
    await store.run('calling', async () => {
      const heard: unknown[] = [];
      const stream = pair.near.client(Flow).count(
        { to: 1 },
        {
          onHeaders: () => heard.push(store.getStore()),
          onTrailers: () => heard.push(store.getStore()),
        },
      );
      for await (const number of stream) expect([number, store.getStore()]).toEqual([1, 'calling']);
      expect(heard).toEqual(['calling', 'calling']);
      expect(await pair.near.client(Demo).same(1)).toBe('serving');
      expect(store.getStore()).toBe('calling');
    });
    expect(seen).toEqual(['serving', 'serving']);
    expect(await pair.near.client(Demo).same(1)).toBe('serving');
  });

  it('calls that a handler makes inherit what is left of its time', async () => {
    await using pair = await openPair();
    const deadlines: (number | undefined)[] = [];
    pair.near.serve(
      Demo,
      demoHandlers({
        same: (_value, ctx) => {
          deadlines.push(ctx.deadline);
        },
      }),
    );
    pair.far.serve(
      Demo,
      demoHandlers({
        add: async (_request, ctx) => {
          deadlines.push(ctx.deadline);
          const back = pair.far.client(Demo);
          await back.same(1);
          await turns(1);
          await back.same(1, { timeoutMs: 6_000_000 });
          await back.same(1, { timeoutMs: 60_000 });
          return { sum: 0 };
        },
      }),
    );
    await pair.near.client(Demo).add({ a: 1, b: 1 }, { timeoutMs: 600_000 });
    const [own, first, second, third] = deadlines as number[];
    // Far from what they asked for, and near to what the call had.
    for (const inherited of [first, second]) {
      expect(inherited).toBeGreaterThan((own ?? 0) - 300_000);
      expect(inherited).toBeLessThan((own ?? 0) + 300_000);
    }
    expect(third).toBeLessThan((own ?? 0) - 300_000);
    deadlines.length = 0;
    await pair.far.client(Demo).same(1);
    expect(deadlines).toEqual([undefined]);
  });

  it('ctx.cancelledNow() sees a cancel while the loop is blocked', async () => {
    await using pair = await openPair();
    const answers: (boolean | undefined)[] = [];
    const stop = new AbortController();
    pair.far.serve(
      Demo,
      demoHandlers({
        same: (_value, ctx) => {
          answers.push(ctx.cancelledNow());
          stop.abort(new Error('enough')); // both ends are in this process: the cancel is sent right here
          answers.push(ctx.cancelledNow());
          answers.push(ctx.signal.aborted);
          return 1;
        },
        add: ({ a, b }) => ({ sum: a + b }),
      }),
    );
    const demo = pair.near.client(Demo);
    const cancelled = demo.same(1, { signal: stop.signal }).catch((error: Error) => error.message);
    const others = Array.from({ length: 50 }, (_, a) => demo.add({ a, b: 1 }));
    expect(await cancelled).toBe('enough');
    expect(await Promise.all(others)).toEqual(others.map((_, a) => ({ sum: a + 1 })));
    // Both ends are in one turn here, and a ring publishes within it or at its end:
    // test/e2e/helper.test.ts has two processes.
    const [seen, unseen] = [
      [false, true, true],
      [false, false, false],
    ];
    const wanted = { loopback: [seen], socket: [[undefined, undefined, false]] };
    expect(wanted[lane as keyof typeof wanted] ?? [seen, unseen]).toContainEqual(answers);
  });

  it('cancelledNow() compares the deadline with the clock on every lane, and loses no message', async () => {
    using clock = new SteeredClock();
    await using pair = await openPair();
    let late: boolean | undefined;
    pair.far.serve(
      Demo,
      demoHandlers({
        same: (_value, ctx) => {
          clock.advance(600_000);
          late = ctx.cancelledNow();
        },
        echo: (piece, ctx) => {
          ctx.cancelledNow();
          return piece;
        },
      }),
    );
    const demo = pair.near.client(Demo);
    await demo.same(1, { timeoutMs: 600_000 }).catch(() => undefined);
    expect(late).toBe(true);
    const sizes = [10, 70_000, 0, 200_000, 5000];
    const pieces = Array.from({ length: 60 }, (_, at) =>
      new Uint8Array(sizes[at % 5] as number).fill(at),
    );
    const back = await Promise.all(pieces.map((piece) => demo.echo(piece)));
    back.forEach((piece, at) => {
      expect(Buffer.from(piece).equals(Buffer.from(pieces[at] as Uint8Array))).toBe(true);
    });
  });

  it('health: check and list', async () => {
    await using pair = await openPair();
    const health = pair.near.client(HealthService);
    expect(await health.check()).toEqual({ status: 'serving' });
    await expect(health.check({ service: 'x' })).rejects.toMatchObject({ status: 'not_found' });
    pair.far.health.set('a', 'serving');
    pair.far.health.set('b', 'not_serving');
    pair.far.health.set('c', 'unknown');
    expect(await health.check({ service: 'b' })).toEqual({ status: 'not_serving' });
    expect(await health.list()).toEqual({
      statuses: { '': 'serving', a: 'serving', b: 'not_serving', c: 'unknown' },
    });
    for (let at = 0; at < 96; at += 1) pair.far.health.set(`s${at}`, 'serving');
    expect(Object.keys((await health.list()).statuses)).toHaveLength(100);
    pair.far.health.set('one more', 'serving');
    await expect(health.list()).rejects.toMatchObject({ status: 'resource_exhausted' });
    expect(() => pair.far.health.set('a', 'fine' as never)).toThrow(TypeError);
  });

  it('health: watch tells the present status, each change, and the latest only to the slow', async () => {
    await using pair = await openPair();
    const watch = pair.near.client(HealthService).watch({ service: 'db' }, { windowBytes: 1 });
    expect((await watch.next()).value).toEqual({ status: 'service_unknown' });
    pair.far.health.set('db', 'serving');
    expect((await watch.next()).value).toEqual({ status: 'serving' });
    for (let at = 0; at < 1000; at += 1) {
      pair.far.health.set('db', at % 2 === 0 ? 'not_serving' : 'serving');
      if (at % 50 === 0) await turns(1);
    }
    pair.far.health.set('db', 'serving');
    pair.far.health.set('db', 'serving');
    pair.far.health.set('db', 'unknown');
    const seen: unknown[] = [];
    for (;;) {
      const { value } = await watch.next();
      seen.push(value?.status);
      if (value?.status === 'unknown') break;
    }
    expect(seen.length).toBeLessThanOrEqual(2); // at most one older status, then the last
    await watch.return();
    await until(() => pair.far.stats().handlers.running === 0);
  });

  it('health: shutdown and resume; closing tells watchers first', async () => {
    await using pair = await openPair();
    const { health } = pair.far;
    health.set('a', 'serving');
    health.shutdown();
    health.set('a', 'serving');
    expect(health.get('a')).toBe('not_serving');
    health.resume();
    expect(health.get('a')).toBe('serving');
    const watch = pair.near.client(HealthService).watch();
    expect((await watch.next()).value).toEqual({ status: 'serving' });
    const closing = pair.far.close({ deadlineMs: 20_000 });
    expect(await watch.next()).toEqual({ done: false, value: { status: 'not_serving' } });
    expect((await watch.next()).done).toBe(true);
    await closing;
  });

  it('introspection lists services for our own uid', async () => {
    await using pair = await openPair();
    const Made = service('Made.AtRunTime', {
      ask: unary({ request: bytes, idempotent: true }),
      tell: serverStream(),
    });
    pair.far.serve(Made, { ask: () => 1, async *tell() {} });
    const { services } = await pair.near.client(ReflectionService).list();
    expect(services).toEqual([
      {
        name: 'Made.AtRunTime',
        methods: [
          {
            name: 'Made.AtRunTime.ask',
            kind: 'unary',
            request: 'bytes',
            response: 'json',
            idempotent: true,
          },
          {
            name: 'Made.AtRunTime.tell',
            kind: 'serverStream',
            request: 'json',
            response: 'json',
            idempotent: false,
          },
        ],
      },
    ]);
  });
});
