// SPDX-License-Identifier: MIT
// listenShared(): the helper's side of sharedHelper().
import type { NativeAddon } from '../addon/addon-api.ts';
import { nativeState } from '../addon/load-addon.ts';
import { systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { ignore } from '../base/ignore-errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { checkFunction, checkKeys, nodeError } from '../base/misuse.ts';
import { endWaits, pause } from '../base/pause.ts';
import { sessionOptionNames } from '../open/session-options.ts';
import { checkHandOver, type HandOverOptions } from '../rendezvous/hand-over.ts';
import { type ListenOptions, listen, plainListenNames } from '../rendezvous/listen.ts';
import type { Listener } from '../rendezvous/listener.ts';
import { boundLog } from './bounded-log.ts';
import { endWhenIdle } from './idle-end.ts';
import {
  pathTakenExit,
  type SharedOrder,
  SharedService,
  sharedVariable,
} from './shared-service.ts';
import { logOf, whilePreparing } from './start-shared.ts';
import { compareVersions, isVersion } from './version-order.ts';

/** Options that the programs decide, or the package. */
const decided = [
  'path',
  'protocol',
  'takeOver',
  'identity',
  'unlinkOnClose',
  'idleTimeoutMs',
  'mode',
  'owner',
  'gid',
] as const satisfies readonly (keyof ListenOptions)[];

/** Options of {@link listenShared}: those of `listen()` that its users do not decide. */
export interface ListenSharedOptions extends Omit<ListenOptions, (typeof decided)[number]> {
  /**
   * Called before the first session: to serve, and to load what is needed. An older helper goes on
   * until it resolves. Default: ready at once.
   */
  readonly ready?: ((listener: Listener) => void | Promise<void>) | undefined;
  /** As of `handOver()`: the process that may follow. Default: one of our own effective uid. */
  readonly to?: HandOverOptions['to'];
  /**
   * As of `handOver()`: the reason for which a newer helper is refused; its version is
   * `metadata.version`. Default: none is refused.
   */
  readonly refuse?: HandOverOptions['refuse'];
}

const sharedNames = [...sessionOptionNames, ...plainListenNames, 'ready', 'to', 'refuse'].filter(
  (name) => !(decided as readonly string[]).includes(name),
) as (keyof ListenSharedOptions & string)[];

const exitPauseMs = 30_000;
const lookMs = 5_000;
/** Time for calls that have begun: all of it. */
const lastCalls = { deadlineMs: ranges.closeDeadlineMs.max };

/**
 * Listens for the programs that called `sharedHelper()`, one of which started this process. The
 * process ends when it was idle for long enough, when a newer version has taken over, at SIGTERM
 * and by `npx sidecall stop`: calls finish first, up to ten minutes, and `listener.closed`
 * resolves. A process that is still there 30 s after that is ended.
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
  const { ready = ignore, to, refuse, ...given } = options;
  for (const name of decided) {
    if (!(name in given)) continue;
    const text = `listenShared() takes no ${name}: sharedHelper() decides it`;
    throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
  }
  checkKeys('listenShared()', options, sharedNames);
  checkFunction('ready', ready);
  checkHandOver({ to, refuse });
  const order = takeOrder();
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
      stop: () => void listener.close(lastCalls),
    });
    const { addon } = nativeState();
    try {
      await whilePreparing(addon as NativeAddon, path, async () => ready(listener));
    } catch (error) {
      failure = { error };
      throw error;
    }
  };
  let failure: { readonly error: unknown } | undefined;
  let listener: Listener;
  try {
    listener = await listen({
      ...given,
      path,
      takeOver: { ready: prepare, metadata: { version } },
    });
  } catch (error) {
    const isTaken = SidecallError.is(error) && error.code === 'ERR_SIDECALL_PATH_IN_USE';
    if (isTaken && failure === undefined) process.exit(pathTakenExit); // another helper was faster: it serves our users
    throw error;
  }
  void endWhenIdle(systemClock, listener, order.idleTimeoutMs);
  void lookUntilClosed(listener, logOf(path));
  void handOver(listener, version, { to, refuse });
  process.once('SIGTERM', () => void listener.close(lastCalls));
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

/**
 * Looks at the log now and then, until the listener is closed. Where another helper has the path,
 * whose directory was removed, this one finishes its calls.
 */
async function lookUntilClosed(listener: Listener, logPath: string): Promise<void> {
  const ended = new AbortController();
  void listener.closed.then(() => endWaits(ended));
  while (!ended.signal.aborted) {
    boundLog(logPath);
    if (listener.isPathTaken) void listener.close(lastCalls);
    await pause(systemClock, lookMs, ended.signal, false);
  }
}

/** Gives the path to the next newer version. */
async function handOver(
  listener: Listener,
  own: string,
  { to, refuse }: HandOverOptions,
): Promise<void> {
  await listener
    .handOver({
      to,
      deadlineMs: ranges.closeDeadlineMs.max,
      refuse: (metadata, peer) => {
        const { version } = metadata;
        const isNewer =
          typeof version === 'string' && isVersion(version) && compareVersions(version, own) > 0;
        if (isNewer) return refuse?.(metadata, peer);
        return `version ${own} listens, which is not older than ${version}`;
      },
    })
    .catch(ignore);
}
