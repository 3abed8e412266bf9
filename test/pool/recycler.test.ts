// Fresh processes that take the place of helpers that are held up.
import { describe, expect, it } from 'vitest';
import { spawnPool } from '../../src/pool/spawn-pool.ts';
import { until } from '../support/contract.ts';
import { programPath } from '../support/programs.ts';
import { Work } from '../support/work.ts';

describe('fresh processes', () => {
  it('take the place of a helper whose handler goes on and on after its call was aborted', async () => {
    const options = { size: 1, callsPerMember: 1, stalledAfterMs: 100 };
    await using pool = await spawnPool(process.execPath, [programPath('worker.mjs')], options);
    const work = pool.client(Work);
    const { pid } = await work.take({ id: 1 });
    const stop = new AbortController();
    const hung = work.hang(undefined, { signal: stop.signal });
    await until(() => pool.stats().members[0]?.underWay === 1);
    stop.abort(new Error('enough'));
    await expect(hung).rejects.toThrow('enough');
    expect((await work.take({ id: 2 })).pid).not.toBe(pid);
    process.kill(pid, 'SIGKILL'); // it would go on
  });
});
