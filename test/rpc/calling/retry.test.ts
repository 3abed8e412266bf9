// Retries of calls: the calls that are retried, how often, and never after a handler may have run.

import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { RpcError, SidecallError } from '../../../src/base/errors.ts';
import { systemRandom } from '../../../src/base/random.ts';
import type { MethodCall } from '../../../src/rpc/calling/call-target.ts';
import { makeClient } from '../../../src/rpc/calling/client.ts';
import { FailedCall } from '../../../src/rpc/calling/stream-call.ts';
import { serverStream, service, unary } from '../../../src/rpc/contract/service.ts';
import { collect, turns } from '../../support/contract.ts';

/** A target whose calls fail as scripted, then answer. */
function failing(
  failures: readonly unknown[],
  outlivesSessions = true,
): { target: Parameters<typeof makeClient>[1]; calls: () => number } {
  let calls = 0;
  const fail = (): unknown => failures[calls++];
  return {
    calls: () => calls,
    target: {
      outlivesSessions,
      clock: systemClock,
      random: systemRandom,
      call: async (_callable: MethodCall, value: unknown) => {
        const failure = fail();
        if (failure !== undefined) throw failure;
        return value;
      },
      openStream: () => {
        const failure = fail();
        if (failure !== undefined) return new FailedCall(failure);
        const values = [1, 2][Symbol.iterator]();
        const call = new FailedCall(new Error('unused'));
        return Object.assign(Object.create(call), {
          promise: Promise.resolve(),
          next: async () => {
            const { done, value } = values.next();
            return done ? { done: true, value: undefined } : { done: false, value };
          },
        });
      },
    },
  };
}

const gone = (delivered: 'no' | 'unknown'): SidecallError =>
  new SidecallError('ERR_SIDECALL_PEER_GONE', 'gone', { delivered });
const full = new SidecallError('ERR_SIDECALL_LIMIT_STREAMS');

const Tried = service('Tried', {
  once: unary<number, number>(),
  again: unary<number, number>({ idempotent: true }),
  many: serverStream<number, number>(),
});

describe('retry', () => {
  const retry = { attempts: 3, firstMs: 1, maxMs: 2 };

  it('repeats what no handler saw; what one may have seen only where that is idempotent', async () => {
    const unseen = failing([gone('no'), gone('no')]);
    expect(await makeClient(Tried, unseen.target, { retry }).once(5)).toBe(5);
    expect(unseen.calls()).toBe(3);
    const seen = failing([gone('unknown')]);
    await expect(makeClient(Tried, seen.target, { retry }).once(5)).rejects.toMatchObject({
      delivered: 'unknown',
    });
    expect(seen.calls()).toBe(1);
    const idempotent = failing([gone('unknown')]);
    expect(await makeClient(Tried, idempotent.target, { retry }).again(5)).toBe(5);
    const said = failing([new RpcError('unavailable', 'busy')]);
    await expect(makeClient(Tried, said.target, { retry }).again(5)).rejects.toBeInstanceOf(
      RpcError,
    );
    const final = failing([new SidecallError('ERR_SIDECALL_ENCODE')]);
    await expect(makeClient(Tried, final.target, { retry }).once(5)).rejects.toMatchObject({
      code: 'ERR_SIDECALL_ENCODE',
    });
    expect(final.calls()).toBe(1);
  });

  it('stops at its attempts, and is off unless asked for', async () => {
    const always = failing(Array.from({ length: 9 }, () => full));
    await expect(makeClient(Tried, always.target, { retry }).once(1)).rejects.toBe(full);
    expect(always.calls()).toBe(3);
    const off = failing([full]);
    await expect(makeClient(Tried, off.target).once(1)).rejects.toBe(full);
    expect(() => makeClient(Tried, off.target, { retry: { attempts: 1 } })).toThrow(RangeError);
  });

  it('over one session only refusals are repeated', async () => {
    const lost = failing([gone('no')], false);
    await expect(makeClient(Tried, lost.target, { retry }).once(1)).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_GONE',
    });
    const refused = failing([full], false);
    expect(await makeClient(Tried, refused.target, { retry }).once(1)).toBe(1);
  });

  it('a client that only fails runs out of budget', async () => {
    const broken = failing(Array.from({ length: 100 }, () => full));
    const client = makeClient(Tried, broken.target, { retry: { ...retry, budget: 10 } });
    for (let at = 0; at < 20; at += 1) await client.once(1).catch(() => undefined);
    // 5 failures are repeated at most before the budget is at half; then each call is made once.
    expect(broken.calls()).toBeLessThanOrEqual(25);
    expect(broken.calls()).toBeGreaterThan(20);
  });

  it('keeps the time of the call, and its signal', async () => {
    const slow = failing(Array.from({ length: 9 }, () => full));
    const client = makeClient(Tried, slow.target, {
      retry: { attempts: 9, firstMs: 500, maxMs: 500 },
    });
    await expect(client.once(1, { timeoutMs: 50 })).rejects.toBe(full);
    const stop = new AbortController();
    const waiting = client.once(1, { signal: stop.signal });
    await turns(2);
    const enough = new Error('enough');
    stop.abort(enough);
    await expect(waiting).rejects.toBe(enough);
  });

  it('begins a stream of responses again while none came', async () => {
    const target = failing([gone('no'), gone('no')]);
    expect(await collect(makeClient(Tried, target.target, { retry }).many(1))).toEqual([1, 2]);
    const lost = failing([gone('unknown')]);
    await expect(collect(makeClient(Tried, lost.target, { retry }).many(1))).rejects.toMatchObject({
      delivered: 'unknown',
    });
  });
});
