// Sums of sessions, and the reports of them: at an interval, and a last time at the end.
import { describe, expect, it } from 'vitest';
import {
  connect,
  listen,
  type MonitorOptions,
  spawnPool,
  type TotalStats,
  totalStats,
} from '../../src/index.ts';
import { Demo, demoHandlers, until } from '../support/contract.ts';
import { Demo as HelperDemo, startHelper } from '../support/helper.ts';
import { Work, workerProgram } from '../support/work.ts';

interface Reports {
  readonly all: TotalStats[];
  readonly flushes: number[];
  readonly monitor: MonitorOptions;
}

function reports(intervalMs: number): Reports {
  const all: TotalStats[] = [];
  const flushes: number[] = [];
  const monitor = {
    intervalMs,
    report: (stats: TotalStats) => all.push(stats),
    flush: () => flushes.push(all.length),
  };
  return { all, flushes, monitor };
}

const called = ({ methods }: Pick<TotalStats, 'methods'>, name: string) =>
  methods.called.find(({ method }) => method === name);
const served = ({ methods }: Pick<TotalStats, 'methods'>, name: string) =>
  methods.served.find(({ method }) => method === name);

describe.each(['ring', 'socket'] as const)("the numbers of a listener on the lane '%s'", (lane) => {
  it('are the sum of its sessions, those that are over included, and so is the last report', async () => {
    const { all, flushes, monitor } = reports(100);
    const listener = await listen({ monitor, lane });
    listener.serve(Demo, demoHandlers());
    const before = totalStats();
    const sessions = await Promise.all(
      Array.from({ length: 5 }, () => connect({ path: listener.path, lane })),
    );
    for (const [at, session] of sessions.entries()) {
      for (let call = 0; call <= at; call += 1) await session.client(Demo).add({ a: 1, b: 1 });
      await expect(session.client(Demo).fail('no')).rejects.toThrow();
    }
    await Promise.all(sessions.slice(0, 2).map((session) => session.close()));
    await until(() => listener.stats().sessions.ended === 2);
    const stats = listener.stats();
    expect(stats.sessions).toEqual({ open: 3, ended: 2, failed: {} });
    expect(served(stats, 'Demo.add')).toMatchObject({ started: 15, succeeded: 15, failed: 0 });
    expect(served(stats, 'Demo.add')?.latencyMs.count).toBe(15);
    expect(served(stats, 'Demo.fail')).toMatchObject({ started: 5, succeeded: 0, failed: 5 });
    expect(stats.totals).toEqual({ calls: 0, handlers: 20 });
    expect(stats.capacity).toEqual(
      lane === 'ring' ? { send: 3 * 262_144, receive: 3 * 262_144 } : expect.anything(),
    );
    await until(() => all.length > 2);
    await listener.close();
    await Promise.all(sessions.map(({ closed }) => closed));
    await until(() => flushes.length === 1);
    const last = all.at(-1) as TotalStats;
    expect(flushes).toEqual([all.length]);
    expect(last).toEqual(listener.stats());
    expect(last.sessions).toEqual({ open: 0, ended: 5, failed: {} });
    expect(last).toMatchObject({
      calls: { open: 0, waiting: 0 },
      handlers: { running: 0 },
      queuedBytes: 0,
      untakenBytes: 0,
      capacity: undefined,
    });
    // Both ends are sessions of this thread.
    const after = totalStats();
    expect(after.sessions.ended - before.sessions.ended).toBe(10);
    const both = [served, called].map((side) => side(after, 'Demo.add')?.started ?? 0);
    const earlier = [served, called].map((side) => side(before, 'Demo.add')?.started ?? 0);
    expect(both.map((count, at) => count - (earlier[at] as number))).toEqual([15, 15]);
    if (lane === 'ring') expect(last.doorbells.received).toBeGreaterThan(0);
    const count = all.length;
    await new Promise((resolve) => setTimeout(resolve, 250));
    expect(all).toHaveLength(count);
  });
});

describe('the numbers of a helper', () => {
  it('outlive its processes, and name why sessions ended', async () => {
    const { all, flushes, monitor } = reports(60_000);
    const restart = { firstMs: 1, maxMs: 1 };
    const helper = await startHelper({ monitor, restart });
    const demo = helper.client(HelperDemo);
    for (let call = 0; call < 3; call += 1) await demo.add({ a: call, b: 1 });
    process.kill(helper.pid, 'SIGKILL');
    await until(() => helper.stats().sessions.ended === 1);
    for (let call = 0; call < 4; call += 1) await demo.add({ a: call, b: 1 });
    const { sessions, ...stats } = helper.stats();
    expect(sessions).toMatchObject({ open: 1, ended: 1 });
    expect(Object.values(sessions.failed)).toEqual([1]);
    expect(called(stats, 'Demo.add')).toMatchObject({ started: 7, succeeded: 7 });
    expect(all).toEqual([]);
    await helper.stop();
    await until(() => flushes.length === 1);
    expect(all).toHaveLength(1);
    expect(called(all[0] as TotalStats, 'Demo.add')).toMatchObject({ started: 7, succeeded: 7 });
  });
});

describe('the numbers of a pool', () => {
  it('are those of all members', async () => {
    const { all, flushes, monitor } = reports(60_000);
    const pool = await spawnPool(process.execPath, [workerProgram], { size: 3, monitor });
    const work = pool.client(Work);
    await Promise.all(Array.from({ length: 30 }, (_, id) => work.take({ id, ms: 0 })));
    const { total } = pool.stats();
    expect(total.sessions.open).toBe(3);
    expect(called(total, 'Work.take')).toMatchObject({ started: 30, succeeded: 30 });
    await pool.stop();
    await until(() => flushes.length === 1);
    expect(called(all[0] as TotalStats, 'Work.take')).toMatchObject({ started: 30 });
  });
});

describe('the option monitor', () => {
  it('refuses misuse', async () => {
    const misuses: [unknown, string][] = [
      [{}, 'monitor.report must be a function'],
      [{ report: () => undefined, intervalMs: 99 }, 'monitor.intervalMs'],
      [{ report: () => undefined, flush: 1 }, 'monitor.flush'],
      [{ report: () => undefined, every: 1 }, "unknown option 'every'"],
    ];
    for (const [monitor, text] of misuses) {
      await expect(listen({ monitor: monitor as MonitorOptions })).rejects.toThrow(text);
    }
  });
});
