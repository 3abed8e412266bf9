// Streams of one session, opened and closed by both sides at once: a million in the long run.
import { describe, expect, it } from 'vitest';
import { serverStream, service } from '../../src/rpc/contract/service.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { turns, until } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';
import { rounds } from '../support/rounds.ts';

const MiB = 1024 * 1024;
const streamsOfEachSide = rounds(500_000, 40_000);
const atOnce = 100;
const Short = service('Short', { one: serverStream<void, number>() });

/** Bytes of the heap and behind it, after collections. */
async function usedBytes(): Promise<number> {
  for (let round = 0; round < 3; round += 1) {
    await turns(5);
    globalThis.gc?.();
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Opens and closes streams, each of one message. */
async function open(session: Session, streams: number): Promise<number> {
  const { one } = session.client(Short);
  let begun = 0;
  let messages = 0;
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (begun < streams) {
        begun += 1;
        for await (const value of one()) messages += value;
      }
    }),
  );
  return messages;
}

describe.each(lanes.filter(({ lane }) => lane === 'ring'))('a session over the $lane', (given) => {
  it('has streams without end, and holds no more memory than after the first', async () => {
    await using pair = await given.openPair();
    for (const side of [pair.near, pair.far]) {
      side.serve(Short, {
        async *one() {
          yield 1;
        },
      });
    }
    const both = (streams: number) =>
      Promise.all([pair.near, pair.far].map((side) => open(side, streams)));
    await both(20_000); // whatever grows once has grown
    const before = await usedBytes();
    expect(await both(streamsOfEachSide)).toEqual([streamsOfEachSide, streamsOfEachSide]);
    expect((await usedBytes()) - before).toBeLessThan(4 * MiB);
    for (const side of [pair.near, pair.far]) {
      await until(() => side.stats().calls.open + side.stats().handlers.running === 0);
      expect(side.stats().totals.calls).toBe(streamsOfEachSide + 20_000);
    }
  });
});
