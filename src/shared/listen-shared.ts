// SPDX-License-Identifier: MIT
// listenShared(): the helper's side of sharedHelper().
import { systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { ignore } from '../base/ignore-errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { pause } from '../base/pause.ts';
import { type ListenOptions, listen } from '../rendezvous/listen.ts';
import type { Listener } from '../rendezvous/listener.ts';
import {
  pathTakenExit,
  type SharedOrder,
  SharedService,
  sharedVariable,
} from './shared-service.ts';
import { compareVersions, isVersion } from './version-order.ts';

/** Options of {@link listenShared}: those of `listen()` that its users do not decide. */
export interface ListenSharedOptions
  extends Omit<
    ListenOptions,
    | 'path'
    | 'protocol'
    | 'takeOver'
    | 'identity'
    | 'unlinkOnClose'
    | 'idleTimeoutMs'
    | 'mode'
    | 'gid'
  > {
  /**
   * Called before the first session: to serve, and to load what is needed. An older helper goes on
   * until it resolves. Default: ready at once.
   */
  readonly ready?: ((listener: Listener) => void | Promise<void>) | undefined;
}

const never = new AbortController().signal;
const exitPauseMs = 2_000;
/** Time for the first session to come. */
const firstUseMs = 10_000;
const leastLookMs = 25;
const mostLookMs = 1_000;

/**
 * Listens for the programs that called `sharedHelper()`, one of which started this process. The
 * process ends when it was idle for long enough, when a newer version has taken over, at SIGTERM
 * and by `npx sidecall stop`: calls finish first, and `listener.closed` resolves.
 * @throws (as rejection) {SidecallError} `ERR_SIDECALL_HELPER_FAILED` where it was not started by
 * `sharedHelper()`; what `listen()` rejects with; the error of `ready`.
 * @example
 * ```ts
 * import { listenShared, service, unary } from 'sidecall';
 *
 * const Index = service('Index', { find: unary<string, string[]>() });
 *
 * await listenShared({
 *   ready: (listener) => listener.serve(Index, { find: (word) => [word] }),
 * });
 * ```
 */
export async function listenShared(options: ListenSharedOptions = {}): Promise<Listener> {
  const order = takeOrder();
  const { ready = ignore, ...given } = options;
  const { path, version } = order;
  const since = systemClock.nowMs();
  const prepare = async (listener: Listener): Promise<void> => {
    listener.serveOwn(SharedService, {
      info: () => {
        const { name, key, idleTimeoutMs } = order;
        const clients = listener.sessionCount;
        const uptimeMs = Math.round(systemClock.nowMs() - since);
        return { name, key, version, pid: process.pid, uptimeMs, clients, idleTimeoutMs };
      },
      stop: () => void listener.close(),
    });
    await ready(listener);
  };
  let listener: Listener;
  try {
    listener = await listen({
      ...given,
      path,
      takeOver: { ready: prepare, metadata: { version } },
    });
  } catch (error) {
    const isTaken = SidecallError.is(error) && error.code === 'ERR_SIDECALL_PATH_IN_USE';
    if (isTaken) process.exit(pathTakenExit); // another helper was faster: it serves our users
    throw error;
  }
  void endWhenIdle(listener, order.idleTimeoutMs);
  void handOver(listener, version);
  process.once('SIGTERM', () => void listener.close());
  void listener.closed.then(() => {
    // A helper that no program can reach ends, whatever its program keeps open.
    systemClock.setTimeout(() => process.exit(), exitPauseMs).unref();
  });
  return listener;
}

/** @throws {SidecallError} `ERR_SIDECALL_HELPER_FAILED` where there is none. */
function takeOrder(): SharedOrder {
  const text = process.env[sharedVariable];
  delete process.env[sharedVariable];
  if (text !== undefined) return JSON.parse(text);
  throw new SidecallError(
    'ERR_SIDECALL_HELPER_FAILED',
    `listenShared(): this process was not started by sharedHelper() (${sharedVariable} is missing)`,
    { retryable: false },
  );
}

/** Looks now and then, which a timer for each session would cost more than. */
async function endWhenIdle(listener: Listener, idleTimeoutMs: number): Promise<void> {
  const lookMs = Math.min(mostLookMs, Math.max(leastLookMs, idleTimeoutMs / 4));
  let isClosed = false;
  void listener.closed.then(() => {
    isClosed = true;
  });
  let usedAt = systemClock.nowMs();
  let ever = listener.sessionsEver;
  while (!isClosed) {
    await pause(systemClock, lookMs, never, false);
    const isUsed = listener.sessionCount > 0 || listener.sessionsEver !== ever;
    ever = listener.sessionsEver;
    if (isUsed) usedAt = systemClock.nowMs();
    // The program that has started it may be slow to come.
    const mostMs = ever === 0 ? Math.max(idleTimeoutMs, firstUseMs) : idleTimeoutMs;
    if (systemClock.nowMs() - usedAt >= mostMs) await listener.close();
  }
}

/** Gives the path to the next newer version. */
async function handOver(listener: Listener, own: string): Promise<void> {
  await listener
    .handOver({
      deadlineMs: ranges.closeDeadlineMs.max,
      refuse: ({ version }) => {
        const isNewer =
          typeof version === 'string' && isVersion(version) && compareVersions(version, own) > 0;
        return isNewer ? undefined : `version ${own} listens, which is not older than ${version}`;
      },
    })
    .catch(ignore);
}
