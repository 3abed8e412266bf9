// The results of one call for each of many items.
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { mapItems } from '../../src/pool/map-items.ts';

const settings = { concurrency: 3, isOrdered: true, signal: undefined };

async function listOf<T>(results: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const result of results) list.push(result);
  return list;
}

describe('mapItems', () => {
  it('gives results in the order of the items, or as they come', async () => {
    const run = async (ms: number) => {
      await wait(ms);
      return ms;
    };
    expect(await listOf(mapItems([60, 5, 20], run, settings))).toEqual([60, 5, 20]);
    const unordered = { ...settings, isOrdered: false };
    expect(await listOf(mapItems([60, 5, 20], run, unordered))).toEqual([5, 20, 60]);
    expect(await listOf(mapItems([], run, settings))).toEqual([]);
  });

  it('makes no more calls at once than allowed, and all that are allowed', async () => {
    let running = 0;
    let most = 0;
    const run = async (item: number) => {
      running += 1;
      most = Math.max(most, running);
      await wait(item % 4);
      running -= 1;
      return item;
    };
    const items = Array.from({ length: 100 }, (_, at) => at);
    expect(await listOf(mapItems(items, run, settings))).toEqual(items);
    expect(most).toBe(3);
  });

  it('takes few items ahead of a slow reader, from items without end', async () => {
    let taken = 0;
    let isClosed = false;
    async function* endless() {
      try {
        for (;;) {
          taken += 1;
          yield taken;
        }
      } finally {
        isClosed = true;
      }
    }
    for await (const item of mapItems(endless(), async (n) => n, settings)) {
      await wait(5);
      expect(taken - item).toBeLessThanOrEqual(13);
      if (item === 20) break;
    }
    await wait(0);
    expect(isClosed).toBe(true);
    const before = taken;
    await wait(20);
    expect(taken).toBe(before);
  });

  it('ends with the error of a call, of the items, or of the signal, and aborts the rest', async () => {
    const aborted: number[] = [];
    const run = (item: number, { signal }: { signal: AbortSignal }) =>
      new Promise<number>((resolve, reject) => {
        if (item < 2) return resolve(item);
        signal.addEventListener('abort', () => {
          aborted.push(item);
          reject(signal.reason);
        });
        if (item === 2) setTimeout(() => reject(new Error('two')), 5);
      });
    await expect(listOf(mapItems([1, 2, 3, 4], run, settings))).rejects.toThrow('two');
    expect(aborted.sort()).toEqual([2, 3, 4]);
    function* failing() {
      yield 1;
      throw new Error('no more items');
    }
    await expect(listOf(mapItems(failing(), run, settings))).rejects.toThrow('no more items');
    const stop = new AbortController();
    const ended = expect(
      listOf(mapItems([3, 4], run, { ...settings, signal: stop.signal })),
    ).rejects.toThrow('mine');
    stop.abort(new Error('mine'));
    await ended;
  });

  it('leaves items that wait for ever', async () => {
    const silent = { [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => {}) }) };
    const stop = new AbortController();
    const ended = expect(
      listOf(mapItems(silent, async (n) => n, { ...settings, signal: stop.signal })),
    ).rejects.toThrow('mine');
    stop.abort(new Error('mine'));
    await ended;
  });
});
