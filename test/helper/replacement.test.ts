// Another process in the place of the present one, without a gap.
import { existsSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type Helper, spawnHelper } from '../../src/helper/spawn-helper.ts';
import type { SpawnOptions } from '../../src/helper/spawn-options.ts';
import { turns, until } from '../support/contract.ts';
import { isRunning } from '../support/helper.ts';
import { scratchDirectory } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';
import { SteeredClock } from '../support/steered-clock.ts';
import { workerProgram as program, Work } from '../support/work.ts';

function start(options: SpawnOptions = {}, ...args: string[]): Promise<Helper> {
  return spawnHelper(process.execPath, [program, ...args], { startTimeoutMs: 600_000, ...options });
}

const next = (...args: string[]) => ({ args: [program, ...args] });

describe('helper.replace()', () => {
  it('moves to a process of other arguments, and restarts that one', async () => {
    const helper = await start({ restart: true }, 'first');
    const work = helper.client(Work);
    const first = helper.pid;
    expect(await work.take({ id: 1 })).toMatchObject({ name: 'first' });
    const replaced = await helper.replace(next('second'));
    expect(replaced).toEqual({ pid: helper.pid, moved: 0, drained: 0, forced: 0 });
    expect(isRunning(first)).toBe(false);
    expect(await work.take({ id: 2 })).toMatchObject({ name: 'second', pid: helper.pid });
    process.kill(helper.pid, 'SIGKILL');
    await until(() => helper.pid !== replaced.pid);
    expect(await work.take({ id: 3 })).toMatchObject({ name: 'second', pid: helper.pid });
    await helper.replace(); // the same program again
    expect(await work.take({ id: 4 })).toMatchObject({ name: 'second', pid: helper.pid });
    await helper.stop();
  });

  it('loses no call and makes none twice, over many replacements under load', async () => {
    using folder = scratchDirectory();
    const times = rounds(30, 6);
    await using helper = await start({}, 'one');
    const work = helper.client(Work);
    const pids = new Set<number>();
    let isOver = false;
    let id = 0;
    const caller = async (): Promise<number> => {
      let made = 0;
      for (; !isOver; made += 1) {
        id += 1;
        const mine = id;
        const answer = await work.take({ id: mine, ms: mine % 7 });
        expect(answer.id).toBe(mine);
        pids.add(answer.pid);
      }
      return made;
    };
    const callers = Array.from({ length: 16 }, caller);
    let drained = 0;
    for (let round = 0; round < times; round += 1) {
      const present = helper.pid;
      const releases = folder.file(String(round));
      id += 1;
      const held = work.take({ id, until: releases }); // in flight while the helper drains
      const replacing = helper.replace({ deadlineMs: 600_000 });
      await Promise.race([until(() => helper.pid !== present), replacing]);
      writeFileSync(releases, '');
      const replaced = await replacing;
      await held;
      expect(replaced.forced).toBe(0);
      drained += replaced.drained;
    }
    isOver = true;
    const made = await Promise.all(callers);
    expect(made.reduce((sum, count) => sum + count)).toBe(id - times);
    expect(pids.size).toBeGreaterThanOrEqual(times);
    expect(drained).toBeGreaterThanOrEqual(times);
  });

  it('makes calls that wait for room on the new process', async () => {
    using folder = scratchDirectory();
    const releases = folder.file('releases');
    await using helper = await start({}, 'old');
    const work = helper.client(Work);
    const { pid } = helper;
    const ids = Array.from({ length: 6_000 }, (_, at) => at);
    const calls = ids.map((id) => work.take({ id, until: releases }));
    const replacing = helper.replace({ ...next('new'), deadlineMs: 600_000 });
    await Promise.race([until(() => helper.pid !== pid), replacing]);
    writeFileSync(releases, '');
    const { moved, forced } = await replacing;
    const answers = await Promise.all(calls);
    expect(answers.map(({ id }) => id)).toEqual(ids);
    expect(answers.filter(({ name }) => name === 'new')).toHaveLength(moved);
    expect(moved).toBeGreaterThan(0);
    expect(forced).toBe(0);
  });

  it('goes on with the old one where the new one crashes at its start, and says how', async () => {
    await using helper = await start({}, 'old');
    const work = helper.client(Work);
    const { pid } = helper;
    await expect(helper.replace(next('new', 'crashes'))).rejects.toMatchObject({
      code: 'ERR_SIDECALL_HELPER_FAILED',
      message: expect.stringContaining('exit code 7'),
    });
    expect(await work.take({ id: 1 })).toEqual({ id: 1, name: 'old', pid });
  });

  it('goes on with the old one where the new one does not become healthy', async () => {
    using folder = scratchDirectory();
    using clock = new SteeredClock();
    await using helper = await start({ startTimeoutMs: 600_000 }, 'old');
    const work = helper.client(Work);
    const unwell = folder.file('unwell');
    const replacing = expect(helper.replace(next('new', 'unwell', unwell))).rejects.toMatchObject({
      code: 'ERR_SIDECALL_HELPER_FAILED',
      message: expect.stringContaining('healthy'),
    });
    await until(() => existsSync(unwell));
    await turns(10); // the session has begun on this side, too
    clock.advance(600_000);
    await replacing;
    expect(await work.take({ id: 1 })).toMatchObject({ name: 'old' });
    writeFileSync(folder.file('recovers'), '');
    await helper.replace(next('new', 'recovers', folder.file('recovers')));
    expect(await work.take({ id: 2 })).toMatchObject({ name: 'new' });
  });

  it('waits for the new process where the old one dies meanwhile', async () => {
    using folder = scratchDirectory();
    const recovers = folder.file('recovers');
    const helper = await start({}, 'old'); // not restarted
    const work = helper.client(Work);
    const replaced = helper.replace(next('new', 'recovers', recovers));
    await work.take({ id: 1 });
    process.kill(helper.pid, 'SIGKILL');
    await helper.session.closed;
    await until(() => helper.state.state === 'restarting');
    const waits = work.take({ id: 2 });
    writeFileSync(recovers, '');
    await replaced;
    expect(await waits).toMatchObject({ name: 'new' });
    // And where the new process fails then, the helper has ended.
    const failing = helper.replace(next('newer', 'crashes'));
    process.kill(helper.pid, 'SIGKILL');
    await expect(failing).rejects.toMatchObject({ code: 'ERR_SIDECALL_HELPER_FAILED' });
    expect(await helper.exited).toEqual({ code: null, signal: 'SIGKILL' });
    await expect(work.take({ id: 3 })).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
  });

  it('cuts off at its deadline what does not end, and counts it', async () => {
    using folder = scratchDirectory();
    using clock = new SteeredClock();
    await using helper = await start({}, 'old');
    const work = helper.client(Work);
    const first = helper.pid;
    const hung = work.hang().catch(({ code, delivered }) => ({ code, delivered }));
    const slow = work.take({ id: 1, until: folder.file('releases') });
    await work.take({ id: 2 });
    const replacing = helper.replace({ ...next('new'), deadlineMs: 600_000 });
    await until(() => helper.pid !== first);
    expect(await work.take({ id: 3 })).toMatchObject({ name: 'new' });
    writeFileSync(folder.file('releases'), '');
    expect(await slow).toMatchObject({ name: 'old' });
    clock.advance(600_000);
    expect(await replacing).toEqual({ pid: helper.pid, moved: 0, drained: 1, forced: 1 });
    // Another process is there: what may be repeated can be.
    expect(await hung).toEqual({ code: 'ERR_SIDECALL_GOING_AWAY', delivered: 'unknown' });
  });

  it('stop() meanwhile ends both processes; replacements follow each other', async () => {
    const helper = await start({}, 'old');
    const one = helper.replace(next('one'));
    const two = helper.replace(next('two'));
    await one;
    await two;
    expect(await helper.client(Work).take({ id: 1 })).toMatchObject({ name: 'two' });
    void helper
      .client(Work)
      .hang()
      .catch(() => undefined);
    const last = helper.replace({ ...next('three', 'unwell'), deadlineMs: 60_000 });
    const refused = expect(last).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
    await helper.stop({ deadlineMs: 50 });
    await refused;
    await expect(helper.replace()).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
    // A process that drains without end is ended with the rest.
    const other = await start({}, 'old');
    void other
      .client(Work)
      .hang()
      .catch(() => undefined);
    await other.client(Work).take({ id: 1 });
    const { pid } = other;
    const endless = other.replace({ ...next('new'), deadlineMs: 600_000 });
    await until(() => other.pid !== pid);
    await other.stop({ deadlineMs: 50 });
    expect(await endless).toMatchObject({ forced: 1 });
    expect(isRunning(pid)).toBe(false);
  });

  it.each([
    [{ deadlineMs: -1 }, RangeError],
    [{ program: 5 }, TypeError],
    [{ arguments: [] }, TypeError],
  ])('rejects %j, which is misuse', async (options, kind) => {
    await using helper = await start({}, 'old');
    await expect(helper.replace(options as never)).rejects.toThrow(kind);
  });
});
