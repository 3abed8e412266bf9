// SPDX-License-Identifier: MIT
// spawnPool(): helpers of one program, and one client over them.
import { availableParallelism } from 'node:os';
import { followEvents } from '../base/events.ts';
import { pollVariable } from '../helper/helper-variables.ts';
import type { Helper } from '../helper/spawn-helper.ts';
import { spawnHelper } from '../helper/spawn-helper.ts';
import type { SpawnOptions } from '../helper/spawn-options.ts';
import { configuredPollBudgetUs } from '../open/configure.ts';
import { checkMonitor, startMonitor } from '../open/monitor.ts';
import { Pool } from './pool.ts';
import { checkPool, checkRecycle, type PoolOptions, type RecycleOptions } from './pool-options.ts';
import { Recycler } from './recycler.ts';
import { allOrNone } from './start-members.ts';

/** Options of {@link spawnPool}: those of `spawnHelper()`, for each process. */
export interface SpawnPoolOptions extends Omit<SpawnOptions, 'restart'>, PoolOptions {
  /**
   * Start a helper again when it dies, as of `spawnHelper()`. Default: `true`. A helper that is
   * given up as a crash loop leaves the pool; the pool ends with its last helper.
   */
  readonly restart?: SpawnOptions['restart'];
  /** Follow a helper by a fresh process now and then. Default: never. */
  readonly recycle?: RecycleOptions | undefined;
}

/**
 * Starts several helpers of one program, at the same time, and calls whichever has the least to do.
 * Where one does not start, the others are stopped.
 * @param program as of `spawnHelper()`.
 * @param args as of `spawnHelper()`; each helper gets the same.
 * @throws (as rejection) what `spawnHelper()` rejects with.
 * @example
 * ```ts
 * import { service, spawnPool, unary } from 'sidecall';
 *
 * const Hasher = service('Hasher', { hash: unary<string, string>() });
 *
 * const file = new URL('hasher.mjs', import.meta.url);
 * await using pool = await spawnPool(file, [], { size: 4, callsPerMember: 2 });
 * console.log(await pool.client(Hasher).hash('text'));
 * ```
 */
export async function spawnPool(
  program: string | URL,
  args: readonly string[] = [],
  options: SpawnPoolOptions = {},
): Promise<Pool<Helper>> {
  const settings = checkPool(options);
  const recycle = checkRecycle(options.recycle);
  const { size: _size, callsPerMember: _calls, recycle: _recycle, monitor, ...given } = options;
  const reports = checkMonitor(monitor);
  const restart = options.restart ?? true;
  const each: SpawnOptions = { ...given, restart, ...polling(options, settings.size) };
  const members = await allOrNone(
    settings.size,
    2 * availableParallelism(),
    (signal) => spawnHelper(program, args, { ...each, signal }),
    (helper) => helper.stop({ deadlineMs: 0, killGraceMs: 0 }),
    options.signal,
  );
  const recycler = new Recycler(members, recycle ?? {}, options.onEvent);
  // A handler that continues after its call was aborted holds up its helper.
  const forget = followEvents((event) => {
    if (event.type === 'stalled' && event.reason === 'given-up') recycler.onStalled(event.peer);
  });
  const pool = new Pool({
    members,
    settings,
    endOf: ({ state }) => (state.state === 'ended' ? state.error : undefined),
    stop: (helper, deadlineMs) => helper.stop({ deadlineMs }),
    onBegun: recycle && ((member, begun) => recycler.onBegun(member, begun)),
    recycled: (member) => recycler.recycled(member),
    onStop: () => {
      forget();
      recycler.stop();
    },
  });
  startMonitor(reports, () => pool.stats().total, pool.ended);
  return pool;
}

/**
 * With more processes than processors none looks for more before it sleeps, on either side: the
 * time would be another one's. What the user has set counts before.
 */
function polling(
  { pollBudgetUs, env = process.env }: SpawnPoolOptions,
  size: number,
): SpawnOptions {
  const isSet = (pollBudgetUs ?? configuredPollBudgetUs()) !== undefined;
  if (isSet || size < availableParallelism()) return {};
  return { pollBudgetUs: 0, env: { ...env, [pollVariable]: '0' } };
}
