// Giving a call up while its answer arrives ends that call alone, and its slot comes back.
import { describe, expect, it } from 'vitest';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { turns, until } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

const Blob = service('Blob', {
  get: unary<number, Uint8Array>({ response: bytes }),
  ping: unary<void, string>(),
});

describe.each(lanes)('answers in pieces over the $lane', ({ openPair }) => {
  it.each([1, 64])('F6 may be given up at any moment, with %i slots', async (streamsMax) => {
    await using pair = await openPair({ far: { streamsMax } });
    pair.far.serve(Blob, {
      get: (length) => new Uint8Array(length),
      ping: () => 'pong',
    });
    const blob = pair.near.client(Blob);
    for (let round = 0; round < 150; round += 1) {
      const stop = new AbortController();
      const length = [70_000, 300_000, 4_000_000][round % 3] as number;
      const calls = Array.from({ length: Math.min(3, streamsMax) }, () =>
        blob.get(length, { signal: stop.signal }),
      );
      await turns(round % 11);
      stop.abort(new Error('enough'));
      await Promise.allSettled(calls);
    }
    const timed = Array.from({ length: 30 }, (_, at) => blob.get(4_000_000, { timeoutMs: 1 + at }));
    await Promise.allSettled(timed);
    expect(pair.near.state).toBe('open');
    expect(await blob.ping()).toBe('pong');
    await until(() => pair.near.stats().waits['given-up'] === 0);
    expect(pair.near.stats().windows.answers.held).toBe(0);
  });
});
