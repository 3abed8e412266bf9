// Memory of messages is given back to the kernel in a pause, never between messages.
import { afterAll, describe, expect, it, vi } from 'vitest';
import { noteArrived } from '../../src/uds/trim-heap.ts';
import { until } from '../support/contract.ts';
import { SteeredClock } from '../support/steered-clock.ts';

const returns: number[] = [];
vi.mock('../../src/addon/load-addon.ts', () => ({
  nativeState: () => ({
    addon: { returnFreedBlocks: (aboveBytes: number) => returns.push(aboveBytes) },
  }),
}));
afterAll(() => void vi.restoreAllMocks());

describe('memory of freed messages', () => {
  it('stays while messages come, and goes back once they pause', async () => {
    using clock = new SteeredClock();
    // A burst, by its bytes.
    for (let messages = 0; messages < 80; messages += 1) {
      noteArrived(64 * 1024);
      await clock.pass(50);
    }
    expect(returns).toEqual([]);
    for (let passed = 0; passed < 100 && returns.length === 0; passed += 1) await clock.pass(100);
    await until(() => returns.length > 0);
    expect(returns[0]).toBe(64 * 1024 * 1024);
  });
});
