// A pool of helpers.
import { service, spawnPool, unary } from '../../dist/index.js';

export async function open({ workers, pollBudgetUs, lane }) {
  const helper = new URL('pool-helper.mjs', import.meta.url);
  const pool = await spawnPool(helper, [], {
    size: workers,
    callsPerMember: 2,
    pollBudgetUs,
    lane,
  });
  const { work } = pool.client(service('Work', { work: unary() }));
  return { serverPids: pool.members.map(({ pid }) => pid), work, close: () => pool.stop() };
}
