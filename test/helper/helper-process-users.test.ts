// Helpers that run as another user or group.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { until } from '../support/contract.ts';
import { isRunning, isZombie } from '../support/helper.ts';
import { peerProgram, programPath, startProgram } from '../support/programs.ts';

it('a helper with another user or group says which groups it has', async () => {
  const before = process.getgroups?.() ?? [];
  process.setgroups?.([61_300]); // which the helper does not get
  try {
    for (const ids of [{ gid: 61_234 }, { uid: 61_234 }, { uid: 61_234, gid: 61_234 }]) {
      const helper = await spawnHelper(peerProgram, ['helper'], ids);
      const status = readFileSync(`/proc/${helper.pid}/status`, 'latin1');
      const groups = /^Groups:(.*)$/m.exec(status)?.[1]?.trim().split(/\s+/).filter(Boolean);
      expect(helper.peer.groups).toEqual(groups?.map(Number));
      await helper.stop();
    }
  } finally {
    process.setgroups?.(before);
  }
});

it('a helper that changes its user afterwards is not killed with its parent, and one that did so before is', async () => {
  for (const [when, dies] of [
    ['before', true],
    ['after', false],
  ] as const) {
    const args = ['block', programPath('dropped-helper.mjs'), '61234', '{}', when];
    await using spawner = startProgram('spawner.mjs', args);
    const { pid } = (await spawner.next()) as { pid: number };
    await spawner.next();
    await sleep(100); // it is in its endless loop
    spawner.child.kill('SIGKILL');
    await spawner.exited;
    if (dies) await until(() => !isRunning(pid) || isZombie(pid));
    else {
      await sleep(200);
      expect(isRunning(pid) && !isZombie(pid)).toBe(true); // as docs/guide/helpers.md says
      process.kill(pid, 'SIGKILL');
    }
  }
});
