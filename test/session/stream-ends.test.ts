// Ends of the four kinds of call, over every lane.

import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { SidecallError } from '../../src/base/errors.ts';
import {
  collect,
  Demo,
  defer,
  demoHandlers,
  Flow,
  flowHandlers,
  until,
} from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';
import { SteeredClock } from '../support/steered-clock.ts';

describe.each(lanes)("ends of streams over the '$lane'", ({ openPair }) => {
  it('a signal cancels at every point: before, while waiting, in the middle, after the end', async () => {
    await using pair = await openPair();
    pair.far.serve(Flow, flowHandlers());
    const flow = pair.near.client(Flow);
    const reason = new Error('enough');
    await expect(
      collect(flow.count({ to: 3 }, { signal: AbortSignal.abort(reason) })),
    ).rejects.toBe(reason);
    const early = new AbortController();
    const stream = flow.count({ to: 3 }, { signal: early.signal });
    early.abort(reason);
    await expect(stream.next()).rejects.toBe(reason);
    const middle = new AbortController();
    const long = flow.count({ to: 1_000_000 }, { signal: middle.signal });
    expect((await long.next()).value).toBe(1);
    const pending = long.next().then(() => long.next());
    middle.abort(reason);
    await pending.catch(() => undefined);
    await expect(long.next()).rejects.toBe(reason);
    const late = new AbortController();
    expect(await collect(flow.count({ to: 2 }, { signal: late.signal }))).toEqual([1, 2]);
    late.abort(reason);
    const sum = new AbortController();
    const call = flow.sum({ signal: sum.signal });
    await call.send(1);
    sum.abort(reason);
    await expect(call.send(2)).rejects.toBe(reason);
    await expect(call.end()).rejects.toBe(reason);
    await until(() => pair.far.stats().handlers.running === 0);
  });

  it('the deadline covers the whole stream, on both sides', async () => {
    using clock = new SteeredClock();
    await using pair = await openPair();
    const told = defer<unknown>();
    pair.far.serve(
      Flow,
      flowHandlers({
        async *count(_request, { signal, deadline }) {
          expect(deadline).toBeGreaterThan(systemClock.nowMs());
          yield 1;
          await new Promise((_resolve, reject) => {
            signal.addEventListener('abort', () => {
              told.resolve(signal.reason);
              reject(signal.reason);
            });
          });
        },
      }),
    );
    const got: number[] = [];
    await expect(
      (async () => {
        for await (const n of pair.near.client(Flow).count({ to: 1 }, { timeoutMs: 3_600_000 })) {
          got.push(n);
          clock.advance(3_600_000);
        }
      })(),
    ).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      status: 'deadline_exceeded',
    });
    expect(got).toEqual([1]);
    expect(['ERR_SIDECALL_DEADLINE_EXCEEDED', 'ERR_SIDECALL_CANCELLED']).toContain(
      ((await told.promise) as SidecallError).code,
    );
    const hanging = pair.near.client(Flow).shout({ timeoutMs: 3_600_000 });
    const next = hanging.next();
    clock.advance(3_600_000);
    await expect(next).rejects.toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
    await expect(hanging.send('x')).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
    });
  });

  it('headers come before the first message, trailers before the end', async () => {
    await using pair = await openPair();
    pair.far.serve(
      Flow,
      flowHandlers({
        async *count({ to }, ctx) {
          ctx.sendHeaders({ begun: 'yes' });
          ctx.trailers = { ended: 'yes', 'sum-bin': new Uint8Array([1, 2]) };
          for (let at = 1; at <= to; at += 1) yield at;
        },
      }),
    );
    const order: unknown[] = [];
    const stream = pair.near.client(Flow).count(
      { to: 2 },
      {
        onHeaders: (metadata) => order.push({ ...metadata }),
        onTrailers: (metadata) => order.push({ ...metadata }),
      },
    );
    for await (const number of stream) order.push(number);
    expect(order[0]).toEqual({ begun: 'yes' });
    expect(order).toHaveLength(4);
    expect(order).toContainEqual({ ended: 'yes', 'sum-bin': new Uint8Array([1, 2]) });
  });

  it('a peer that dies leaves what it had sent, then PEER_GONE, never a clean end', async () => {
    await using pair = await openPair();
    const far = defer<unknown>();
    pair.far.serve(
      Flow,
      flowHandlers({
        async *count() {
          yield 1;
          yield 2;
          await new Promise(() => undefined);
        },
        async sum(numbers) {
          try {
            for await (const number of numbers) void number;
          } catch (error) {
            far.resolve(error);
          }
          return { sum: 0 };
        },
      }),
    );
    const flow = pair.near.client(Flow);
    const stream = flow.count({ to: 2 });
    const unread = flow.count({ to: 2 });
    const sending = flow.sum();
    await sending.send(1);
    expect((await stream.next()).value).toBe(1);
    expect((await stream.next()).value).toBe(2);
    await until(() => unread.queuedBytes === 2);
    pair.cut();
    await expect(stream.next()).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    expect((await unread.next()).value).toBe(1);
    expect((await unread.next()).value).toBe(2);
    await expect(unread.next()).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    await expect(sending.end()).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    await expect(sending.send(2)).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    expect(SidecallError.is(await far.promise)).toBe(true);
  });

  it('a stream for a method of another kind, or of none, is unimplemented', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    await expect(collect(pair.near.client(Flow).count({ to: 1 }))).rejects.toMatchObject({
      status: 'unimplemented',
    });
    const sum = pair.near.client(Flow).sum();
    await expect(sum.end()).rejects.toMatchObject({ status: 'unimplemented' });
    await expect(pair.near.call('Flow.count')).rejects.toMatchObject({ status: 'unimplemented' });
    pair.far.serve(Flow, flowHandlers());
    await expect(pair.near.call('Flow.count')).rejects.toMatchObject({
      status: 'unimplemented',
      message: 'Flow.count: served here as a serverStream method',
    });
  });
});
