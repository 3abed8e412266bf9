// Deadlines, signals, cancel() and return() take effect while an interceptor runs.
import { describe, expect, it } from 'vitest';
import type { Interceptor } from '../../src/rpc/contract/interceptor.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import {
  Demo,
  defer,
  demoHandlers,
  Flow,
  flowHandlers,
  turns,
  until,
} from '../support/contract.ts';

function scene(interceptor: Interceptor) {
  const pair = createSessionPair();
  pair.far.serve(Demo, demoHandlers());
  pair.far.serve(Flow, flowHandlers());
  const options = { interceptors: [interceptor] };
  return { pair, demo: pair.near.client(Demo, options), flow: pair.near.client(Flow, options) };
}

const late = { code: 'ERR_SIDECALL_DEADLINE_EXCEEDED', delivered: 'no' };

describe('an interceptor that waits', () => {
  const never: Interceptor = () => new Promise(() => undefined);

  it('is left when the time of the call has passed', async () => {
    const { pair, demo, flow } = scene(never);
    await expect(demo.add({ a: 1, b: 1 }, { timeoutMs: 10 })).rejects.toMatchObject(late);
    await expect(demo.log('x', { timeoutMs: 10 })).rejects.toMatchObject(late);
    await expect(flow.count({ to: 1 }, { timeoutMs: 10 }).next()).rejects.toMatchObject(late);
    await expect(flow.sum([1], { timeoutMs: 10 })).rejects.toMatchObject(late);
    const sum = flow.sum({ timeoutMs: 10 });
    await expect(sum.send(1)).rejects.toMatchObject(late);
    await expect(sum.end()).rejects.toMatchObject(late);
    const shout = flow.shout({ timeoutMs: 10 });
    await expect(shout.next()).rejects.toMatchObject(late);
    await pair.close();
  });

  it('is left when the signal is aborted, before or meanwhile', async () => {
    const { pair, demo, flow } = scene(never);
    const stop = new AbortController();
    const { signal } = stop;
    const calls = [
      demo.add({ a: 1, b: 1 }, { signal }),
      flow.count({ to: 1 }, { signal }).next(),
      flow.sum([1], { signal }),
      flow.sum({ signal }).end(),
    ];
    await turns(2);
    stop.abort(new Error('enough'));
    calls.push(demo.add({ a: 1, b: 1 }, { signal }));
    for (const call of calls) await expect(call).rejects.toThrow('enough');
    await pair.close();
  });

  it('is left by cancel() and return()', async () => {
    const { pair, flow } = scene(never);
    const cancelled = flow.count({ to: 1 });
    const next = cancelled.next();
    cancelled.cancel(new Error('mine'));
    await expect(next).rejects.toThrow('mine');
    const left = flow.count({ to: 1 });
    const waiting = left.next();
    await left.return();
    expect(await waiting).toEqual({ done: true, value: undefined });
    const sum = flow.sum();
    const ending = sum.end();
    sum.cancel(new Error('mine too'));
    await expect(ending).rejects.toThrow('mine too');
    await pair.close();
  });

  it('uses up the time of its call, and what it begins too late is not sent', async () => {
    const { pair, demo, flow } = scene(async (call, next) => {
      await new Promise((resolve) => setTimeout(resolve, 30));
      return next(call);
    });
    const seen: (number | undefined)[] = [];
    pair.far.unserve(Demo);
    pair.far.serve(
      Demo,
      demoHandlers({
        same: (_value, ctx) => {
          seen.push((ctx.deadline as number) - performance.now());
        },
      }),
    );
    await demo.same(1, { timeoutMs: 600_000 });
    expect(seen[0]).toBeLessThan(599_975);
    const stream = flow.count({ to: 3 });
    stream.cancel(new Error('mine'));
    await expect(stream.next()).rejects.toThrow('mine');
    await until(() => pair.near.stats().calls.open === 0);
    await pair.close();
  });

  it('may answer a call that has failed', async () => {
    const gate = defer();
    const { pair, demo } = scene(async (call, next) => {
      try {
        return await next(call);
      } catch {
        return { sum: -1 };
      }
    });
    pair.far.unserve(Demo);
    pair.far.serve(Demo, demoHandlers({ add: () => gate.promise.then(() => ({ sum: 0 })) }));
    expect(await demo.add({ a: 1, b: 1 }, { timeoutMs: 20 })).toEqual({ sum: -1 });
    const stop = new AbortController();
    const aborted = demo.add({ a: 1, b: 1 }, { signal: stop.signal });
    await turns(2);
    stop.abort(new Error('mine'));
    expect(await aborted).toEqual({ sum: -1 });
    gate.resolve();
    await pair.close();
  });
});
