import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import {
  Desk,
  defer,
  deskHandlers,
  Flow,
  flowHandlers,
  turns,
  until,
} from '../support/contract.ts';
import { lanes, openLoopback } from '../support/pairs.ts';

const operations: readonly { operation: string; run: (session: Session) => Promise<unknown> }[] = [
  { operation: 'a call', run: (session) => session.client(Desk).add({ a: 1, b: 1 }) },
  { operation: 'an untyped call', run: (session) => session.call('Desk.add', {}) },
  { operation: 'a notification', run: (session) => session.client(Desk).log('x') },
  { operation: 'an untyped notification', run: (session) => session.notify('Desk.log', 'x') },
];

describe.each(lanes)('the life of a session over the $lane', ({ openPair }) => {
  it.each(operations)('rejects $operation after close, at once', async ({ run }) => {
    const pair = await openPair();
    pair.far.serve(Desk, deskHandlers());
    await pair.near.close();
    expect(pair.near.state).toBe('closed');
    await expect(run(pair.near)).rejects.toMatchObject({
      code: 'ERR_SIDECALL_CLOSED',
      delivered: 'no',
      status: 'unavailable',
    });
    expect(await pair.near.closed).toBeUndefined();
    expect(await pair.far.closed).toBeUndefined();
  });

  it.each(operations)('rejects $operation while closing', async ({ run }) => {
    const pair = await openPair();
    pair.far.serve(Desk, deskHandlers());
    const closing = pair.near.close();
    expect(pair.near.state).toBe('draining');
    await expect(run(pair.near)).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
    await closing;
  });

  it.each(operations)('rejects $operation when the peer is closing', async ({ run }) => {
    const pair = await openPair();
    const gate = defer<{ sum: number }>();
    pair.far.serve(Desk, deskHandlers({ add: () => gate.promise }));
    const running = pair.near.client(Desk).add({ a: 1, b: 1 });
    await until(() => pair.far.stats().handlers.running === 1);
    const closing = pair.far.close();
    await until(() => pair.near.state === 'draining');
    await expect(run(pair.near)).rejects.toMatchObject({
      code: 'ERR_SIDECALL_GOING_AWAY',
      retryable: true,
      delivered: 'no',
      status: 'unavailable',
    });
    gate.resolve({ sum: 9 });
    expect(await running).toEqual({ sum: 9 });
    await closing;
  });

  it.each(operations)('rejects $operation when the peer is gone', async ({ run }) => {
    const pair = await openPair();
    pair.cut();
    await pair.near.closed;
    await expect(run(pair.near)).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_GONE',
      delivered: 'no',
    });
    await pair[Symbol.asyncDispose]();
  });

  it('U30 answers all calls in flight before it closes; new ones are refused', async () => {
    const pair = await openPair();
    const gate = defer();
    pair.far.serve(
      Desk,
      deskHandlers({
        add: async ({ a }) => {
          await gate.promise;
          return { sum: a };
        },
      }),
    );
    const desk = pair.near.client(Desk);
    const calls = Array.from({ length: 100 }, (_, a) => desk.add({ a, b: 0 }));
    await until(() => pair.far.stats().handlers.running === 100);
    const closing = pair.far.close();
    gate.resolve();
    const answers = await Promise.all(calls);
    expect(answers.map(({ sum }) => sum)).toEqual(Array.from({ length: 100 }, (_, a) => a));
    await closing;
    expect(await pair.near.closed).toBeUndefined();
  });

  it('calls that were under way when the goaway was sent are refused, not lost', async () => {
    const pair = await openPair();
    let served = 0;
    pair.far.serve(Desk, deskHandlers({ add: () => ({ sum: (served += 1) }) }));
    const desk = pair.near.client(Desk);
    const closing = pair.far.close();
    const outcomes = await Promise.allSettled(
      Array.from({ length: 50 }, () => desk.add({ a: 1, b: 1 })),
    );
    await closing;
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({
        status: 'rejected',
        reason: { code: 'ERR_SIDECALL_GOING_AWAY', delivered: 'no', retryable: true },
      });
    }
    expect(served).toBe(0);
  });

  it('closes from both sides at once, twice is once', async () => {
    for (let round = 0; round < 50; round += 1) {
      const pair = await openPair();
      pair.far.serve(Desk, deskHandlers());
      await pair.near.client(Desk).add({ a: 1, b: 1 });
      await Promise.all([pair.near.close(), pair.far.close(), pair.near.close()]);
      await pair.near.close();
      expect(await pair.near.closed).toBeUndefined();
      expect(await pair.far.closed).toBeUndefined();
    }
  });

  it('cuts off at the deadline of close() what does not end', async () => {
    const pair = await openPair();
    const reasons: unknown[] = [];
    pair.far.serve(
      Desk,
      deskHandlers({
        hang: (_request, { signal }) =>
          new Promise(() => {
            signal.addEventListener('abort', () => reasons.push(signal.reason.code));
          }),
      }),
    );
    const hanging = pair.near.client(Desk).hang();
    await until(() => pair.far.stats().handlers.running === 1);
    const rejected = expect(hanging).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
    await pair.near.close({ deadlineMs: 30 });
    await rejected;
    await until(() => reasons.length === 1);
    expect(reasons, 'the caller gave up, not we').toEqual(['ERR_SIDECALL_CANCELLED']);
    await pair.far.closed;
  });

  it('U31 the death of the peer rejects every pending call, and tells the handlers', async () => {
    const events: SidecallEvent[] = [];
    const pair = await openPair({ onNearEvent: (event) => events.push(event) });
    pair.far.serve(Desk, deskHandlers());
    pair.near.serve(Desk, deskHandlers());
    const desk = pair.near.client(Desk);
    const calls = Array.from({ length: 1000 }, () => desk.hang());
    void pair.far
      .client(Desk)
      .hang()
      .catch(() => undefined);
    await until(
      () => pair.far.stats().handlers.running === 1000 && pair.near.stats().handlers.running === 1,
    );
    const settled = Promise.allSettled(calls);
    pair.cut();
    for (const outcome of await settled) {
      expect(outcome).toMatchObject({
        reason: { code: 'ERR_SIDECALL_PEER_GONE', retryable: true, delivered: 'unknown' },
      });
    }
    expect((await pair.near.closed)?.code).toBe('ERR_SIDECALL_PEER_GONE');
    expect(events.map(({ type }) => type)).toEqual(['session-failed']);
    await until(() => pair.near.stats().handlers.running === 0);
    await pair[Symbol.asyncDispose]();
  });

  it('U26 the deadline is seen by the handler and kept by the caller', async () => {
    await using pair = await openPair();
    const seen = defer<{ deadline: number | undefined; at: number }>();
    const aborted = defer<unknown>();
    pair.far.serve(
      Desk,
      deskHandlers({
        hang: (_request, { deadline, signal }) => {
          seen.resolve({ deadline, at: performance.now() });
          signal.addEventListener('abort', () => aborted.resolve(signal.reason.code));
          return new Promise(() => undefined);
        },
      }),
    );
    const begun = performance.now();
    await expect(pair.near.client(Desk).hang(undefined, { timeoutMs: 60 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      status: 'deadline_exceeded',
      delivered: 'unknown',
    });
    expect(performance.now() - begun).toBeGreaterThanOrEqual(59);
    const { deadline, at } = await seen.promise;
    expect(deadline).toBeGreaterThan(at);
    expect((deadline as number) - at).toBeLessThanOrEqual(61);
    expect(await aborted.promise).toBe('ERR_SIDECALL_DEADLINE_EXCEEDED');
  });

  it('row 34 U26 the wall clock has no say', async () => {
    await using pair = await openPair();
    pair.far.serve(Desk, deskHandlers());
    const realNow = Date.now;
    try {
      Date.now = () => realNow() + 86_400_000;
      const call = pair.near.client(Desk).add({ a: 1, b: 1 }, { timeoutMs: 60_000 });
      Date.now = () => realNow() - 86_400_000;
      expect(await call).toEqual({ sum: 2 });
    } finally {
      Date.now = realNow;
    }
  });

  it('row 74 U27 a cancel reaches the handler at every stage, and settles once', async () => {
    await using pair = await openPair();
    const reasons: string[] = [];
    pair.far.serve(
      Desk,
      deskHandlers({
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
    const desk = pair.near.client(Desk);
    const mine = new Error('mine');

    const unsent = new AbortController();
    const before = desk.hang(undefined, { signal: unsent.signal });
    unsent.abort(mine); // in the same turn
    await expect(before).rejects.toBe(mine);

    const running = new AbortController();
    const during = desk.hang(undefined, {
      signal: running.signal,
      onHeaders: () => running.abort(mine),
    });
    await expect(during).rejects.toBe(mine);

    const late = new AbortController();
    expect(await desk.add({ a: 1, b: 1 }, { signal: late.signal })).toEqual({ sum: 2 });
    late.abort(mine);

    await until(() => pair.far.stats().handlers.running === 0);
    expect(reasons).toEqual(['ERR_SIDECALL_CANCELLED', 'ERR_SIDECALL_CANCELLED']);
    expect(await desk.add({ a: 2, b: 2 })).toEqual({ sum: 4 });
  });

  it('a signal keeps no listener once the call has settled', async () => {
    await using pair = await openPair();
    pair.far.serve(Desk, deskHandlers());
    const desk = pair.near.client(Desk);
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
    await Promise.all(Array.from({ length: 200 }, (_, a) => desk.add({ a, b: 0 }, { signal })));
    await expect(desk.fail('x', { signal })).rejects.toBeDefined();
    await expect(desk.hang(undefined, { signal, timeoutMs: 5 })).rejects.toBeDefined();
    expect(listeners).toBe(0);
  });

  it('row 73 a deadline that races the answer settles once', async () => {
    await using pair = await openPair();
    pair.far.serve(
      Desk,
      deskHandlers({
        same: (value) => new Promise((resolve) => setTimeout(resolve, 2 * Math.random(), value)),
      }),
    );
    const desk = pair.near.client(Desk);
    let done = 0;
    const outcomes = await Promise.allSettled(
      Array.from({ length: 5000 }, (_, at) =>
        desk.same(at, { timeoutMs: 1 + (at % 3) }).then((value) => {
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
    expect(await desk.same('still')).toBe('still');
    expect(pair.near.stats().calls).toEqual({ open: 0, waiting: 0 });
  });

  it('random cancels, deadlines and sizes leave nothing behind', async () => {
    await using pair = await openPair({ far: { streamsMax: 32 } });
    pair.far.serve(
      Desk,
      deskHandlers({
        echo: async (payload) => {
          if (payload.length % 3 === 0) await turns(payload.length % 5);
          return payload;
        },
      }),
    );
    const desk = pair.near.client(Desk);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 1500 }, async (_, at) => {
        const size = (at * 7919) % 150_000;
        const stop = new AbortController();
        const call = desk.echo(new Uint8Array(size), {
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
    expect(await desk.echo(new Uint8Array(200_000))).toHaveLength(200_000);
  });

  it('calls wait for handlers that ignore their cancel, each for its own time', async () => {
    await using pair = await openPair({ far: { streamsMax: 2 } });
    const gate = defer();
    pair.far.serve(Desk, deskHandlers({ hang: () => gate.promise }));
    const desk = pair.near.client(Desk);
    const stop = new AbortController();
    const two = [1, 2].map(() => desk.hang(undefined, { signal: stop.signal }));
    await until(() => pair.far.stats().handlers.running === 2);
    stop.abort(new Error('mine'));
    await Promise.allSettled(two);
    await expect(desk.hang(undefined, { timeoutMs: 20 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      delivered: 'no',
    });
    const waiting = desk.hang();
    expect(pair.near.stats().waits).toMatchObject({ slot: 1, 'given-up': 2 });
    gate.resolve();
    await waiting;
    expect(pair.near.stats().waits).toMatchObject({ slot: 0, 'given-up': 0 });
  });

  it('row 72 a failure that nobody awaits is no unhandledRejection', async () => {
    const pair = await openPair();
    const unhandled: unknown[] = [];
    const listener = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', listener);
    pair.far.serve(Desk, deskHandlers());
    const desk = pair.near.client(Desk);
    void desk.fail('x');
    void desk.hang(undefined, { timeoutMs: 1 });
    void desk.same(1n);
    void desk.hang();
    await turns(50);
    pair.cut();
    void desk.hang();
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
    pair.far.serve(Desk, deskHandlers());
    const desk = pair.near.client(Desk);
    await expect(desk.fail('x')).rejects.toMatchObject({ status: 'internal' });
    expect(String(await thrown.promise)).toContain('from onEvent');
    expect(await desk.add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  });
});

describe('what is known of the delivery', () => {
  it('is no where nothing was sent or nothing was taken, else unknown', async () => {
    const pair = openLoopback({ far: { streamsMax: 3 } });
    pair.far.serve(Desk, deskHandlers());
    const desk = pair.near.client(Desk);
    const taken = [desk.hang(), desk.hang()];
    await until(() => pair.far.stats().handlers.running === 2);
    pair.transports[1].isHeld = true;
    const sent = desk.hang();
    const waiting = desk.hang();
    await turns(5);
    const outcomes = Promise.allSettled([...taken, sent, waiting]);
    pair.cut();
    expect(
      (await outcomes).map((outcome) => (outcome as PromiseRejectedResult).reason),
    ).toMatchObject([
      { code: 'ERR_SIDECALL_PEER_GONE', delivered: 'unknown' },
      { code: 'ERR_SIDECALL_PEER_GONE', delivered: 'unknown' },
      { code: 'ERR_SIDECALL_PEER_GONE', delivered: 'no' },
      { code: 'ERR_SIDECALL_PEER_GONE', delivered: 'no' },
    ]);
    pair.transports[1].release();
    await pair.far.closed;
  });

  it('is unknown of a stream that was begun, whatever was sent on it last', async () => {
    const pair = openLoopback();
    pair.far.serve(Flow, flowHandlers());
    const call = pair.near.client(Flow).sum();
    await call.send(1);
    await until(() => pair.far.stats().handlers.running === 1);
    pair.transports[1].isHeld = true;
    await call.send(2); // the peer never takes this one
    const late = pair.near.client(Flow).sum();
    await turns(5);
    const outcomes = Promise.allSettled([call.end(), late.end()]);
    pair.cut();
    expect(
      (await outcomes).map((outcome) => (outcome as PromiseRejectedResult).reason),
    ).toMatchObject([{ delivered: 'unknown' }, { delivered: 'no' }]);
    pair.transports[1].release();
    await pair.far.closed;
  });

  it('a call that expires before it was sent never is', async () => {
    const pair = openLoopback({ far: { streamsMax: 1 } });
    let served = 0;
    pair.far.serve(Desk, deskHandlers({ add: () => ({ sum: (served += 1) }) }));
    const desk = pair.near.client(Desk);
    const stop = new AbortController();
    const holder = desk.hang(undefined, { signal: stop.signal });
    await expect(desk.add({ a: 1, b: 1 }, { timeoutMs: 15 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      delivered: 'no',
    });
    stop.abort(new Error('done'));
    await expect(holder).rejects.toThrow('done');
    await turns(10);
    expect(served).toBe(0);
    await pair[Symbol.asyncDispose]();
  });
});
