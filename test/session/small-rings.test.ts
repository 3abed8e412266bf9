// Sessions whose ring is small, or cannot be made.
import { describe, expect, it } from 'vitest';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { notification, service } from '../../src/rpc/contract/service.ts';
import { Demo, demoHandlers, until } from '../support/contract.ts';
import { openRingPair } from '../support/pairs.ts';
import { addonWith } from '../support/ring-leases.ts';

describe('a session', () => {
  it.each(['EPERM', 'ENOMEM', 'ENOSYS'])(
    'is the socket where memory cannot be made: %s',
    async (code) => {
      const failing = addonWith({
        createOutbox: () => {
          throw Object.assign(new Error(`memfd_create: ${code}`), {
            code,
            syscall: 'memfd_create',
          });
        },
      });
      await using pair = await openRingPair({ lane: 'auto' }, { lane: 'auto' }, failing);
      for (const session of [pair.near, pair.far]) expect(session.lane).toBe('socket');
      expect(pair.near.laneReason).toContain('memfd_create');
      pair.far.serve(Demo, demoHandlers());
      expect(await pair.near.client(Demo).add({ a: 1, b: 2 })).toEqual({ sum: 3 });
    },
  );

  it('carries 2,000 small messages and a long one, in order, past a slow reader of a small ring', async () => {
    const Feed = service('Feed', { item: notification({ request: bytes }) });
    const limits = { receiveMaxBytes: 17 * 1024 * 1024 };
    const options = { ringBytes: 65_536, limits };
    await using pair = await openRingPair(options, options);
    const seen: Uint8Array[] = [];
    pair.far.serve(Feed, {
      item: async (item) => {
        seen.push(item);
        if (seen.length % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
      },
    });
    const { item } = pair.near.client(Feed);
    const small = (at: number): Buffer => Buffer.alloc(1_024, at % 251);
    const long = Buffer.alloc(16 * 1024 * 1024, 'l');
    const sends: Promise<void>[] = [];
    for (let at = 0; at < 2_000; at += 1) {
      if (at === 1_000) sends.push(item(long));
      sends.push(item(small(at)));
    }
    await Promise.all(sends);
    await until(() => seen.length === 2_001);
    const expected = Array.from({ length: 2_000 }, (_, at) => small(at));
    expected.splice(1_000, 0, long);
    expect(seen.every((got, at) => Buffer.compare(got, expected[at] as Buffer) === 0)).toBe(true);
    expect(pair.near.lane).toBe('ring');
  });
});
