// SPDX-License-Identifier: MIT
// connectPool(): several sessions with the listener at a path, and one client over them.
import { pathAlone } from '../base/misuse.ts';
import { checkMonitor, startMonitor } from '../open/monitor.ts';
import { connect, type ReconnectingOptions } from '../rendezvous/connect.ts';
import type { Connection } from '../rendezvous/connection.ts';
import { checkReconnect, type ReconnectOptions } from '../rendezvous/reconnect-options.ts';
import { Pool } from './pool.ts';
import { checkPool, type PoolOptions } from './pool-options.ts';
import { allOrNone } from './start-members.ts';

/** Options of {@link connectPool}: those of `connect()`, for each session. */
export interface ConnectPoolOptions extends Omit<ReconnectingOptions, 'reconnect'>, PoolOptions {
  /** As of `connect()`; each member connects again by itself. Default: `true`. */
  readonly reconnect?: true | ReconnectOptions | undefined;
}

/** Connections that are opened at the same time. */
const connectsAtOnce = 16;

/**
 * Opens several sessions with a listener, and calls whichever has the least to do. One session has
 * room for thousands of calls at once: several are for more shared memory, and so that one long
 * stream or the loss of one session does not concern all calls.
 * Where one session cannot be opened, the others are closed.
 * @throws (as rejection) what `connect()` rejects with.
 * @example
 * ```ts
 * import { connectPool, service, unary } from 'sidecall';
 *
 * const Clock = service('Clock', { now: unary<void, number>() });
 *
 * await using pool = await connectPool({ path: '/run/user/1000/clock/socket', size: 4 });
 * console.log(await pool.client(Clock).now());
 * ```
 */
export async function connectPool(options: ConnectPoolOptions): Promise<Pool<Connection>> {
  if (typeof options === 'string') throw pathAlone('connectPool', options);
  const settings = checkPool(options);
  const { size: _size, callsPerMember: _calls, monitor, ...given } = options;
  const reconnect = options.reconnect ?? true;
  checkReconnect(reconnect);
  const reports = checkMonitor(monitor);
  const each: ReconnectingOptions = { ...given, reconnect };
  const members = await allOrNone(
    settings.size,
    connectsAtOnce,
    (signal) => connect({ ...each, signal }),
    (connection) => connection.close({ deadlineMs: 0 }),
    options.signal,
  );
  const pool = new Pool({
    members,
    settings,
    endOf: ({ state }) => (state.state === 'gave-up' ? state.error : undefined),
    stop: (connection, deadlineMs) => connection.close({ deadlineMs }),
  });
  startMonitor(reports, () => pool.stats().total, pool.ended);
  return pool;
}
