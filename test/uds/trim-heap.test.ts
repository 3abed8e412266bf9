// Memory of messages is given back to the kernel in a pause, never between messages.
import { afterAll, describe, expect, it, vi } from 'vitest';
import { noteArrived } from '../../src/uds/trim-heap.ts';
import { until } from '../support/contract.ts';

const returns: number[] = [];
vi.mock('../../src/addon/load-addon.ts', () => ({
  nativeState: () => ({
    addon: { returnFreedBlocks: (aboveBytes: number) => returns.push(aboveBytes) },
  }),
}));
afterAll(() => void vi.restoreAllMocks());

describe('memory of freed messages', () => {
  it('stays while messages come, and goes back once they pause', async () => {
    const until4s = performance.now() + 4_000;
    let messages = 0;
    for (; performance.now() < until4s; messages += 1) {
      noteArrived(64 * 1024);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(messages).toBeGreaterThan(16); // a burst, by its bytes
    expect(returns).toEqual([]);
    await until(() => returns.length > 0);
    expect(returns[0]).toBe(64 * 1024 * 1024);
  });
});
