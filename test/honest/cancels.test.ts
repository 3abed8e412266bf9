// Cancels of many calls end those calls only.
import { describe, expect, it } from 'vitest';
import { service, unary } from '../../src/rpc/contract/service.ts';
import {
  Demo,
  defer,
  demoHandlers,
  Flow,
  flowHandlers,
  turns,
  until,
} from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';
import { Random } from '../support/random.ts';

describe.each(lanes)('calls given up over the $lane', ({ openPair }) => {
  it('F6 in masses leave the session open, and each handler is told', async () => {
    await using pair = await openPair({ far: { streamsMax: 64 } });
    let started = 0;
    let told = 0;
    pair.far.serve(
      Demo,
      demoHandlers({
        hang: (_request, { signal }) =>
          new Promise((_resolve, reject) => {
            started += 1;
            signal.addEventListener('abort', () => {
              told += 1;
              reject(signal.reason);
            });
          }),
      }),
    );
    const demo = pair.near.client(Demo);
    let sent = 0;
    for (let round = 0; round < 40; round += 1) {
      const stop = new AbortController();
      const calls = Array.from({ length: 64 }, () => demo.hang(undefined, { signal: stop.signal }));
      await until(() => pair.far.stats().handlers.running > 0);
      await turns(2);
      sent += pair.near.stats().calls.open;
      stop.abort(new Error('enough'));
      await Promise.allSettled(calls);
    }
    await until(() => pair.near.stats().waits['given-up'] === 0);
    expect(told).toBe(started);
    expect(sent).toBeGreaterThan(1_000); // far more than the 128 that a bucket of twice the streams held
    expect(pair.near.state).toBe('open');
    expect(await demo.add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  });

  it('F6 by their deadlines, faster than their handlers settle, wait for slots and end in time', async () => {
    await using pair = await openPair({ far: { streamsMax: 16 } });
    const gate = defer();
    pair.far.serve(Demo, demoHandlers({ hang: () => gate.promise }));
    const demo = pair.near.client(Demo);
    for (let round = 0; round < 20; round += 1) {
      const calls = Array.from({ length: 30 }, () => demo.hang(undefined, { timeoutMs: 5 }));
      for (const outcome of await Promise.allSettled(calls)) {
        const { reason } = outcome as PromiseRejectedResult;
        expect(reason.code).toBe('ERR_SIDECALL_DEADLINE_EXCEEDED');
      }
    }
    expect(pair.near.state).toBe('open');
    expect(pair.near.stats().waits['given-up']).toBe(16);
    gate.resolve();
    await until(() => pair.near.stats().waits['given-up'] === 0);
    expect(await demo.add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  });

  it('close at once, although their handlers run on', async () => {
    const pair = await openPair();
    const gate = defer();
    pair.far.serve(Demo, demoHandlers({ hang: () => gate.promise }));
    await expect(pair.near.client(Demo).hang(undefined, { timeoutMs: 10 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
    });
    expect(pair.near.stats().calls).toEqual({ open: 0, waiting: 0 });
    const closing = pair.near.close({ deadlineMs: 60_000 });
    await turns(3);
    gate.resolve();
    await closing;
    await pair.far.close();
  });

  it('F5 of streams and channels give their slots back, whichever side was first', async () => {
    const random = Random.fromEnvironment();
    console.log(`channels: SIDECALL_SEED=${random.seed}`);
    await using pair = await openPair({ near: { streamsMax: 8 }, far: { streamsMax: 8 } });
    pair.far.serve(Flow, flowHandlers());
    const flow = pair.near.client(Flow);
    const accepted = pair.far.channels(Flow.methods.count.request, { name: 'c' });
    void (async () => {
      for await (const channel of accepted) {
        if (random.chance(50)) channel.cancel();
        else void channel.end().catch(() => undefined);
      }
    })();
    for (let round = 0; round < 100; round += 1) {
      for await (const _ of flow.count({ to: 1000 })) break;
      const channel = pair.near.openChannel(Flow.methods.count.request, { name: 'c' });
      void channel.end().catch(() => undefined);
      if (round % 3 === 0) await channel.next().catch(() => undefined);
      channel.cancel();
    }
    await until(() => pair.near.stats().waits['given-up'] === 0);
    expect(await flow.sum([1, 2])).toEqual({ sum: 3 });
    await accepted.return?.();
  });
});

describe('names', () => {
  it('of channels use up none of the methods, and methods beyond the table still travel', async () => {
    const [{ openPair }] = lanes as [(typeof lanes)[number]];
    await using pair = await openPair();
    const accepted: string[] = [];
    pair.far.serve(service('Other', { get: unary<void, number>() }), { get: () => 7 });
    for (let at = 0; at < 4200; at += 1) {
      const name = `document-${at}`;
      const arrivals = pair.far.channels(Flow.methods.count.request, { name });
      const ours = pair.near.openChannel(Flow.methods.count.request, { name });
      const { value: theirs } = await arrivals.next();
      accepted.push(theirs?.name ?? '');
      await Promise.all([ours.end(), theirs?.end()]);
      await arrivals.return?.();
    }
    expect(new Set(accepted).size).toBe(4200);
    for (let at = 0; at < 4200; at += 1) {
      await expect(pair.near.call(`No.method${at}`)).rejects.toMatchObject({
        status: 'unimplemented',
      });
    }
    expect(await pair.near.call('Other.get')).toBe(7);
  });
});
