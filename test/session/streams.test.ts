// The four kinds of call over every lane: the order of messages and ends.

import { describe, expect, it } from 'vitest';
import { RpcError } from '../../src/base/errors.ts';
import { wireLimits } from '../../src/base/limits/wire-limits.ts';
import { collect, defer, Flow, flowHandlers, turns, until } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

describe.each(lanes)("streams over the '$lane'", ({ openPair }) => {
  it('a server stream gives its messages in order, then ends', async () => {
    await using pair = await openPair();
    pair.far.serve(Flow, flowHandlers());
    const flow = pair.near.client(Flow);
    expect(await collect(flow.count({ to: 5 }))).toEqual([1, 2, 3, 4, 5]);
    expect(await collect(flow.count({ to: 0 }))).toEqual([]);
    const many = await collect(flow.count({ to: 20_000 }));
    expect(many).toEqual(Array.from({ length: 20_000 }, (_, at) => at + 1));
  });

  it('a client stream is sent to, and answers once', async () => {
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

  it('both directions of a bidi call go at their own pace', async () => {
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
    const download = { messages: 200, bytes: 20_000 };
    const [there, back, sum] = await Promise.all([
      collect(pair.near.client(Flow).download(download)),
      collect(pair.far.client(Flow).download(download)),
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
    await expect(collect(flow.download({ messages: 2, bytes: 300_001 }))).rejects.toMatchObject({
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
    expect(words).toBe('Flow.shout: TypeError: a bug with a path /etc');
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
});
