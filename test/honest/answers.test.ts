// Answers of handlers are delivered in any amount; memory is bounded by the handlers that may
// start.
import { describe, expect, it } from 'vitest';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { clientStream, service, unary } from '../../src/rpc/contract/service.ts';
import { HealthService } from '../../src/rpc/serving/health.ts';
import { defer, turns, until } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

const Files = service('Files', {
  read: unary<{ bytes: number; mark: number }, Uint8Array>({ response: bytes }),
  poll: unary<void, string>(),
  name: unary<void, string>(),
  upload: clientStream<Uint8Array, { bytes: number }>({ request: bytes }),
});

const mebibyte = 1024 * 1024;

describe.each(lanes)('F2 answers over the $lane', ({ openPair }) => {
  const read = async ({ bytes: length, mark }: { bytes: number; mark: number }) => {
    await turns(2);
    return new Uint8Array(length).fill(mark);
  };
  const handlers = {
    read,
    poll: () => new Promise<string>(() => undefined),
    name: () => 'a name',
    async upload(pieces: AsyncIterable<Uint8Array>) {
      let total = 0;
      for await (const piece of pieces) total += piece.byteLength;
      return { bytes: total };
    },
  };

  it.each([
    { calls: 100, length: 4 * mebibyte, limits: {} },
    { calls: 17, length: 4 * mebibyte, limits: {} },
    { calls: 200, length: 500_000, limits: {} },
    { calls: 3, length: 30 * mebibyte, limits: { receiveMaxBytes: 64 * mebibyte } },
  ])('of $length bytes arrive, $calls at once', async ({ calls, length, limits }) => {
    await using pair = await openPair({ near: limits, far: limits });
    pair.far.serve(Files, handlers);
    const files = pair.near.client(Files);
    const answers = Array.from({ length: calls }, async (_, mark) => {
      const answer = await files.read({ bytes: length, mark });
      return [answer.byteLength, answer[0], answer[length - 1]];
    });
    const expected = Array.from({ length: calls }, (_, mark) => [length, mark % 256, mark % 256]);
    expect(await Promise.all(answers)).toEqual(expected);
    expect(pair.far.stats()).toMatchObject({ handlers: { running: 0 }, queuedBytes: 0 });
  });

  it.each([
    { limits: {}, polls: 20, length: 4 * mebibyte, answers: 30 },
    { limits: { receiveMaxBytes: 64 * mebibyte }, polls: 2, length: 40 * mebibyte, answers: 3 },
  ])('that were large stop no other request behind $polls idle ones', async (row) => {
    const { limits, polls, length, answers } = row;
    await using pair = await openPair({ near: limits, far: limits });
    pair.far.serve(Files, handlers);
    const files = pair.near.client(Files);
    for (let at = 0; at < answers; at += 1) await files.read({ bytes: length, mark: at });
    const stop = new AbortController();
    const { signal } = stop;
    const idle = Array.from({ length: polls }, () => files.poll(undefined, { signal }));
    const open = Array.from({ length: polls }, () => files.upload({ signal }));
    await turns(5);
    expect(await files.name()).toBe('a name');
    expect((await files.read({ bytes: 10, mark: 1 })).byteLength).toBe(10);
    expect(await pair.near.client(HealthService).check()).toEqual({ status: 'serving' });
    stop.abort(new Error('enough'));
    await Promise.allSettled([...idle, ...open.map((call) => call.end())]);
    pair.cut(); // the polls never settle
  });

  it('that are large may be waited for by the handlers of others', async () => {
    await using pair = await openPair();
    const gate = defer();
    // Each handler here asks the other side, which asks here again.
    const Deep = service('Deep', {
      read: unary<number, Uint8Array>({ response: bytes }),
      ask: unary<number, number>(),
    });
    pair.far.serve(Deep, {
      read: async (depth) => {
        if (depth > 0) await pair.far.client(Deep).ask(depth);
        else await gate.promise;
        return new Uint8Array(4 * mebibyte);
      },
      ask: () => 0,
    });
    pair.near.serve(Deep, {
      read: () => new Uint8Array(1),
      ask: async (depth) => (await pair.near.client(Deep).read(depth - 1)).byteLength,
    });
    gate.resolve();
    await pair.near.client(Deep).read(0); // large answers are to be expected from now on
    const calls = Array.from({ length: 20 }, () => pair.near.client(Deep).read(2));
    for (const answer of await Promise.all(calls)) expect(answer.byteLength).toBe(4 * mebibyte);
  });

  it('of a method that has not answered yet do not keep many of its handlers from starting', async () => {
    await using pair = await openPair();
    let started = 0;
    const gate = defer();
    pair.far.serve(Files, {
      ...handlers,
      poll: async () => {
        started += 1;
        await gate.promise;
        return 'at last';
      },
    });
    const polls = Array.from({ length: 100 }, () => pair.near.client(Files).poll());
    await until(() => started === 100);
    gate.resolve();
    expect(await Promise.all(polls)).toEqual(polls.map(() => 'at last'));
  });

  it('F1 requests that fit their window are taken, however long they are', async () => {
    const limits = { receiveMaxBytes: 64 * mebibyte };
    await using pair = await openPair({ near: limits, far: limits });
    pair.far.serve(Files, {
      ...handlers,
      upload: handlers.upload,
    });
    const Put = service('Put', { put: unary<Uint8Array, number>({ request: bytes }) });
    pair.far.serve(Put, { put: (data) => data.byteLength });
    const long = new Uint8Array(34 * mebibyte);
    const put = pair.near.client(Put);
    expect(await Promise.all([put.put(long), put.put(long)])).toEqual(
      [34, 34].map((n) => n * mebibyte),
    );
  });
});
