// Faked timers of a test runner in a program with this package: sessions are not affected.
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Demo, defer, demoHandlers } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

afterEach(() => {
  vi.useRealTimers();
});

describe.each(lanes)('faked timers over the $lane', ({ openPair }) => {
  it('do not stop calls, those under way included', async () => {
    await using pair = await openPair();
    const gate = defer();
    const handlers = demoHandlers({
      same: async (value) => {
        await gate.promise;
        return value;
      },
    });
    pair.far.serve(Demo, handlers);
    const demo = pair.near.client(Demo);
    const underWay = demo.same('before');
    expect(await demo.add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    vi.useFakeTimers();
    gate.resolve();
    expect(await underWay).toBe('before');
    expect(await demo.add({ a: 2, b: 2 })).toEqual({ sum: 4 });
    vi.useRealTimers();
    expect(await demo.add({ a: 3, b: 3 })).toEqual({ sum: 6 });
  });

  it('do not stop deadlines, new sessions or closing', async () => {
    vi.useFakeTimers();
    const pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const late = pair.near.client(Demo).hang(undefined, { timeoutMs: 20 });
    await expect(late).rejects.toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
    await Promise.all([pair.near.close(), pair.far.close()]);
    vi.useRealTimers();
    await using next = await openPair();
    next.far.serve(Demo, demoHandlers());
    expect(await next.near.client(Demo).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  });
});
