// Helpers that end, and their channels and calls after restarts.
import { describe, expect, it } from 'vitest';
import { type Helper, spawnHelper } from '../../src/helper/spawn-helper.ts';
import type { SpawnOptions } from '../../src/helper/spawn-options.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { notification, service, unary } from '../../src/rpc/contract/service.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { Demo, demoHandlers, until } from '../support/contract.ts';
import { programPath } from '../support/programs.ts';
import { SteeredClock } from '../support/steered-clock.ts';

const Finisher = service('Finisher', {
  exit: notification<number>(),
  add: unary<{ a: number; b: number }, { sum: number }>(),
});

function start(options: SpawnOptions): Promise<Helper> {
  return spawnHelper(process.execPath, [programPath('finisher.mjs')], options);
}

describe('a helper with restart', () => {
  it('has finished when it ends by itself with exit code 0', async () => {
    const helper = await start({ restart: { firstMs: 1 } });
    await helper.client(Finisher).exit(0);
    expect(await helper.exited).toEqual({ code: 0, signal: null });
    expect(helper.state).toMatchObject({ state: 'ended', restarts: 0 });
    await expect(helper.client(Finisher).add({ a: 1, b: 1 })).rejects.toMatchObject({
      delivered: 'no',
    });
  });

  it('is started again then, too, where that was asked for', async () => {
    const helper = await start({ restart: { firstMs: 1, onSuccess: true } });
    await helper.client(Finisher).exit(0);
    await until(() => helper.state.state === 'running' && helper.state.restarts === 1);
    expect(await helper.client(Finisher).add({ a: 1, b: 1 })).toEqual({ sum: 2 });
    await helper.stop();
    await expect(start({ restart: { onSuccess: 1 as never } })).rejects.toThrow(TypeError);
  });

  it('is met by what each of its processes opens', async () => {
    const helper = await start({ restart: { firstMs: 1 } });
    const pids: number[] = [];
    const accepted = helper.channels(json<{ pid: number }>(), { name: 'hello' });
    for await (const channel of accepted) {
      const { value } = await channel.next();
      pids.push(value?.pid ?? 0);
      expect(value?.pid).toBe(helper.pid);
      if (pids.length === 3) break;
      void helper.client(Finisher).exit(1);
    }
    expect(new Set(pids).size).toBe(3);
    expect(() => helper.duplexes({ name: '' })).toThrow(TypeError);
    const duplexes = helper.duplexes({ name: 'none' });
    const next = duplexes.next();
    await helper.stop();
    expect(await next).toEqual({ done: true, value: undefined });
  });

  it('ends a call that a handler makes while it is restarted with the time of the handler', async () => {
    using clock = new SteeredClock();
    const helper = await start({ restart: { firstMs: 60_000, maxMs: 60_000 } });
    void helper.client(Finisher).exit(1);
    await until(() => helper.state.state === 'restarting');
    await using pair = createSessionPair();
    const outcomes: unknown[] = [];
    let isCalling = false;
    pair.far.serve(
      Demo,
      demoHandlers({
        same: async () => {
          const nested = helper.client(Finisher).add({ a: 1, b: 1 });
          isCalling = true;
          outcomes.push(await nested.catch(({ code }) => code));
        },
      }),
    );
    const call = pair.near.client(Demo).same(1, { timeoutMs: 30_000 });
    const settled = call.catch(() => undefined);
    await until(() => isCalling);
    clock.advance(30_000);
    await settled;
    await until(() => outcomes.length === 1);
    expect(outcomes).toEqual(['ERR_SIDECALL_DEADLINE_EXCEEDED']);
    await helper.stop();
  });
});
