// A peer that has sent goaway has eleven minutes to close, one more than the longest deadline of
// close(). These tests set a second.

import { expect, it, vi } from 'vitest';
import { tuning } from '../../src/base/limits/internal-limits.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { until } from '../support/contract.ts';
import { programPath } from '../support/programs.ts';

vi.mock('../../src/base/limits/internal-limits.ts', async (original) => {
  const { tuning: usual } =
    await original<typeof import('../../src/base/limits/internal-limits.ts')>();
  return { tuning: { ...usual, leavingMaxMs: 1_000 } };
});

const Leaving = service('Leaving', {
  hang: unary<void, void>(),
  leave: unary<void, void>(),
  pid: unary<void, number>(),
});

it('F3 a helper that says goaway and never closes is ended, and calls go to its next process', async () => {
  expect(tuning.leavingMaxMs).toBe(1_000);
  const helper = await spawnHelper(process.execPath, [programPath('leaving.mjs')], {
    restart: true,
  });
  const leaving = helper.client(Leaving);
  const first = helper.pid;
  const hanging = leaving.hang().catch((error: unknown) => error);
  await leaving.leave();
  await until(() => helper.session.state === 'draining');
  const next = leaving.pid();
  expect(await hanging).toMatchObject({
    code: 'ERR_SIDECALL_PEER_UNRESPONSIVE',
    message: 'Leaving.hang: the peer said goaway and did not close within 1000 ms',
    delivered: 'unknown',
  });
  expect(await next).not.toBe(first);
  await helper.stop();
});
