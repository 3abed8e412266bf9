// The four kinds of call over every lane: what comes in which order, and how each ends.

import { describe, expect, it } from 'vitest';
import { RpcError, SidecallError } from '../../src/base/errors.ts';
import { wireLimits } from '../../src/base/wire-limits.ts';
import {
  collect,
  Desk,
  defer,
  deskHandlers,
  Flow,
  flowHandlers,
  turns,
  until,
} from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

describe.each(lanes)("streams over the '$lane'", ({ openPair }) => {
  it('row 21 a server stream gives its messages in order, then ends', async () => {
    await using pair = await openPair();
    pair.far.serve(Flow, flowHandlers());
    const flow = pair.near.client(Flow);
    expect(await collect(flow.count({ to: 5 }))).toEqual([1, 2, 3, 4, 5]);
    expect(await collect(flow.count({ to: 0 }))).toEqual([]);
    const many = await collect(flow.count({ to: 20_000 }));
    expect(many).toEqual(Array.from({ length: 20_000 }, (_, at) => at + 1));
  });

  it('row 22 a client stream is sent to, and answers once', async () => {
    await using pair = await openPair();
    pair.far.serve(Flow, flowHandlers());
    const flow = pair.near.client(Flow);
    const call = flow.sum();
    for (let at = 1; at <= 100; at += 1) await call.send(at);
    expect(await call.end()).toEqual({ sum: 5050 });
    expect(await call.end()).toEqual({ sum: 5050 });
    expect(await flow.sum([1, 2, 3])).toEqual({ sum: 6 });
    expect(await flow.sum([])).toEqual({ sum: 0 });
    async function* numbers(): AsyncGenerator<number> {
      for (let at = 0; at < 1000; at += 1) yield at;
    }
    expect(await flow.sum(numbers())).toEqual({ sum: 499_500 });
    await expect(call.send(1)).rejects.toMatchObject({ code: 'ERR_SIDECALL_END_OF_STREAM' });
  });

  it('row 23 both directions of a bidi call go at their own pace', async () => {
    await using pair = await openPair();
    pair.far.serve(Flow, flowHandlers());
    const flow = pair.near.client(Flow);
    const call = flow.shout();
    await call.send('a');
    expect(await call.next()).toEqual({ done: false, value: 'A' });
    await call.send('b');
    await call.send('c');
    await call.end();
    expect(await collect(call)).toEqual(['B', 'C']);
    expect(await collect(flow.shout(['x', 'y']))).toEqual(['X', 'Y']);
    const words = Array.from({ length: 5000 }, (_, at) => `w${at}`);
    expect(await collect(flow.shout(words))).toEqual(words.map((word) => word.toUpperCase()));
  });

  it('both sides stream to each other at the same time', async () => {
    await using pair = await openPair();
    pair.far.serve(Flow, flowHandlers());
    pair.near.serve(Flow, flowHandlers());
    const drip = { messages: 200, bytes: 20_000 };
    const [there, back, sum] = await Promise.all([
      collect(pair.near.client(Flow).drip(drip)),
      collect(pair.far.client(Flow).drip(drip)),
      pair.near.client(Flow).sum(Array.from({ length: 1000 }, () => 1)),
    ]);
    for (const got of [there, back]) {
      expect(got).toHaveLength(200);
      got.forEach((piece, at) => {
        expect(piece.byteLength).toBe(20_000);
        expect(piece[0]).toBe(at % 256);
        expect(piece[19_999]).toBe(at % 256);
      });
    }
    expect(sum).toEqual({ sum: 1000 });
  });

  it('carries empty messages, messages at every edge of a fragment, and those at the limit', async () => {
    const receiveMaxBytes = 300_000;
    await using pair = await openPair({ near: { receiveMaxBytes }, far: { receiveMaxBytes } });
    pair.far.serve(Flow, flowHandlers());
    const flow = pair.near.client(Flow);
    const edge = wireLimits.fragmentBytes;
    const sizes = [
      0,
      1,
      4095,
      4096,
      16_383,
      16_385,
      edge - 1,
      edge,
      edge + 1,
      2 * edge,
      300_000,
      0,
    ];
    const messages = sizes.map((size, at) => new Uint8Array(size).fill(at + 1));
    const got = await collect(flow.echo(messages));
    expect(got.map((piece) => Buffer.from(piece))).toEqual(
      messages.map((piece) => Buffer.from(piece)),
    );
    const call = flow.echo();
    await expect(call.send(new Uint8Array(300_001))).rejects.toMatchObject({
      code: 'ERR_SIDECALL_MESSAGE_TOO_LARGE',
      delivered: 'no',
    });
    await call.send(new Uint8Array(3)); // that one message alone was refused
    expect((await call.next()).value).toHaveLength(3);
    await call.end();
    expect(await collect(call)).toEqual([]);
    await expect(collect(flow.drip({ messages: 2, bytes: 300_001 }))).rejects.toMatchObject({
      status: 'resource_exhausted',
    });
    expect(await collect(flow.count({ to: 1 }))).toEqual([1]);
  });

  it('break out of a loop cancels the call, and the handler leaves through finally', async () => {
    await using pair = await openPair();
    const left = defer<string>();
    const aborted = defer<unknown>();
    pair.far.serve(
      Flow,
      flowHandlers({
        async *count(_request, { signal }) {
          signal.addEventListener('abort', () => aborted.resolve(signal.reason));
          try {
            for (let at = 0; ; at += 1) {
              yield at;
              await turns(1);
            }
          } finally {
            left.resolve('finally');
          }
        },
      }),
    );
    for await (const number of pair.near.client(Flow).count({ to: 1 })) if (number === 3) break;
    expect(await left.promise).toBe('finally');
    expect(await aborted.promise).toMatchObject({ code: 'ERR_SIDECALL_CANCELLED' });
    await until(() => pair.far.stats().handlers.running === 0);
    expect(pair.near.stats().calls.open).toBe(0);
  });

  it('a handler that throws before or after the first message fails its call alone', async () => {
    await using pair = await openPair();
    pair.far.serve(
      Flow,
      flowHandlers({
        async *count({ to }) {
          if (to === 0) throw new RpcError('not_found', 'nothing here', { details: { to } });
          yield 1;
          yield 2;
          throw new RpcError('data_loss', 'that was all', { metadata: { why: 'test' } });
        },
        sum: async () => {
          throw new RpcError('aborted', 'no sums today');
        },
        async *shout(words) {
          for await (const word of words) {
            yield word;
            throw new TypeError('a bug with a path /etc');
          }
        },
      }),
    );
    const flow = pair.near.client(Flow);
    await expect(collect(flow.count({ to: 0 }))).rejects.toMatchObject({
      status: 'not_found',
      details: { to: 0 },
      delivered: 'yes',
    });
    const got: number[] = [];
    const failure = await (async () => {
      for await (const number of flow.count({ to: 2 })) got.push(number);
    })().catch((error: unknown) => error);
    expect(got).toEqual([1, 2]);
    expect(failure).toMatchObject({ status: 'data_loss', metadata: { why: 'test' } });
    const sum = flow.sum();
    await expect(sum.end()).rejects.toMatchObject({ status: 'aborted' });
    await expect(sum.send(1)).rejects.toMatchObject({ status: 'aborted' });
    const shout = flow.shout();
    await shout.send('x');
    expect((await shout.next()).value).toBe('x');
    const words = await shout.next().catch((error: Error) => error.message);
    expect(words).toBe('Flow.shout: internal');
    expect(await collect(flow.count({ to: 0 })).catch(() => 'failed')).toBe('failed');
  });

  it('a client stream that is answered early stops its sender', async () => {
    await using pair = await openPair();
    pair.far.serve(
      Flow,
      flowHandlers({
        async sum(numbers) {
          const { value } = await numbers.next();
          return { sum: value ?? 0 };
        },
      }),
    );
    const flow = pair.near.client(Flow);
    let isLeft = false;
    async function* endless(): AsyncGenerator<number> {
      try {
        for (let at = 7; ; at += 1) {
          yield at;
          await turns(1);
        }
      } finally {
        isLeft = true;
      }
    }
    expect(await flow.sum(endless())).toEqual({ sum: 7 });
    await until(() => isLeft);
    const call = flow.sum();
    await call.send(9);
    expect(await call.end()).toEqual({ sum: 9 });
    await expect(call.send(1)).rejects.toMatchObject({ code: 'ERR_SIDECALL_END_OF_STREAM' });
  });

  it('what the requests throw cancels the call with that error', async () => {
    await using pair = await openPair();
    const seen = defer<unknown>();
    pair.far.serve(
      Flow,
      flowHandlers({
        async sum(numbers) {
          try {
            for await (const number of numbers) void number;
          } catch (error) {
            seen.resolve(error);
            throw error;
          }
          return { sum: 0 };
        },
      }),
    );
    const boom = new Error('the source broke');
    async function* broken(): AsyncGenerator<number> {
      yield 1;
      await turns(3);
      throw boom;
    }
    await expect(pair.near.client(Flow).sum(broken())).rejects.toBe(boom);
    expect(await seen.promise).toMatchObject({ code: 'ERR_SIDECALL_CANCELLED' });
    async function* brokenWords(): AsyncGenerator<string> {
      for await (const number of broken()) yield `${number}`;
    }
    const bidi = pair.near.client(Flow).shout(brokenWords());
    await expect(collect(bidi)).rejects.toBe(boom);
  });

  it('U27 a signal cancels at every point: before, while waiting, in the middle, after the end', async () => {
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

  it('U26 the deadline covers the whole stream, on both sides', async () => {
    await using pair = await openPair();
    const told = defer<unknown>();
    pair.far.serve(
      Flow,
      flowHandlers({
        async *count(_request, { signal, deadline }) {
          expect(deadline).toBeGreaterThan(performance.now());
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
    const begun = performance.now();
    await expect(
      (async () => {
        for await (const n of pair.near.client(Flow).count({ to: 1 }, { timeoutMs: 60 }))
          got.push(n);
      })(),
    ).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      status: 'deadline_exceeded',
    });
    expect(performance.now() - begun).toBeGreaterThanOrEqual(60);
    expect(got).toEqual([1]);
    expect(['ERR_SIDECALL_DEADLINE_EXCEEDED', 'ERR_SIDECALL_CANCELLED']).toContain(
      ((await told.promise) as SidecallError).code,
    );
    const hanging = pair.near.client(Flow).shout({ timeoutMs: 40 });
    await expect(hanging.next()).rejects.toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
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

  it('U22 a peer that dies leaves what it had sent, then PEER_GONE, never a clean end', async () => {
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
    pair.far.serve(Desk, deskHandlers());
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
