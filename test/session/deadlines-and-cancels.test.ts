import { describe, expect, it } from 'vitest';
import { Demo, defer, demoHandlers, turns, until } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';
import { SteeredClock } from '../support/steered-clock.ts';

describe.each(lanes)('deadlines and cancels over the $lane', ({ openPair }) => {
  it('the deadline is seen by the handler and kept by the caller', async () => {
    using clock = new SteeredClock();
    await using pair = await openPair();
    const seen = defer<{ deadline: number | undefined; at: number }>();
    const aborted = defer<unknown>();
    pair.far.serve(
      Demo,
      demoHandlers({
        hang: (_request, { deadline, signal }) => {
          seen.resolve({ deadline, at: performance.now() });
          signal.addEventListener('abort', () => aborted.resolve(signal.reason.code));
          return new Promise(() => undefined);
        },
      }),
    );
    let isOver = false;
    const call = pair.near.client(Demo).hang(undefined, { timeoutMs: 3_600_000 });
    const rejected = expect(call.finally(() => (isOver = true))).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      status: 'deadline_exceeded',
      delivered: 'unknown',
    });
    const { deadline, at } = await seen.promise;
    expect(deadline).toBeGreaterThan(at);
    expect((deadline as number) - at).toBeLessThanOrEqual(3_600_001);
    await clock.pass(1_800_000);
    expect(isOver).toBe(false);
    clock.advance(1_800_000);
    await rejected;
    expect(await aborted.promise).toBe('ERR_SIDECALL_DEADLINE_EXCEEDED');
  });

  it('the wall clock has no say', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const realNow = Date.now;
    try {
      Date.now = () => realNow() + 86_400_000;
      const call = pair.near.client(Demo).add({ a: 1, b: 1 }, { timeoutMs: 60_000 });
      Date.now = () => realNow() - 86_400_000;
      expect(await call).toEqual({ sum: 2 });
    } finally {
      Date.now = realNow;
    }
  });

  it('a cancel reaches the handler at every stage, and settles once', async () => {
    await using pair = await openPair();
    const reasons: string[] = [];
    pair.far.serve(
      Demo,
      demoHandlers({
        hang: (_request, ctx) => {
          ctx.sendHeaders({ stage: 'begun' });
          return new Promise((_resolve, reject) => {
            ctx.signal.addEventListener('abort', () => {
              reasons.push(ctx.signal.reason.code);
              reject(ctx.signal.reason);
            });
          });
        },
      }),
    );
    const demo = pair.near.client(Demo);
    const mine = new Error('mine');

    const unsent = new AbortController();
    const before = demo.hang(undefined, { signal: unsent.signal });
    unsent.abort(mine); // in the same turn
    await expect(before).rejects.toBe(mine);

    const running = new AbortController();
    const during = demo.hang(undefined, {
      signal: running.signal,
      onHeaders: () => running.abort(mine),
    });
    await expect(during).rejects.toBe(mine);

    const late = new AbortController();
    expect(await demo.add({ a: 1, b: 1 }, { signal: late.signal })).toEqual({ sum: 2 });
    late.abort(mine);

    await until(() => pair.far.stats().handlers.running === 0);
    expect(reasons).toEqual(['ERR_SIDECALL_CANCELLED', 'ERR_SIDECALL_CANCELLED']);
    expect(await demo.add({ a: 2, b: 2 })).toEqual({ sum: 4 });
  });

  it('a signal keeps no listener once the call has settled', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const demo = pair.near.client(Demo);
    const { signal } = new AbortController();
    let listeners = 0;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      listeners += 1;
      add(...args);
    };
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      listeners -= 1;
      remove(...args);
    };
    await Promise.all(Array.from({ length: 200 }, (_, a) => demo.add({ a, b: 0 }, { signal })));
    await expect(demo.fail('x', { signal })).rejects.toBeDefined();
    await expect(demo.hang(undefined, { signal, timeoutMs: 5 })).rejects.toBeDefined();
    expect(listeners).toBe(0);
  });

  it('a deadline that races the answer settles once', async () => {
    await using pair = await openPair();
    pair.far.serve(
      Demo,
      demoHandlers({
        same: (value) => new Promise((resolve) => setTimeout(resolve, 2 * Math.random(), value)),
      }),
    );
    const demo = pair.near.client(Demo);
    let done = 0;
    const outcomes = await Promise.allSettled(
      Array.from({ length: 5000 }, (_, at) =>
        demo.same(at, { timeoutMs: 1 + (at % 3) }).then((value) => {
          expect(value).toBe(at);
          done += 1;
        }),
      ),
    );
    const late = outcomes.filter(({ status }) => status === 'rejected');
    expect(done + late.length).toBe(5000);
    for (const outcome of late) {
      expect(outcome).toMatchObject({ reason: { code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' } });
    }
    await until(() => pair.far.stats().handlers.running === 0);
    expect(await demo.same('still')).toBe('still');
    expect(pair.near.stats().calls).toEqual({ open: 0, waiting: 0 });
  });

  it('random cancels, deadlines and sizes leave nothing behind', async () => {
    await using pair = await openPair({ far: { streamsMax: 32 } });
    pair.far.serve(
      Demo,
      demoHandlers({
        echo: async (payload) => {
          if (payload.length % 3 === 0) await turns(payload.length % 5);
          return payload;
        },
      }),
    );
    const demo = pair.near.client(Demo);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 1500 }, async (_, at) => {
        const size = (at * 7919) % 150_000;
        const stop = new AbortController();
        const call = demo.echo(new Uint8Array(size), {
          signal: stop.signal,
          ...(at % 5 === 0 ? { timeoutMs: 1 + (at % 40) } : {}),
        });
        if (at % 4 === 0) setTimeout(() => stop.abort(new Error('changed my mind')), at % 30);
        expect(await call).toHaveLength(size);
      }),
    );
    for (const outcome of outcomes) {
      if (outcome.status === 'fulfilled') continue;
      const { code, message } = outcome.reason as { code?: string; message: string };
      const isExpected =
        message === 'changed my mind' ||
        code === 'ERR_SIDECALL_DEADLINE_EXCEEDED' ||
        code === 'ERR_SIDECALL_LIMIT_STREAMS';
      expect(isExpected, `${code} ${message}`).toBe(true);
    }
    await until(() => pair.far.stats().handlers.running === 0);
    expect(pair.near.stats()).toMatchObject({
      calls: { open: 0, waiting: 0 },
      handlers: { running: 0 },
      queuedBytes: 0,
    });
    expect(await demo.echo(new Uint8Array(200_000))).toHaveLength(200_000);
  });

  it('calls wait for handlers that ignore their cancel, each for its own time', async () => {
    await using pair = await openPair({ far: { streamsMax: 2 } });
    const gate = defer();
    pair.far.serve(Demo, demoHandlers({ hang: () => gate.promise }));
    const demo = pair.near.client(Demo);
    const stop = new AbortController();
    const two = [1, 2].map(() => demo.hang(undefined, { signal: stop.signal }));
    await until(() => pair.far.stats().handlers.running === 2);
    stop.abort(new Error('mine'));
    await Promise.allSettled(two);
    await expect(demo.hang(undefined, { timeoutMs: 20 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      delivered: 'no',
    });
    const waiting = demo.hang();
    expect(pair.near.stats().waits).toMatchObject({ slot: 1, 'given-up': 2 });
    gate.resolve();
    await waiting;
    expect(pair.near.stats().waits).toMatchObject({ slot: 0, 'given-up': 0 });
  });

  it('a failure that nobody awaits is no unhandledRejection', async () => {
    const pair = await openPair();
    const unhandled: unknown[] = [];
    const listener = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', listener);
    pair.far.serve(Demo, demoHandlers());
    const demo = pair.near.client(Demo);
    void demo.fail('x');
    void demo.hang(undefined, { timeoutMs: 1 });
    void demo.same(1n);
    void demo.hang();
    await turns(50);
    pair.cut();
    void demo.hang();
    await turns(50);
    process.off('unhandledRejection', listener);
    expect(unhandled).toEqual([]);
    await pair[Symbol.asyncDispose]();
  });

  it('an onEvent that throws is rethrown in a task of its own', async () => {
    const thrown = defer<unknown>();
    process.once('uncaughtException', thrown.resolve);
    await using pair = await openPair({
      onFarEvent: () => {
        throw new Error('from onEvent');
      },
    });
    pair.far.serve(Demo, demoHandlers());
    const demo = pair.near.client(Demo);
    await expect(demo.fail('x')).rejects.toMatchObject({ status: 'internal' });
    expect(String(await thrown.promise)).toContain('from onEvent');
    expect(await demo.add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  });
});
