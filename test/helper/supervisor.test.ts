import { rmSync, symlinkSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { backOffMs } from '../../src/base/back-off.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { service } from '../../src/rpc/contract/service.ts';
import { until } from '../support/contract.ts';
import { Demo, isRunning, startHelper } from '../support/helper.ts';
import { programPath, scratchDirectory } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

describe('a helper that does not start', () => {
  it.each<[string, string, string[], string]>([
    ['there is no such program', '/no/such/program', [], 'ENOENT'],
    ['it exits before its hello', process.execPath, [programPath('rude.mjs'), 'exit'], '3'],
    ['it says something else', process.execPath, [programPath('rude.mjs'), 'noise'], 'magic'],
    ['it says nothing', process.execPath, [programPath('rude.mjs'), 'silent'], '400'],
  ])('HELPER_FAILED: %s', async (_name, command, args, words) => {
    // A busy machine may take longer to start a program than it should take to give one up.
    const options = words === '400' ? { startTimeoutMs: 400 } : {};
    await expect(spawnHelper(command, args, options)).rejects.toMatchObject({
      code: 'ERR_SIDECALL_HELPER_FAILED',
      delivered: 'no',
      message: expect.stringContaining(words),
    });
  });

  it('gives up with its signal', async () => {
    const stop = new AbortController();
    const attempt = spawnHelper(process.execPath, [programPath('rude.mjs'), 'silent'], {
      signal: stop.signal,
    });
    setTimeout(() => stop.abort(new Error('mine')), 50);
    await expect(attempt).rejects.toThrow('mine');
    const aborted = AbortSignal.abort(new Error('at once'));
    await expect(startHelper({ signal: aborted })).rejects.toThrow('at once');
  });

  it.each([
    [{ stdio: 'pipe' }, TypeError],
    [{ stdout: 'file' }, TypeError],
    [{ startTimeoutMs: 5 }, RangeError],
    [{ restart: { firstMS: 5 } }, TypeError],
    [{ restart: { firstMs: 500, maxMs: 10 } }, RangeError],
    [{ limits: { streamsMax: 0 } }, RangeError],
  ])('throws for options %j', async (options, kind) => {
    await expect(startHelper(options as never)).rejects.toThrow(kind);
  });
});

describe('a helper that is started again', () => {
  it('lives on under the same client: pending calls reject, new ones wait for the next process', async () => {
    const events: SidecallEvent[] = [];
    const helper = await startHelper({ restart: true, onEvent: (event) => events.push(event) });
    helper.serve(service('Demo', { add: Demo.methods.add }), {
      add: ({ a, b }) => ({ sum: a * b }),
    });
    const demo = helper.client(Demo);
    const first = helper.pid;
    const pending = demo.hang();
    const rejected = expect(pending).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
    await demo.add({ a: 1, b: 1 }); // the one before has arrived
    process.kill(first, 'SIGKILL');
    await rejected;
    expect(await demo.add({ a: 2, b: 3 }, { timeoutMs: 60_000 })).toEqual({ sum: 5 });
    expect(helper.pid).not.toBe(first);
    expect(await demo.callBack({ a: 4, b: 5 })).toEqual({ sum: 20 });
    expect(events.some(({ type }) => type === 'helper-exited')).toBe(true);
    await helper.stop();
  });

  it('a call that waits for the next process keeps its deadline and its signal', async () => {
    const helper = await startHelper({ restart: { firstMs: 5000, maxMs: 5000 } });
    const demo = helper.client(Demo);
    process.kill(helper.pid, 'SIGKILL');
    await helper.session.closed;
    const stop = new AbortController();
    const aborted = demo.add({ a: 1, b: 1 }, { signal: stop.signal });
    stop.abort(new Error('mine'));
    await expect(aborted).rejects.toThrow('mine');
    await expect(demo.add({ a: 1, b: 1 }, { timeoutMs: 30 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      delivered: 'no',
    });
    await expect(demo.add({ a: 1, b: 1 }, { timeoutMs: -1 })).rejects.toThrow(RangeError);
    const waiting = demo.add({ a: 1, b: 1 });
    const refused = expect(waiting).rejects.toMatchObject({
      code: 'ERR_SIDECALL_CLOSED',
      delivered: 'no',
    });
    await helper.stop();
    await refused;
  });

  it('says why it could not be started again, where that is the reason', async () => {
    using scratch = scratchDirectory();
    const node = scratch.file('node');
    symlinkSync(process.execPath, node);
    const helper = await spawnHelper(node, [programPath('helper.mjs')], {
      restart: { firstMs: 1, maxMs: 5, maxRestarts: 2 },
      onEvent: () => undefined,
    });
    rmSync(node);
    process.kill(helper.pid, 'SIGKILL');
    await helper.exited;
    await expect(helper.client(Demo).add({ a: 1, b: 1 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_HELPER_FAILED',
      message: expect.stringMatching(/was not started again in 2 attempts .*ENOENT/),
    });
  });

  it('is given up as a crash loop after so many restarts', async () => {
    const events: SidecallEvent[] = [];
    const helper = await startHelper({
      restart: { firstMs: 1, maxMs: 5, maxRestarts: 2 },
      onEvent: (event) => events.push(event),
    });
    const demo = helper.client(Demo);
    for (let round = 0; round < 3; round += 1) {
      const { pid } = await demo.whoami(undefined, { timeoutMs: 60_000 });
      process.kill(pid, 'SIGKILL');
      await until(() => helper.session.state === 'closed' || helper.pid !== pid);
    }
    expect(await helper.exited).toEqual({ code: null, signal: 'SIGKILL' });
    await expect(demo.add({ a: 1, b: 1 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_HELPER_FAILED',
      message: expect.stringContaining('crash loop'),
    });
    expect(events.at(-1)?.error.message).toContain('crash loop');
    await helper.stop();
  });

  it('survives many kills under load: every call settles, nothing is left', async () => {
    const kills = rounds(50, 10);
    const helper = await startHelper({
      restart: { firstMs: 1, maxMs: 2, maxRestarts: 1000 },
    });
    const demo = helper.client(Demo);
    let isDone = false;
    let answered = 0;
    const load = Array.from({ length: 8 }, async () => {
      while (!isDone) {
        try {
          await demo.add({ a: 1, b: 1 });
          answered += 1;
        } catch (error) {
          expect(error).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
        }
      }
    });
    for (let round = 0; round < kills; round += 1) {
      const goal = answered + 20;
      await until(() => answered >= goal);
      const cut = expect(demo.hang()).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
      await demo.add({ a: 1, b: 1 }); // the one before has arrived
      process.kill(helper.pid, 'SIGKILL');
      await cut;
      const { session } = helper;
      await until(() => helper.session !== session);
    }
    isDone = true;
    await Promise.all(load);
    expect(answered).toBeGreaterThanOrEqual(20 * kills);
    await helper.stop();
  });

  it('stop() in the middle of a restart ends it for good', async () => {
    const helper = await startHelper({ restart: { firstMs: 20, maxMs: 20 } });
    process.kill(helper.pid, 'SIGKILL');
    await helper.session.closed;
    await helper.stop();
    expect(isRunning(helper.pid)).toBe(false);
    await helper.exited;
  });

  it('waits longer each time, up to the maximum, with jitter', () => {
    const settings = { firstMs: 10, maxMs: 1000, maxRestarts: 50, windowMs: 60_000 };
    for (let restart = 0; restart < 20; restart += 1) {
      const middle = Math.min(1000, 10 * 1.6 ** restart);
      for (let round = 0; round < 50; round += 1) {
        const ms = backOffMs(restart, settings, Math.random);
        expect(ms).toBeGreaterThanOrEqual(middle * 0.8);
        expect(ms).toBeLessThanOrEqual(middle * 1.2);
      }
    }
  });
});
