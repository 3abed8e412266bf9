// SIGKILL of either side under load: no resource leaks, all promises settle. Times are printed, not
// judged.
import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { requireNative } from '../../src/addon/load-addon.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { Demo, demoHandlers, until } from '../support/contract.ts';
import { programPath, startProgram } from '../support/programs.ts';
import { rounds } from '../support/rounds.ts';

const kills = rounds(25, 6);
const native = requireNative('the test');

describe('death under load', () => {
  it('of the serving side: every call rejects, and says whether it may have been seen', async () => {
    const detections: number[] = [];
    const outcomes = { no: 0, unknown: 0 };
    for (let kill = 0; kill < kills; kill += 1) {
      const helper = await spawnHelper(process.execPath, [programPath('helper.mjs')]);
      expect(helper.session.lane).toBe('ring');
      const demo = helper.client(Demo);
      const payload = new Uint8Array(1000 + 700 * kill);
      let answered = 0;
      const load = Array.from({ length: 32 }, async () => {
        for (;;) {
          await demo.echo(payload);
          answered += 1;
        }
      });
      const settled = Promise.allSettled(load);
      await until(() => answered > 50);
      const begun = performance.now();
      process.kill(helper.pid, 'SIGKILL');
      for (const outcome of await settled) {
        const { reason } = outcome as PromiseRejectedResult;
        expect(reason).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE', retryable: true });
        outcomes[reason.delivered as 'no' | 'unknown'] += 1;
      }
      detections.push(performance.now() - begun);
      await helper.exited;
      expect(existsSync(`/proc/${helper.pid}/fd`)).toBe(false);
    }
    await until(() => native.ringMemoryBytes() === 0);
    detections.sort((a, b) => a - b);
    const at = (share: number): string =>
      (detections[Math.floor(share * (kills - 1))] as number).toFixed(1);
    console.log(
      `death: ${kills} kills, until all calls had rejected p50 ${at(0.5)} ms, p99 ${at(0.99)} ms; delivered no ${outcomes.no}, unknown ${outcomes.unknown}`,
    );
    expect(outcomes.no + outcomes.unknown).toBe(32 * kills);
  });

  it.each(['ring', 'socket'] as const)(
    'of the serving side, with a thousand calls and notifications that wait (%s)',
    async (lane) => {
      const helper = await spawnHelper(process.execPath, [programPath('helper.mjs')], { lane });
      expect(helper.session.lane).toBe(lane);
      const { hang } = helper.client(Demo);
      const calls = Array.from({ length: 1_000 }, () => hang());
      const { add, log } = helper.client(Demo);
      await add({ a: 1, b: 1 }); // all of them have begun
      await helper.session.notify('Demo.block'); // it takes nothing more
      const notifications = Array.from({ length: 500 }, () => log('x'.repeat(100_000)));
      const settled = Promise.allSettled([...calls, ...notifications]);
      await new Promise((resolve) => setTimeout(resolve, 50));
      process.kill(helper.pid, 'SIGKILL');
      const outcomes = await settled;
      const rejected = outcomes.filter(({ status }) => status === 'rejected');
      // Every call, and the notifications that had not left.
      expect(outcomes.slice(0, 1_000).every(({ status }) => status === 'rejected')).toBe(true);
      expect(rejected.length).toBeGreaterThan(1_000);
      for (const { reason } of rejected as PromiseRejectedResult[]) {
        expect(reason).toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE', retryable: true });
      }
      await expect(log('x')).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
      await expect(hang()).rejects.toMatchObject({ code: 'ERR_SIDECALL_PEER_GONE' });
      await helper.exited;
    },
  );

  it('of the calling side: its session ends, and its memory is given back', async () => {
    await using listener = await listen();
    let served = 0;
    listener.serve(
      Demo,
      demoHandlers({
        echo: (payload) => {
          served += 1;
          return payload;
        },
      }),
    );
    for (let kill = 0; kill < kills; kill += 1) {
      await using program = startProgram('loader.mjs', [listener.path]);
      expect(await program.next()).toEqual({ lane: 'ring' });
      const goal = served + 100;
      await until(() => served >= goal);
      program.child.kill('SIGKILL');
      await until(() => listener.sessionCount === 0);
    }
    await until(() => native.ringMemoryBytes() === 0);
  });
});
