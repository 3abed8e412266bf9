import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import {
  Demo,
  defer,
  demoHandlers,
  Flow,
  flowHandlers,
  turns,
  until,
} from '../support/contract.ts';
import { lanes, openLoopback } from '../support/pairs.ts';

const operations: readonly { operation: string; run: (session: Session) => Promise<unknown> }[] = [
  { operation: 'a call', run: (session) => session.client(Demo).add({ a: 1, b: 1 }) },
  { operation: 'an untyped call', run: (session) => session.call('Demo.add', {}) },
  { operation: 'a notification', run: (session) => session.client(Demo).log('x') },
  { operation: 'an untyped notification', run: (session) => session.notify('Demo.log', 'x') },
];

describe.each(lanes)('the life of a session over the $lane', ({ openPair }) => {
  it.each(operations)('rejects $operation after close, at once', async ({ run }) => {
    const pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
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
    pair.far.serve(Demo, demoHandlers());
    const closing = pair.near.close();
    expect(pair.near.state).toBe('draining');
    await expect(run(pair.near)).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
    await closing;
  });

  it.each(operations)('rejects $operation when the peer is closing', async ({ run }) => {
    const pair = await openPair();
    const gate = defer<{ sum: number }>();
    pair.far.serve(Demo, demoHandlers({ add: () => gate.promise }));
    const running = pair.near.client(Demo).add({ a: 1, b: 1 });
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

  it('answers all calls in flight before it closes; new ones are refused', async () => {
    const pair = await openPair();
    const gate = defer();
    pair.far.serve(
      Demo,
      demoHandlers({
        add: async ({ a }) => {
          await gate.promise;
          return { sum: a };
        },
      }),
    );
    const demo = pair.near.client(Demo);
    const calls = Array.from({ length: 100 }, (_, a) => demo.add({ a, b: 0 }));
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
    pair.far.serve(Demo, demoHandlers({ add: () => ({ sum: (served += 1) }) }));
    const demo = pair.near.client(Demo);
    const closing = pair.far.close();
    const outcomes = await Promise.allSettled(
      Array.from({ length: 50 }, () => demo.add({ a: 1, b: 1 })),
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
      pair.far.serve(Demo, demoHandlers());
      await pair.near.client(Demo).add({ a: 1, b: 1 });
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
      Demo,
      demoHandlers({
        hang: (_request, { signal }) =>
          new Promise(() => {
            signal.addEventListener('abort', () => reasons.push(signal.reason.code));
          }),
      }),
    );
    const hanging = pair.near.client(Demo).hang();
    await until(() => pair.far.stats().handlers.running === 1);
    const rejected = expect(hanging).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
    await pair.near.close({ deadlineMs: 30 });
    await rejected;
    await until(() => reasons.length === 1);
    expect(reasons, 'the caller gave up, not we').toEqual(['ERR_SIDECALL_CANCELLED']);
    await pair.far.closed;
  });

  it('the death of the peer rejects every pending call, and tells the handlers', async () => {
    const events: SidecallEvent[] = [];
    const pair = await openPair({ onNearEvent: (event) => events.push(event) });
    pair.far.serve(Demo, demoHandlers());
    pair.near.serve(Demo, demoHandlers());
    const demo = pair.near.client(Demo);
    const calls = Array.from({ length: 1000 }, () => demo.hang());
    void pair.far
      .client(Demo)
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

  it('counts the calls that ended in time, and those that were cut off', async () => {
    const pair = await openPair();
    const gate = defer();
    pair.far.serve(Demo, {
      ...demoHandlers(),
      hang: () => new Promise(() => undefined),
      add: async ({ a, b }) => {
        await gate.promise;
        return { sum: a + b };
      },
    });
    const demo = pair.near.client(Demo);
    const added = [1, 2, 3].map((a) => demo.add({ a, b: 1 }));
    const hung = [demo.hang(), demo.hang()].map((call) => call.catch((error) => error.delivered));
    await pair.near.ping();
    const closing = pair.near.closeCounted(300);
    gate.resolve();
    expect(await Promise.all(added)).toEqual([{ sum: 2 }, { sum: 3 }, { sum: 4 }]);
    expect(await closing).toEqual({ refused: 0, drained: 3, forced: 2, isOrderly: false });
    expect(await Promise.all(hung)).toEqual(['unknown', 'unknown']);
    await pair.far.closed;
    expect(await pair.far.closeCounted(0)).toEqual({
      refused: 0,
      drained: 0,
      forced: 0,
      isOrderly: true,
    });
  });
});

describe('a peer that does not take the last frames', () => {
  it('counts as cut off, with all calls of which it may miss the answer', async () => {
    const pair = openLoopback();
    const gate = defer();
    pair.near.serve(Demo, {
      ...demoHandlers(),
      add: async ({ a, b }) => {
        await gate.promise;
        return { sum: a + b };
      },
    });
    const [added] = await Promise.all([
      Promise.allSettled([pair.far.client(Demo).add({ a: 1, b: 1 })]),
      (async () => {
        await until(() => pair.near.stats().handlers.running === 1);
        const closing = pair.near.closeCounted(300);
        await until(() => pair.far.state === 'draining');
        await turns(5); // its answer to the goaway is under way
        pair.transports[1].isHeld = true;
        gate.resolve();
        expect(await closing).toEqual({ refused: 0, drained: 0, forced: 1, isOrderly: false });
        expect((await pair.near.closed)?.code).toBe('ERR_SIDECALL_CLOSED');
        pair.far.close({ deadlineMs: 0 });
        pair.transports[1].release();
      })(),
    ]);
    expect(added).toMatchObject([{ reason: { delivered: 'unknown' } }]);
  });
});

describe('what is known of the delivery', () => {
  it('is no where nothing was sent or nothing was taken, else unknown', async () => {
    const pair = openLoopback({ far: { streamsMax: 3 } });
    pair.far.serve(Demo, demoHandlers());
    const demo = pair.near.client(Demo);
    const taken = [demo.hang(), demo.hang()];
    await until(() => pair.far.stats().handlers.running === 2);
    pair.transports[1].isHeld = true;
    const sent = demo.hang();
    const waiting = demo.hang();
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
    pair.far.serve(Demo, demoHandlers({ add: () => ({ sum: (served += 1) }) }));
    const demo = pair.near.client(Demo);
    const stop = new AbortController();
    const holder = demo.hang(undefined, { signal: stop.signal });
    await expect(demo.add({ a: 1, b: 1 }, { timeoutMs: 15 })).rejects.toMatchObject({
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
