// Retries of calls: one crash counts as one failure for all calls that it ended.

import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { systemRandom } from '../../src/base/random.ts';
import type { CallTarget, MethodCall } from '../../src/rpc/calling/call-target.ts';
import { makeClient } from '../../src/rpc/calling/client.ts';
import type { CallOptions } from '../../src/rpc/contract/call-options.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { createSessionPair, type SessionPair } from '../../src/testing/session-pair.ts';
import { until } from '../support/contract.ts';

const Work = service('Work', { do: unary<number, number>({ idempotent: true }) });

/** A target whose sessions come and go, as that of a supervised helper. */
class Sessions implements CallTarget {
  readonly outlivesSessions = true;
  readonly clock = systemClock;
  readonly random = systemRandom;
  pair: SessionPair = createSessionPair();

  call(callable: MethodCall, value: unknown, options: CallOptions | undefined): Promise<unknown> {
    return this.pair.near.target.call(callable, value, options);
  }

  openStream(): never {
    throw new Error('not here');
  }
}

describe('a client that repeats', () => {
  it.each([20, 100, 1000])('repeats all of the %i calls that a crash has taken', async (count) => {
    const sessions = new Sessions();
    let started = 0;
    sessions.pair.far.serve(Work, {
      do: () => {
        started += 1;
        return new Promise(() => undefined);
      },
    });
    const client = makeClient(Work, sessions, { retry: { firstMs: 1, maxMs: 5 } });
    const calls = Array.from({ length: count }, (_, at) => client.do(at));
    await until(() => started === Math.min(count, 16));
    const before = sessions.pair;
    sessions.pair = createSessionPair();
    sessions.pair.far.serve(Work, { do: (at) => at });
    before.cut();
    expect(await Promise.all(calls)).toEqual(calls.map((_, at) => at));
    await before.close();
    await sessions.pair.close();
  });

  it('rejects with the reason of its caller, who gave up while it waited to try again', async () => {
    const sessions = new Sessions();
    const stop = new AbortController();
    const client = makeClient(Work, sessions, { retry: { firstMs: 600_000, maxMs: 600_000 } });
    const call = client.do(1, { signal: stop.signal });
    sessions.pair.cut();
    await until(() => sessions.pair.near.state === 'closed');
    const reason = new Error('enough');
    stop.abort(reason);
    await expect(call).rejects.toBe(reason);
  });

  it('stops when one crash follows the other', async () => {
    const sessions = new Sessions();
    const retry = { firstMs: 1, maxMs: 1, attempts: 100, budget: 6 };
    const call = makeClient(Work, sessions, { retry }).do(1);
    let crashes = 0;
    let outcome: unknown;
    call.catch((error) => {
      outcome = error.code;
    });
    while (outcome === undefined) {
      const { near, far, cut } = sessions.pair;
      far.serve(Work, { do: () => new Promise(() => undefined) });
      await until(() => far.stats().handlers.running === 1 || outcome !== undefined);
      if (outcome !== undefined) break;
      sessions.pair = createSessionPair();
      crashes += 1;
      cut();
      await Promise.all([near.closed, far.closed]);
    }
    expect(outcome).toBe('ERR_SIDECALL_PEER_GONE');
    expect(crashes).toBe(3); // half of the budget
    await sessions.pair.close();
  });
});
