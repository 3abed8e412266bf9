// Unusual ends of calls, streams and channels: all of them settle, and no others end.

import { describe, expect, it } from 'vitest';
import type { Channel } from '../../src/rpc/channels/channel.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { bidi, serverStream, service, unary } from '../../src/rpc/contract/service.ts';
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
import { lanes } from '../support/pairs.ts';

describe.each(lanes)("edges over the '$lane'", ({ openPair }) => {
  it('a peer that dies while messages are queued settles everything', async () => {
    await using pair = await openPair();
    const gate = defer();
    pair.far.serve(Demo, demoHandlers({ echo: async (piece) => gate.promise.then(() => piece) }));
    const demo = pair.near.client(Demo);
    const calls = Array.from({ length: 64 }, () => demo.echo(new Uint8Array(200_000)));
    const channel = pair.near.openChannel(bytes, { name: 'nobody' });
    const sends = Array.from({ length: 20 }, () => channel.send(new Uint8Array(100_000)));
    await turns(1);
    pair.cut();
    const outcomes = await Promise.allSettled([...calls, ...sends]);
    for (const { status } of outcomes.slice(0, 64)) expect(status).toBe('rejected');
    await pair.near.closed;
    gate.resolve();
  });

  it('a Buffer may be used again as soon as send() has resolved', async () => {
    await using pair = await openPair();
    const accepted = pair.far.channels(bytes, { name: 'b' });
    const near = pair.near.openChannel(bytes, { name: 'b', priority: 'normal' });
    const far = (await accepted.next()).value as Channel<Uint8Array>;
    await accepted.return?.();
    for (const size of [100, 16_000, 60_000]) {
      const buffer = Buffer.alloc(size);
      const reading = (async () => {
        for (let at = 0; at < 200; at += 1) {
          const { value } = await far.next();
          expect(value?.every((byte) => byte === at)).toBe(true);
          if (at % 20 === 0) await turns(2);
        }
      })();
      for (let at = 0; at < 200; at += 1) {
        buffer.fill(at);
        await near.send(buffer);
      }
      await reading;
    }
    await Promise.all([near.end(), far.end()]);
  });

  it('streams that stay open do not park calls with large answers', async () => {
    await using pair = await openPair();
    const Long = service('Long', {
      ticks: serverStream<void, number>(),
      large: unary<void, Uint8Array>({ response: bytes, request: json<void>() }),
    });
    pair.far.serve(Long, {
      async *ticks(_request, { signal }) {
        yield 1;
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      },
      large: () => new Uint8Array(4_000_000),
    });
    const long = pair.near.client(Long);
    const streams = Array.from({ length: 20 }, () => long.ticks());
    for (const stream of streams) expect((await stream.next()).value).toBe(1);
    for (let at = 0; at < 30; at += 1) expect(await long.large()).toHaveLength(4_000_000);
    for (const stream of streams) await stream.return();
  });

  it('calls that wait behind failing handlers of large answers go on', async () => {
    await using pair = await openPair();
    let isFailing = false;
    pair.far.serve(
      Demo,
      demoHandlers({
        echo: async () => {
          await turns(1);
          if (isFailing) throw new Error('as asked');
          return new Uint8Array(4_000_000);
        },
      }),
    );
    const demo = pair.near.client(Demo);
    for (let at = 0; at < 40; at += 1) await demo.echo(new Uint8Array(1));
    isFailing = true;
    const outcomes = await Promise.allSettled(
      Array.from({ length: 40 }, () => demo.echo(new Uint8Array(1))),
    );
    for (const { status } of outcomes) expect(status).toBe('rejected');
    expect(await demo.add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  });

  it('end() of a call that is over settles as the call did', async () => {
    await using pair = await openPair();
    pair.far.serve(Flow, flowHandlers({ shout: () => ['only this'] }));
    const call = pair.near.client(Flow).shout();
    expect(await collect(call)).toEqual(['only this']);
    await call.end();
    const failed = pair.near.client(Flow).shout();
    failed.cancel(new Error('given up'));
    await expect(failed.end()).rejects.toThrow('given up');
  });

  it('a channel that times out at both ends at once kills nothing', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const accepted = pair.far.channels(bytes, { name: 'c' });
    const far: Channel<Uint8Array>[] = [];
    const accepting = (async () => {
      for await (const channel of accepted) far.push(channel);
    })();
    const near = Array.from({ length: 60 }, (_, at) =>
      pair.near.openChannel(bytes, { name: 'c', timeoutMs: 1 + (at % 30) }),
    );
    const ends = near.map(async (channel, at) => {
      await channel.send(new Uint8Array(10));
      await new Promise((resolve) => setTimeout(resolve, at % 30));
      await channel.end();
    });
    const farEnds = (async () => {
      for (let at = 0; at < 40; at += 1) {
        await turns(3);
        for (const channel of far) void channel.end().catch(() => undefined);
        far[at]?.cancel();
      }
    })();
    await Promise.allSettled([...ends, farEnds, ...near.map(({ closed }) => closed)]);
    await accepted.return?.();
    await accepting;
    expect(await pair.near.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  });

  it('who accepts and cancels with much queued sends nothing behind its reset', async () => {
    const limits = { streamWindowBytes: 64 * 1024 * 1024 };
    await using pair = await openPair({ near: limits, far: limits });
    pair.far.serve(Demo, demoHandlers());
    const accepted = pair.far.channels(bytes, { name: 'c' });
    const near = pair.near.openChannel(bytes, { name: 'c' });
    const far = (await accepted.next()).value as Channel<Uint8Array>;
    await accepted.return?.();
    const sends = Array.from({ length: 4000 }, () => far.send(new Uint8Array(10_000)));
    await turns(2);
    far.cancel();
    await Promise.allSettled(sends);
    await expect(near.closed).rejects.toMatchObject({ code: 'ERR_SIDECALL_CANCELLED' });
    expect(await pair.near.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  });

  it('a handler that leaves its requests twice, in the middle of a long one, kills nothing', async () => {
    await using pair = await openPair();
    const left = defer();
    pair.far.serve(
      Flow,
      flowHandlers({
        async upload(pieces) {
          await pieces.next();
          await pieces.return?.();
          await pieces.return?.();
          await left.promise;
          return { bytes: 7 };
        },
      }),
    );
    const call = pair.near.client(Flow).upload();
    await call.send(new Uint8Array(10));
    const long = call.send(new Uint8Array(1_000_000));
    await turns(5);
    left.resolve();
    expect(await call.end()).toEqual({ bytes: 7 });
    await long.catch(() => undefined);
    expect(await collect(pair.near.client(Flow).count({ to: 2 }))).toEqual([1, 2]);
  });

  it('leaving streams after their first message is no flood', async () => {
    // Each stream fills its window before it is left.
    const near = { streamWindowBytes: 16_384 };
    await using pair = await openPair({ near, far: { streamsMax: 16 } });
    pair.far.serve(Flow, flowHandlers());
    const flow = pair.near.client(Flow);
    for (let round = 0; round < 600; round += 1) {
      const stream = flow.count({ to: 100_000 });
      expect((await stream.next()).value).toBe(1);
      await stream.return();
    }
    expect(pair.near.state).toBe('open');
  });

  it('aborting many calls to a peer that reads late is no reason to close', async () => {
    const far = { streamsMax: 40_000 };
    await using pair = await openPair({ far });
    pair.far.serve(Demo, demoHandlers());
    const stop = new AbortController();
    const demo = pair.near.client(Demo);
    const calls = Array.from({ length: 20_000 }, () =>
      demo.hang(undefined, { signal: stop.signal }).catch(() => 'given up'),
    );
    await turns(1);
    stop.abort();
    expect(new Set(await Promise.all(calls))).toEqual(new Set(['given up']));
    expect(await demo.add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  });

  it('a request that cannot be decoded ends a half-sent answer whole', async () => {
    await using pair = await openPair();
    const Half = service('Half', { talk: bidi({ response: bytes }) });
    const Raw = service('Half', { talk: bidi({ request: bytes, response: bytes }) });
    const buffer = Buffer.alloc(2_000_000, 1);
    pair.far.serve(Half, {
      async *talk(requests) {
        const reading = (async () => {
          for await (const request of requests) void request;
        })().catch(() => undefined);
        try {
          yield buffer;
          await reading;
        } finally {
          buffer.fill(2); // ours again: the call is over
        }
      },
    });
    const call = pair.near.client(Raw).talk();
    await call.send(Buffer.from('{bad'));
    const outcome = await (async () => {
      for await (const message of call) expect(message.every((byte) => byte === 1)).toBe(true);
    })().catch((error: unknown) => error);
    expect(outcome).toMatchObject({ status: 'invalid_argument' });
  });

  it('the requests of a call are left whatever ends it', async () => {
    await using pair = await openPair({ far: { streamWindowBytes: 16_384 } });
    pair.far.serve(
      Flow,
      flowHandlers({
        async upload(pieces) {
          await pieces.next();
          return { bytes: 1 };
        },
      }),
    );
    const flow = pair.near.client(Flow);
    let left = 0;
    async function* source(piece: unknown): AsyncGenerator<Uint8Array> {
      try {
        for (;;) yield piece as Uint8Array;
      } finally {
        left += 1;
      }
    }
    expect(await flow.upload(source(new Uint8Array(12_000)))).toEqual({ bytes: 1 });
    await until(() => left === 1);
    await expect(flow.upload(source('no bytes'))).rejects.toMatchObject({
      code: 'ERR_SIDECALL_ENCODE',
    });
    await until(() => left === 2);
    const broken = {
      [Symbol.asyncIterator]() {
        throw new Error('no iterator');
      },
    };
    await expect(flow.upload(broken as never)).rejects.toThrow('no iterator');
  });
});
