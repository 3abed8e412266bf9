// Helpers that are slow, that block, that serve late, or that are restarted: no calls are lost
// thereby.
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { notification, service, unary } from '../../src/rpc/contract/service.ts';
import { until } from '../support/contract.ts';
import { programPath } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

const Slow = service('Slow', {
  work: unary<number, number>(),
  count: unary<void, void>(),
  started: unary<void, number>(),
  block: notification<number>(),
});

const Late = service('Late', { hello: unary<void, string>(), exit: notification<number>() });

describe.each(['ring', 'socket'] as const)('a helper over the %s', (lane) => {
  it('F6 with slow handlers lives through thousands of calls that are given up', async () => {
    const total = rounds(30_000, 3_000);
    const events: SidecallEvent[] = [];
    const helper = await spawnHelper(process.execPath, [programPath('slow.mjs')], {
      lane,
      restart: true,
      onEvent: (event) => events.push(event),
    });
    events.length = 0; // a slow start, on a busy machine
    const slow = helper.client(Slow);
    const { pid } = helper;
    let givenUp = 0;
    let answered = 0;
    const giveUp = async (): Promise<void> => {
      while (givenUp < total) {
        const byTime = slow.work(100, { timeoutMs: 5 });
        const bySignal = slow.work(100, { signal: AbortSignal.timeout(5) });
        for (const { status } of await Promise.allSettled([byTime, bySignal])) {
          if (status === 'rejected') givenUp += 1;
        }
      }
    };
    const goOn = async (): Promise<void> => {
      while (givenUp < total) {
        expect(await slow.work(0)).toBe(pid);
        answered += 1;
        await sleep(10);
      }
    };
    // Sixteen callers give up one call after the other; one waits for its answers.
    await Promise.all([...Array.from({ length: 16 }, giveUp), goOn()]);
    expect(answered).toBeGreaterThan(0);
    expect(helper.state).toMatchObject({ state: 'running', restarts: 0 });
    expect([helper.pid, helper.session.state]).toEqual([pid, 'open']);
    expect(events).toEqual([]);
    await helper.stop();
  });

  it('F7 that stood still starts none of a hundred requests that expired meanwhile', async () => {
    const helper = await spawnHelper(process.execPath, [programPath('slow.mjs')], { lane });
    const slow = helper.client(Slow);
    expect(await slow.started()).toBe(0); // the clock of the peer is known from here on
    await slow.block(1_700);
    const calls = Array.from({ length: 100 }, () => slow.count(undefined, { timeoutMs: 100 }));
    for (const { status } of await Promise.allSettled(calls)) expect(status).toBe('rejected');
    expect(await slow.started()).toBe(0);
    await helper.stop();
  });
});

describe('a helper', () => {
  it.each([
    { how: 'serves late', argument: '', answer: 'served late' },
    {
      how: 'says from the start what it serves',
      argument: 'services',
      answer: 'served from the start',
    },
  ])('F2 that $how loses no call of those that came first', async ({ argument, answer }) => {
    const helper = await spawnHelper(process.execPath, [programPath('late.mjs'), argument]);
    const late = helper.client(Late);
    const answers = Array.from({ length: 100 }, () => late.hello());
    expect(await Promise.all(answers)).toEqual(answers.map(() => answer));
    await helper.stop();
  });

  it('that is started again is met by new channels and byte streams; between two processes they are refused', async () => {
    const helper = await spawnHelper(process.execPath, [programPath('late.mjs')], {
      restart: { firstMs: 500, maxMs: 500 },
    });
    const open = () => helper.openChannel(json<number>(), { name: 'pid' });
    const pids = async (): Promise<unknown[]> => {
      await until(async () => {
        try {
          const attempt = open();
          await attempt.next();
          await attempt.end();
          return true;
        } catch {
          return false; // it does not accept them yet
        }
      });
      const channel = open();
      const { value } = await channel.next();
      await channel.end();
      return [value, Number(await text(helper.openDuplex({ name: 'pid' })))];
    };
    const first = helper.pid;
    expect(await pids()).toEqual([first, first]);
    void helper.client(Late).exit(1);
    await until(() => helper.state.state === 'restarting');
    await expect(open().next()).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_GONE',
      delivered: 'no',
      retryable: true,
    });
    await helper.client(Late).hello();
    expect(helper.pid).not.toBe(first);
    expect(await pids()).toEqual([helper.pid, helper.pid]);
    await helper.stop();
  });
});
