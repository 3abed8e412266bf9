// SPDX-License-Identifier: MIT
// sharedHelper(): one helper for all programs of a user, started by the first one that asks.
import type { NativeAddon } from '../addon/addon-api.ts';
import { nativeState } from '../addon/load-addon.ts';
import { systemClock } from '../base/clock.ts';
import { RpcError, SidecallError } from '../base/errors.ts';
import { pause } from '../base/pause.ts';
import { systemRandom } from '../base/random.ts';
import { exitText } from '../helper/helper-errors.ts';
import { addonReason } from '../open/lane.ts';
import { connectionBy, sessionOpener } from '../rendezvous/connect.ts';
import type { Connection } from '../rendezvous/connection.ts';
import { checkReconnect } from '../rendezvous/reconnect-options.ts';
import { Registry } from '../rpc/serving/registry.ts';
import type { Session } from '../rpc/session/session.ts';
import { standingOf } from './process-standing.ts';
import {
  checkShared,
  type SharedHelperOptions,
  type SharedSettings,
  sharedOptionNames,
} from './shared-options.ts';
import {
  checkInfo,
  pathTakenExit,
  type SharedHelperInfo,
  SharedService,
} from './shared-service.ts';
import { isPreparing, type StartedShared, startShared, whileStarter } from './start-shared.ts';
import { compareVersions } from './version-order.ts';

/**
 * Connects to the one helper of this name, and starts it where none runs: exactly one, however many
 * programs ask at the same moment. It lives on when they end, and ends by itself when no program
 * has used it for `idleTimeoutMs`. A newer version takes the place of an older one, which finishes
 * its calls; an older never takes that of a newer. The helper calls `listenShared()`.
 * @throws (as rejection) {SidecallError} `ERR_SIDECALL_HELPER_FAILED` where it does not start, with
 * its exit; `ERR_SIDECALL_PEER_UNRESPONSIVE` where it runs, and neither answers nor works;
 * `ERR_SIDECALL_VERSION_MISMATCH` by `onOlder` and `onNewer`; `ERR_SIDECALL_ADDON_UNAVAILABLE`;
 * what `connect()` rejects with; `TypeError`/`RangeError` for misuse.
 * @example
 * ```ts
 * import { service, sharedHelper, unary } from 'sidecall';
 *
 * const Index = service('Index', { find: unary<string, string[]>() });
 *
 * const program = new URL('indexer.mjs', import.meta.url);
 * await using helper = await sharedHelper({ name: 'indexer', version: '1.2.0', program });
 * console.log(await helper.client(Index).find('word'));
 * ```
 */
export async function sharedHelper(options: SharedHelperOptions): Promise<Connection> {
  const settings = checkShared(options);
  const reconnect = checkReconnect(options.reconnect ?? true);
  const { addon } = nativeState();
  if (addon === undefined) {
    throw new SidecallError(
      'ERR_SIDECALL_ADDON_UNAVAILABLE',
      `sharedHelper() needs the addon: ${addonReason()}`,
    );
  }
  const registry = new Registry();
  const { path } = settings;
  const session = Object.fromEntries(
    Object.entries(options).filter(([name]) => !ownNames.has(name)),
  );
  const finder = new SharedFinder(addon, settings, sessionOpener({ ...session, path }, registry));
  const open = (signal: AbortSignal | undefined, isWanted = true): Promise<Session> =>
    isWanted ? finder.find(signal) : finder.findRunning(signal);
  const { onEvent } = options;
  const parts = { path, onEvent, reconnect, registry, isOnDemand: true };
  return connectionBy(open, parts, options.signal);
}

const ownNames = new Set<string>(sharedOptionNames);

/** Helpers in a row that may end with exit code 0 before there is a session. */
const endsAtOnceMax = 5;
const pauseMs = 10;
const longestPauseMs = 80;
const never = new AbortController().signal;

/** Finds the helper, or starts it, as often as it is asked. */
class SharedFinder {
  readonly #native: NativeAddon;
  readonly #settings: SharedSettings;
  readonly #open: (signal: AbortSignal | undefined) => Promise<Session>;

  constructor(
    native: NativeAddon,
    settings: SharedSettings,
    open: (signal: AbortSignal | undefined) => Promise<Session>,
  ) {
    this.#native = native;
    this.#settings = settings;
    this.#open = open;
  }

  async find(signal: AbortSignal | undefined): Promise<Session> {
    const { startTimeoutMs, path } = this.#settings;
    const until = systemClock.nowMs() + startTimeoutMs;
    let endsAtOnce = endsAtOnceMax;
    let waitMs = pauseMs;
    for (;;) {
      signal?.throwIfAborted();
      const start = (): Promise<Session | undefined> => {
        endsAtOnce -= 1;
        return this.#start(until, endsAtOnce, signal);
      };
      const session =
        (await this.#connect(signal)) ?? (await whileStarter(this.#native, path, start));
      if (session !== undefined) return session;
      if (systemClock.nowMs() >= until) throw this.#late();
      // Another program starts it at this moment: those that wait leave it the processor.
      await pause(systemClock, waitMs * (1 + systemRandom()), signal ?? never);
      waitMs = Math.min(2 * waitMs, longestPauseMs);
    }
  }

  /**
   * A session with the helper that runs; none is started.
   * @throws {SidecallError} `ERR_SIDECALL_NO_LISTENER` where there is none.
   */
  async findRunning(signal: AbortSignal | undefined): Promise<Session> {
    const session = await this.#connect(signal);
    if (session !== undefined) return session;
    const text = `shared helper ${this.#settings.name} was ended; the next call starts it again`;
    throw new SidecallError('ERR_SIDECALL_NO_LISTENER', text);
  }

  /** A session with the helper that runs, of a version that is wanted; undefined: there is none. */
  async #connect(signal: AbortSignal | undefined): Promise<Session | undefined> {
    let session: Session;
    try {
      session = await this.#open(signal);
    } catch (error) {
      return this.#whyNone(error);
    }
    try {
      const { version, pid } = await this.#infoOf(session);
      const order = compareVersions(version, this.#settings.version);
      if (order === 0 || this.#isUsed(order, version, pid)) return session;
    } catch (error) {
      await session.close({ deadlineMs: 0 });
      return this.#whyNone(error);
    }
    await session.close({ deadlineMs: 0 });
    return undefined;
  }

  /** Called while no other program starts one. undefined: there is none yet. */
  async #start(
    until: number,
    endsAtOnce: number,
    signal: AbortSignal | undefined,
  ): Promise<Session | undefined> {
    const running = await this.#connect(signal);
    if (running !== undefined) return running;
    const started = startShared(this.#settings);
    while (systemClock.nowMs() < until) {
      signal?.throwIfAborted();
      await pause(systemClock, pauseMs, signal ?? never);
      const session = await this.#connect(signal);
      if (session !== undefined) return session;
      const { exit } = started;
      if (exit === undefined) continue;
      const code = exit instanceof Error ? null : exit.code;
      // Another helper was faster; or this one has served others, and has ended before our turn.
      if (code === pathTakenExit || (code === 0 && endsAtOnce > 0)) return undefined;
      throw this.#failed(started);
    }
    return undefined;
  }

  /** True: a helper of another version is used. @throws {SidecallError} where that is a failure. */
  #isUsed(order: number, version: string, pid: number): boolean {
    const { onOlder, onNewer, name, version: own } = this.#settings;
    const rule = order < 0 ? onOlder : onNewer;
    if (rule !== 'fail') return rule === 'use';
    const text = `shared helper ${name} (pid ${pid}) has version ${version}, wanted is ${own}`;
    throw new SidecallError('ERR_SIDECALL_VERSION_MISMATCH', text);
  }

  async #infoOf(session: Session): Promise<SharedHelperInfo> {
    const { path } = this.#settings;
    try {
      return checkInfo(await session.client(SharedService).info(undefined, { timeoutMs: 5_000 }));
    } catch (error) {
      if (!RpcError.is(error)) throw error;
    }
    const text = `${path} belongs to a program that is no shared helper`;
    throw new SidecallError('ERR_SIDECALL_PATH_IN_USE', text);
  }

  /** undefined: there is no helper, or it ends at this moment. @throws for everything else. */
  async #whyNone(error: unknown): Promise<undefined> {
    if (isPassing(error)) return undefined;
    if (!SidecallError.is(error) || !silent.has(error.code)) throw error;
    // One that loads what it needs is waited for, as long as startTimeoutMs says.
    if (await isPreparing(this.#native, this.#settings.path)) return undefined;
    const { name, key, path } = this.#settings;
    const standing = await standingOf(this.#native, path);
    if (standing.state === 'busy') return undefined; // wait on, as long as startTimeoutMs says
    const named = key === undefined ? name : `${name} --key '${key}'`;
    const text = `shared helper ${name} (pid ${standing.pid}) does not answer: it ${standing.words}; sidecall stop ${named} --force ends it`;
    throw new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text, { cause: error });
  }

  #failed({ exit, pid, command, tail }: StartedShared): SidecallError {
    const { name } = this.#settings;
    const why = exit instanceof Error ? exit.message : exit && exitText(pid, exit);
    const printed = tail();
    const said = printed === '' ? '' : `; its standard error ends with:\n${printed}`;
    const text = `shared helper ${name}: ${command}: ${why} before it listened${said}`;
    return new SidecallError('ERR_SIDECALL_HELPER_FAILED', text, { cause: exit });
  }

  #late(): SidecallError {
    const { name, startTimeoutMs } = this.#settings;
    const text = `shared helper ${name} did not listen within ${startTimeoutMs} ms (startTimeoutMs)`;
    return new SidecallError('ERR_SIDECALL_HELPER_FAILED', text);
  }
}

/** The helper is not there yet, or is about to end: another try may find one. */
function isPassing(error: unknown): boolean {
  if (!SidecallError.is(error) || RpcError.is(error)) return false;
  return passing.has(error.code);
}

const silent = new Set(['ERR_SIDECALL_HELLO_TIMEOUT', 'ERR_SIDECALL_DEADLINE_EXCEEDED']);

const passing = new Set([
  'ERR_SIDECALL_NO_LISTENER',
  'ERR_SIDECALL_PEER_GONE',
  'ERR_SIDECALL_GOING_AWAY',
  'ERR_SIDECALL_CLOSED',
]);
