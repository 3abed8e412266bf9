// Pools of helpers, with real processes.
import { existsSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import { tuning } from '../../src/base/limits/internal-limits.ts';
import { type SpawnPoolOptions, spawnPool } from '../../src/pool/spawn-pool.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { turns, until } from '../support/contract.ts';
import { isRunning } from '../support/helper.ts';
import { scratchDirectory } from '../support/programs.ts';
import { SteeredClock } from '../support/steered-clock.ts';
import { Work, workerProgram } from '../support/work.ts';

const start = (options: SpawnPoolOptions, ...args: string[]) =>
  spawnPool(process.execPath, [workerProgram, ...args], { startTimeoutMs: 600_000, ...options });

describe('the choice of a helper', () => {
  it('spreads calls within ten per cent, and gives none to a helper that was killed', async () => {
    using clock = new SteeredClock();
    await using pool = await start({ size: 4, restart: { firstMs: 600_000, maxMs: 600_000 } });
    const work = pool.client(Work);
    const byPid = new Map<number, number>();
    // Calls begin together, when no helper has any: how fast the system lets each one run does not
    // count.
    const callTogether = async (count: number, together: number): Promise<void> => {
      const call = async (_: unknown, id: number): Promise<void> => {
        const { pid } = await work.take({ id, ms: 5 });
        byPid.set(pid, (byPid.get(pid) ?? 0) + 1);
      };
      for (let round = 0; round < count; round += 1)
        await Promise.all(Array.from({ length: together }, call));
    };
    const spreadOf = (counts: Iterable<number>, expected: number): number =>
      Math.max(...Array.from(counts, (count) => Math.abs(count - expected) / expected));
    await callTogether(100, 16);
    expect(byPid.size).toBe(4);
    expect(spreadOf(byPid.values(), 400)).toBeLessThanOrEqual(0.1);
    const [killed] = [...byPid.keys()] as [number];
    process.kill(killed, 'SIGKILL');
    await until(() => pool.state.open === 3);
    byPid.clear();
    await callTogether(100, 15);
    expect(byPid.has(killed)).toBe(false);
    expect(byPid.size).toBe(3);
    expect(spreadOf(byPid.values(), 500)).toBeLessThanOrEqual(0.1);
    clock.advance(600_000);
    await until(() => pool.state.open === 4);
    byPid.clear();
    await callTogether(25, 16);
    expect(byPid.size).toBe(4);
  });

  it('makes calls that a helper had not begun on another one, and rejects the rest truthfully', async () => {
    await using pool = await start({ size: 3 });
    const work = pool.client(Work);
    const again = pool.client(Work, { retry: { attempts: 10, budget: 1_000 } });
    const seen: string[] = [];
    let isOver = false;
    const plain = async (): Promise<void> => {
      while (!isOver) {
        const error = await work.take({ id: 1, ms: 2 }).then(
          () => undefined,
          (reason) => reason,
        );
        if (error !== undefined) seen.push(error.delivered);
      }
    };
    const repeated = async (): Promise<number> => {
      let count = 0;
      while (!isOver) {
        await again.take({ id: 2, ms: 2 }); // never rejects: it may run twice
        count += 1;
      }
      return count;
    };
    const callers = [plain(), plain(), plain()];
    const repeaters = [repeated(), repeated(), repeated()];
    for (let round = 0; round < 3; round += 1) {
      await until(() => pool.state.open === 3);
      await work.take({ id: 0 });
      process.kill(pool.members[round]?.pid as number, 'SIGKILL');
      await until(() => pool.state.open < 3);
    }
    await until(() => pool.state.open === 3);
    isOver = true;
    await Promise.all(callers);
    expect((await Promise.all(repeaters)).every((count) => count > 0)).toBe(true);
    expect(seen.every((delivered) => delivered === 'unknown')).toBe(true);
  });

  it('keeps calls of a key on one helper, and moves them only while that is away', async () => {
    await using pool = await start({ size: 4, restart: { firstMs: 1_000, maxMs: 1_000 } });
    const work = pool.client(Work);
    const placeOf = async (key: string | number): Promise<number> =>
      (await work.take({ id: 1 }, { key })).pid;
    const keys = Array.from({ length: 200 }, (_, at) => `user ${at}`);
    const places = new Map<string, number>();
    for (const key of keys) places.set(key, await placeOf(key));
    expect(new Set(places.values()).size).toBe(4);
    for (const key of keys) expect(await placeOf(key)).toBe(places.get(key));
    const killed = places.get(keys[0] as string) as number;
    const at = pool.members.findIndex(({ pid }) => pid === killed);
    process.kill(killed, 'SIGKILL');
    await until(() => pool.state.open === 3);
    for (const key of keys) {
      const place = await placeOf(key);
      if (places.get(key) === killed) expect(place).not.toBe(killed);
      else expect(place).toBe(places.get(key));
    }
    await until(() => pool.state.open === 4);
    for (const key of keys) {
      const before = places.get(key);
      const expected = before === killed ? pool.members[at]?.pid : before;
      expect(await placeOf(key)).toBe(expected);
    }
    const session = pool.session({ key: keys[0] as string });
    expect(session.peer.pid).toBe(pool.members[at]?.pid);
    await expect(work.take({ id: 1 }, { key: {} as never })).rejects.toThrow(TypeError);
  });

  it('lets calls wait in the pool rather than behind a long one', async () => {
    using folder = scratchDirectory();
    await using pool = await start({ size: 2, callsPerMember: 1 });
    const work = pool.client(Work);
    const long = work.take({ id: 0, until: folder.file('releases') });
    let isLongDone = false;
    void long.then(() => {
      isLongDone = true;
    });
    const short = Array.from({ length: 20 }, (_, id) => work.take({ id, ms: 5 }));
    expect(pool.stats().waiting).toBe(19);
    const pids = new Set((await Promise.all(short)).map(({ pid }) => pid));
    expect(isLongDone).toBe(false);
    expect(pids.size).toBe(1);
    writeFileSync(folder.file('releases'), '');
    expect(pids.has((await long).pid)).toBe(false);
    // One whose time passes while it waits has not been sent.
    const more = folder.file('more');
    const both = [work.take({ id: 1, until: more }), work.take({ id: 2, until: more })];
    await expect(work.take({ id: 3 }, { timeoutMs: 50 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      delivered: 'no',
      message: expect.stringContaining('every member of the pool was away or busy'),
    });
    writeFileSync(more, '');
    await Promise.all(both);
  });

  it('begins a call that waits when a notification, a channel or a direct call has ended', async () => {
    await using pool = await start({ size: 1, callsPerMember: 1 });
    const work = pool.client(Work);
    await work.note(150);
    expect(await work.take({ id: 1 })).toMatchObject({ id: 1 }); // no time-out: it must be woken
    const [member] = pool.members;
    const direct = member?.client(Work).take({ id: 2, ms: 150 });
    expect(await work.take({ id: 3 })).toMatchObject({ id: 3 });
    await direct;
    const channel = pool.session().openChannel(json<string>(), { name: 'none' });
    expect(pool.stats().members[0]?.underWay).toBe(1);
    await expect(channel[Symbol.asyncIterator]().next()).rejects.toThrow('none');
    expect(await work.take({ id: 4 })).toMatchObject({ id: 4 });
  });

  it('gives a helper whose calls were given up nothing new while another one is free', async () => {
    using clock = new SteeredClock();
    await using pool = await start({ size: 2, callsPerMember: 1 });
    const work = pool.client(Work);
    const hanging = work.hang(undefined, { timeoutMs: 500_000 }).catch(({ code }) => code);
    for (const member of pool.members) await member.client(Work).take({ id: 0 }); // it has begun
    clock.advance(500_000);
    const wedged = await hanging;
    expect(wedged).toBe('ERR_SIDECALL_DEADLINE_EXCEEDED');
    const free = pool.members.filter((_, at) => pool.stats().members[at]?.underWay === 0);
    expect(free).toHaveLength(1);
    for (let id = 0; id < 20; id += 1) {
      expect((await work.take({ id })).pid).toBe(free[0]?.pid); // `hang` ends with its process
    }
  });

  it('has 99 of 100 calls answered by the others beside a helper that is far slower', async () => {
    const calls = 3_200;
    await using pool = await start({ size: 4 });
    const work = pool.client(Work);
    const [slow] = pool.members;
    await slow?.client(Work).slow(150); // also where a busy machine lets the others be late
    let bySlow = 0;
    const caller = async (): Promise<void> => {
      for (let count = 0; count < calls / 8; count += 1)
        if ((await work.take({ id: 1, ms: 20 })).pid === slow?.pid) bySlow += 1;
    };
    await Promise.all(Array.from({ length: 8 }, caller));
    const found = pool.stats().members.map(({ slowness }) => slowness > 1);
    expect(found[0]).toBe(true); // and others, where the system does not let them run
    expect(bySlow).toBeGreaterThanOrEqual(tuning.slowMemberAnswers); // found by its answers
    expect(bySlow).toBeLessThan(calls / 100);
  });
});

describe('the life of a pool', () => {
  it('starts all, or none where one does not start', async () => {
    await expect(start({ size: 3 }, 'x', 'crashes')).rejects.toMatchObject({
      code: 'ERR_SIDECALL_HELPER_FAILED',
      message: expect.stringContaining('7'),
    });
    const aborted = AbortSignal.abort(new Error('mine'));
    await expect(start({ size: 3, signal: aborted })).rejects.toThrow('mine');
  });

  it('takes options that are undefined as left out', async () => {
    await using pool = await start({ size: 1, restart: undefined, callsPerMember: undefined });
    process.kill(pool.members[0]?.pid as number, 'SIGKILL');
    await until(() => pool.state.open === 0);
    expect(await pool.client(Work).take({ id: 1 })).toMatchObject({ id: 1 }); // it was started again
  });

  it.each([
    [{ size: 0 }, RangeError, '1 to 1024'],
    [{ size: 1e9 }, RangeError, '1 to 1024'],
    [{ size: 1.5 }, RangeError, '1 to 1024'],
    [{ size: 'many' }, TypeError, 'auto'],
    [{ callsPerMember: 0 }, RangeError, '1 to 1048576'],
    [{ recycle: { calls: 0 } }, RangeError, 'recycle.calls'],
    [{ recycle: { age: 5 } }, TypeError, 'age'],
    [{ szie: 2 }, TypeError, 'szie'],
  ])('rejects %j', async (options, kind, words) => {
    const started = start(options as never);
    await expect(started).rejects.toThrow(kind);
    await expect(started).rejects.toThrow(words);
  });

  it('does not poll with more processes than processors, unless it is told to', async () => {
    const size = availableParallelism();
    const advice = async (options: SpawnPoolOptions) => {
      await using pool = await start(options);
      return pool.client(Work).polling();
    };
    expect(await advice({ size })).toEqual({ advised: '0' });
    expect(await advice({ size, pollBudgetUs: 50 })).toEqual({});
    if (size > 1) expect(await advice({ size: size - 1 })).toEqual({});
  });

  it('has one helper for each processor but one by default', async () => {
    await using pool = await start({});
    expect(pool.size).toBeGreaterThanOrEqual(1);
    expect(pool.state).toEqual({ state: 'ready', open: pool.size });
  });

  it('waits while all are away, tells its states, and ends with the last helper', async () => {
    const pool = await start({ size: 2, restart: { maxRestarts: 1, firstMs: 100 } });
    const work = pool.client(Work);
    const states: string[] = [];
    const following = (async () => {
      for await (const { state, open } of pool.states()) states.push(`${state} ${open}`);
    })();
    const killAll = (): void => {
      for (const { pid } of pool.members) process.kill(pid, 'SIGKILL');
    };
    killAll();
    await until(() => pool.state.state === 'waiting');
    expect(() => pool.session()).toThrow('every member of the pool is away');
    expect(await work.take({ id: 1 })).toMatchObject({ id: 1 });
    await until(() => pool.state.open === 2);
    killAll();
    const error = await pool.ended;
    expect(error).toMatchObject({ message: expect.stringContaining('crash loop') });
    await following;
    expect(states.filter((state) => state === 'waiting 0')).toHaveLength(2);
    expect(states.at(-1)).toBe('ended 0');
    await expect(work.take({ id: 2 })).rejects.toThrow('crash loop');
    await pool.stop();
  });

  it('stop() finishes calls, ends every process, twice is once', async () => {
    const pool = await start({ size: 3 });
    const work = pool.client(Work);
    const pids = pool.members.map(({ pid }) => pid);
    const calls = [1, 2, 3, 4, 5, 6].map((id) => work.take({ id, ms: 200 }));
    const stopping = pool.stop();
    await expect(work.take({ id: 7 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_CLOSED',
      delivered: 'no',
    });
    expect((await Promise.all(calls)).map(({ id }) => id)).toEqual([1, 2, 3, 4, 5, 6]);
    await Promise.all([stopping, pool.stop({ deadlineMs: 0 })]);
    expect(pids.some(isRunning)).toBe(false);
    expect(await pool.ended).toBeUndefined();
    expect(pool.state).toEqual({ state: 'ended', open: 0, error: undefined });
    await expect(pool.stop({ deadlineMs: -1 })).rejects.toThrow(RangeError);
  });
});

describe('stop() of a pool in which calls wait', () => {
  it('begins and finishes them, and refuses new ones', async () => {
    const pool = await start({ size: 1, callsPerMember: 1 });
    const work = pool.client(Work);
    const calls = Array.from({ length: 8 }, (_, id) => work.take({ id, ms: 20 }));
    const stopping = pool.stop({ deadlineMs: 600_000 });
    await expect(work.take({ id: 9 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_CLOSED',
      delivered: 'no',
    });
    expect((await Promise.all(calls)).map(({ id }) => id)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    await stopping;
  });

  it('rejects those that its deadline does not let begin', async () => {
    const pool = await start({ size: 1, callsPerMember: 1 });
    const work = pool.client(Work);
    const hanging = work.hang();
    const waiting = Array.from({ length: 3 }, (_, id) => work.take({ id }));
    const stopping = pool.stop({ deadlineMs: 20 });
    for (const call of waiting) {
      await expect(call).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED', delivered: 'no' });
    }
    await expect(hanging).rejects.toMatchObject({ delivered: 'unknown' });
    await stopping;
  });
});

describe('fresh helpers', () => {
  it('follow after so many calls, without a gap', async () => {
    await using pool = await start({ size: 2, recycle: { calls: 200 } });
    const work = pool.client(Work);
    const pids = new Map<number, number>();
    let left = 3_000;
    const caller = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        const { pid } = await work.take({ id: left, ms: 2 });
        pids.set(pid, (pids.get(pid) ?? 0) + 1);
      }
    };
    await Promise.all(Array.from({ length: 4 }, caller));
    expect(pids.size).toBeGreaterThan(2);
    const { members } = pool.stats();
    expect(members.reduce((sum, { recycled }) => sum + recycled, 0)).toBeGreaterThan(0);
  });

  it('follow while another one still finishes its calls', async () => {
    await using pool = await start({ size: 2, recycle: { calls: 20 } });
    const work = pool.client(Work);
    const hung = work.hang().catch(({ code }) => code);
    const before = pool.members.map(({ pid }) => pid);
    const recycled = (): number[] => pool.stats().members.map((member) => member.recycled);
    // The helper that hangs is followed once, and holds the other one up in nothing.
    const isDone = (): boolean => Math.min(...recycled()) === 1 && Math.max(...recycled()) >= 4;
    while (!isDone()) {
      await Promise.all(Array.from({ length: 8 }, (_, id) => work.take({ id, ms: 1 })));
    }
    await until(() => before.filter((pid) => isRunning(pid as number)).length === 1);
    await pool.stop({ deadlineMs: 0 });
    expect(await hung).toMatch(/CLOSED|GOING_AWAY/);
    expect(before.some((pid) => isRunning(pid as number))).toBe(false);
  });

  it('follow when they are old, or large', async () => {
    await using old = await start({ size: 1, recycle: { ageMs: 1_000 } });
    const first = old.members[0]?.pid;
    const long = old.client(Work).take({ id: 1, ms: 3_500 });
    await until(() => old.members[0]?.pid !== first);
    expect(await long).toMatchObject({ pid: first }); // it is finished by the process before
    await using large = await start({ size: 1, recycle: { memoryBytes: 400 * 1_048_576 } });
    const before = large.members[0]?.pid;
    await large.client(Work).grow(400);
    await until(() => large.members[0]?.pid !== before);
  });

  it('tell an event where they do not start, and the helper before goes on', async () => {
    using folder = scratchDirectory();
    using clock = new SteeredClock();
    const events: SidecallEvent[] = [];
    const options: SpawnPoolOptions = {
      size: 1,
      recycle: { calls: 1 },
      startTimeoutMs: 600_000,
      onEvent: (event) => events.push(event),
    };
    const unwell = folder.file('unwell');
    await using pool = await start(options, 'x', 'unwell', unwell);
    const work = pool.client(Work);
    const { pid } = await work.take({ id: 1 });
    await until(() => existsSync(unwell)); // by the one that is to follow
    await turns(10); // its session has begun on this side, too
    clock.advance(600_000);
    await until(() => events.some(({ type }) => type === 'recycle-failed'));
    expect((await work.take({ id: 2 })).pid).toBe(pid);
  });
});
