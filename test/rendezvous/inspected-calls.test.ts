// The calls that a process shows to those that look into it: a bounded part of them, on each lane.
import { expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { RpcError } from '../../src/base/errors.ts';
import { inspectedCalls } from '../../src/rendezvous/inspected-calls.ts';
import type { InspectedCalls } from '../../src/rendezvous/inspection-service.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { callSampler } from '../../src/rpc/counting/call-sampler.ts';
import { until } from '../support/contract.ts';
import { lanes, type Pair } from '../support/pairs.ts';

const Store = service('Store', {
  same: unary({ request: bytes, response: bytes }),
  refuse: unary({ request: bytes, response: bytes }),
  hang: unary({ request: bytes, response: bytes }),
});
const of = (size: number): Uint8Array => new Uint8Array(size);

function serve({ far }: Pair, hang: Promise<Uint8Array>): void {
  far.serve(Store, {
    same: (request) => request,
    refuse: () => {
      throw new RpcError('not_found', 'a secret that the caller has sent');
    },
    hang: () => hang,
  });
}

/** The messages from now on, until `end()`. */
async function watched(): Promise<{ parts: InspectedCalls[]; end: () => Promise<void> }> {
  const parts: InspectedCalls[] = [];
  const controller = new AbortController();
  const reading = (async () => {
    for await (const part of inspectedCalls(systemClock, controller.signal)) parts.push(part);
  })();
  await until(() => parts.length === 1);
  const end = async (): Promise<void> => {
    controller.abort();
    await reading;
  };
  return { parts, end };
}

const callsOf = (parts: readonly InspectedCalls[]) => parts.flatMap(({ calls }) => calls);

it.each(lanes)(
  'shows begin, end, bytes and failure of calls of both sides, and no payload, over $lane',
  async ({ openPair }) => {
    await using pair = await openPair();
    let answer: (value: Uint8Array) => void = () => undefined;
    serve(
      pair,
      new Promise((resolve) => {
        answer = resolve;
      }),
    );
    const store = pair.near.client(Store);
    await store.same(of(1)); // before: not shown
    const { parts, end } = await watched();
    await store.same(of(100));
    await store.refuse(of(1)).catch(() => undefined);
    const hanging = store.hang(of(3));
    await until(() => callsOf(parts).filter(({ method }) => method === 'Store.hang').length === 2);
    expect(callsOf(parts).filter(({ endedMs }) => endedMs === undefined)).toMatchObject([
      { method: 'Store.hang', openedBy: 'us', session: pair.near.id },
      { method: 'Store.hang', openedBy: 'peer', session: pair.far.id },
    ]);
    answer(of(5));
    await hanging;
    const ended = () => callsOf(parts).filter(({ endedMs }) => endedMs !== undefined);
    await until(() => ended().length === 6);
    await end();
    const ours = ended().filter(({ openedBy }) => openedBy === 'us');
    expect(ours).toMatchObject([
      { method: 'Store.same', sentBytes: 100, receivedBytes: 100, failure: undefined },
      { method: 'Store.refuse', sentBytes: 1, failure: 'not_found' },
      { method: 'Store.hang', sentBytes: 3, receivedBytes: 5, failure: undefined },
    ]);
    for (const { beganMs, endedMs } of ours) expect(endedMs).toBeGreaterThanOrEqual(beganMs);
    expect(ended().filter(({ openedBy }) => openedBy === 'peer')).toHaveLength(3);
    expect(JSON.stringify(parts)).not.toContain('secret');
  },
);

it('takes at most 100 calls at a time, shows all of them to each that looks, and then none', async () => {
  const [loopback] = lanes;
  await using pair = await (loopback as (typeof lanes)[0]).openPair();
  serve(pair, Promise.resolve(of(1)));
  const store = pair.near.client(Store);
  const first = await watched();
  const second = await watched();
  const begun = performance.now();
  await Promise.all(Array.from({ length: 1_000 }, () => store.same(of(1))));
  await until(() => first.parts.length > 1 && second.parts.length > 1);
  await first.end();
  await second.end();
  const numbers = (parts: readonly InspectedCalls[]) =>
    callsOf(parts).map(({ sequence }) => sequence);
  const ticks = Math.ceil((performance.now() - begun) / 450); // a new sample in each at most
  expect(new Set(numbers(first.parts)).size).toBeLessThanOrEqual(100 * (ticks + 1));
  expect(new Set(numbers(first.parts)).size).toBeGreaterThanOrEqual(100);
  expect(numbers(second.parts).slice(0, 100)).toEqual(numbers(first.parts).slice(0, 100));
  expect(callSampler.room).toBe(0);
  await store.same(of(1));
  expect(callSampler.take()).toEqual({ calls: [], missed: 0 });
});

it('counts the ends that it leaves out where thousands of calls end together', () => {
  const call = { method: 'A.a', kind: 'unary' as const };
  const samples = Array.from({ length: 1_500 }, (_, at) => {
    callSampler.refill(1);
    const sample = callSampler.begin(1, 'us', call, at);
    callSampler.take();
    return sample;
  });
  const outcome = { sentBytes: 0, receivedBytes: 0, delivered: 'yes' as const, error: new Error() };
  for (const sample of samples) callSampler.end(sample, outcome, 2_000);
  const { calls, missed } = callSampler.take();
  expect([calls.length, missed]).toEqual([1_000, 500]);
  expect(calls[0]).toMatchObject({ endedMs: 2_000, failure: 'Error' });
});

it('serves eight readers at once, and refuses the ninth in words', async () => {
  const readers = await Promise.all(Array.from({ length: 8 }, watched));
  const ninth = inspectedCalls(systemClock, new AbortController().signal);
  await expect(ninth.next()).rejects.toMatchObject({ status: 'resource_exhausted' });
  for (const { end } of readers) await end();
  const next = await watched();
  await next.end();
});
