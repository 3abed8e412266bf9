// The stack of a call's later error has the line that awaits the call.
import { describe, expect, it } from 'vitest';
import { SidecallError } from '../../src/base/errors.ts';
import { Demo, demoHandlers } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

async function reasonOf(run: () => Promise<unknown>): Promise<Error> {
  try {
    await run();
  } catch (error) {
    return error as Error;
  }
  throw new Error('it did not fail');
}

describe('a failure arrives as it is', () => {
  const [{ openPair }] = lanes as [(typeof lanes)[number]];
  const failing = async (reason: unknown, beside?: () => void): Promise<unknown> => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const stop = new AbortController();
    const call = pair.near.client(Demo).hang(undefined, { signal: stop.signal });
    beside?.();
    stop.abort(reason);
    return reasonOf(() => call);
  };

  it('where stacks are formatted by the program, or not at all', async () => {
    const { prepareStackTrace } = Error;
    try {
      for (const format of [
        (_: unknown, sites: unknown) => sites,
        () => {
          throw new Error('x');
        },
      ]) {
        const reason = new SidecallError('ERR_SIDECALL_CANCELLED');
        const replace = (): void => void (Error.prepareStackTrace = format as never);
        expect(await failing(reason, replace)).toBe(reason);
        Error.prepareStackTrace = prepareStackTrace;
      }
    } finally {
      Error.prepareStackTrace = prepareStackTrace;
    }
  });

  it('where it is frozen', async () => {
    const reason = Object.freeze(new SidecallError('ERR_SIDECALL_CANCELLED'));
    expect(await failing(reason)).toBe(reason);
  });

  it('where Promise.all was replaced', async () => {
    const { all } = Promise;
    try {
      const reason = new SidecallError('ERR_SIDECALL_CANCELLED');
      const replace = (): void => {
        Promise.all = ((values: []) => all.call(Promise, values)) as never;
      };
      expect(await failing(reason, replace)).toBe(reason);
    } finally {
      Promise.all = all;
    }
  });

  it('with the frames of one caller, however many calls fail of one error', async () => {
    const reason = new SidecallError('ERR_SIDECALL_CANCELLED');
    const before = reason.stack?.length ?? 0;
    for (let at = 0; at < 200; at += 1) expect(await failing(reason)).toBe(reason);
    expect(reason.stack?.length).toBeLessThan(before + 3_000);
  });

  it('after those before it, a hundred or a thousand of one turn', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const order: number[] = [];
    const calls = Array.from({ length: 1_000 }, (_, at) =>
      pair.near
        .client(Demo)
        .hang()
        .catch(() => order.push(at)),
    );
    pair.cut();
    await Promise.all(calls);
    expect(order).toEqual(Array.from({ length: 1_000 }, (_, at) => at));
  });
});

describe.each(lanes)('over $lane', ({ openPair }) => {
  it('a failure of the handler, a deadline and the end of the session show the caller', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers({ add: () => Promise.reject(new Error('x')) }));
    const demo = pair.near.client(Demo);
    const around = pair.near.client(Demo, { interceptors: [(call, next) => next(call)] });
    const again = pair.near.client(Demo, { retry: { attempts: 2, firstMs: 1 } });

    async function whoFails(): Promise<void> {
      await demo.add({ a: 1, b: 2 });
    }
    async function whoIsLate(): Promise<void> {
      await demo.hang(undefined, { timeoutMs: 5 });
    }
    async function whoIntercepts(): Promise<void> {
      await around.add({ a: 1, b: 2 });
    }
    async function whoTriesAgain(): Promise<void> {
      await again.add({ a: 1, b: 2 });
    }
    async function whoIsOneOfMany(): Promise<void> {
      await Promise.all([demo.hang(), demo.add({ a: 1, b: 2 })]);
    }
    async function whoIsLeft(): Promise<void> {
      await demo.hang();
    }
    expect((await reasonOf(whoFails)).stack).toMatch(/at .*whoFails /);
    expect((await reasonOf(whoIsLate)).stack).toMatch(/at .*whoIsLate /);
    expect((await reasonOf(whoIntercepts)).stack).toMatch(/at .*whoIntercepts /);
    expect((await reasonOf(whoTriesAgain)).stack).toMatch(/at .*whoTriesAgain /);
    expect((await reasonOf(whoIsOneOfMany)).stack).toMatch(/at .*whoIsOneOfMany /);
    const left = reasonOf(whoIsLeft);
    pair.cut();
    expect((await left).stack).toMatch(/at .*whoIsLeft /);
  });

  it('all of ten thousand calls fail with the session; a hundred of them show the caller', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const demo = pair.near.client(Demo);
    async function oneOfThem(): Promise<void> {
      await demo.hang();
    }
    const all = Array.from({ length: 10_000 }, () => reasonOf(oneOfThem));
    pair.cut();
    const reasons = await Promise.all(all);
    expect(reasons).toHaveLength(10_000);
    expect(new Set(reasons).size).toBe(10_000);
    const shown = reasons.filter(({ stack }) => /at .*oneOfThem /.test(stack ?? ''));
    expect(shown.length).toBeGreaterThanOrEqual(100);
    expect(shown.length).toBeLessThan(1_000);
  });
});
