// SPDX-License-Identifier: MIT
// Finds a shared helper, or starts it, once among all programs that look for it at the same time.
import { isError } from '../base/brands.ts';
import type { Clock } from '../base/clock.ts';
import { RpcError, SidecallError } from '../base/errors.ts';
import { ignore } from '../base/ignore-errors.ts';
import { pause } from '../base/pause.ts';
import type { Standing } from '../base/process-standing.ts';
import type { Random } from '../base/random.ts';
import { exitText } from '../helper/helper-errors.ts';
import type { Session } from '../rpc/session/session.ts';
import type { SharedSettings } from './shared-options.ts';
import {
  checkInfo,
  pathTakenExit,
  type SharedHelperInfo,
  SharedService,
} from './shared-service.ts';
import type { StartedShared } from './start-shared.ts';
import { compareVersions } from './version-order.ts';

/** The system around a program that looks for a shared helper. */
export interface SharedSystem {
  readonly clock: Clock;
  readonly random: Random;
  /** A session with the process that listens at the path of the helper. @throws as `connect()`. */
  open(signal: AbortSignal | undefined): Promise<Session>;
  /** The same where the helper has as many sessions as it takes: one to replace it. */
  openToReplace(signal: AbortSignal | undefined): Promise<Session>;
  /**
   * Runs `work` while no other program starts a helper. undefined: another one does, and nothing
   * was run.
   */
  whileStarter<T>(work: () => Promise<T>): Promise<T | undefined>;
  /** The process that starts a helper at this moment; undefined: none does, or it is not known. */
  starterPid(): number | undefined;
  /** True: a helper loads what it needs. */
  isPreparing(): Promise<boolean>;
  /** Starts a helper. */
  start(): StartedShared;
  /** The doings of the process that listens and does not answer. */
  standing(): Promise<Standing>;
}

/** The settings of a shared helper that the search for it needs. */
export type FinderSettings = Pick<
  SharedSettings,
  'path' | 'name' | 'key' | 'version' | 'startTimeoutMs' | 'onOlder' | 'onNewer'
>;

/** Helpers in a row that may end with exit code 0 before there is a session. */
const endsAtOnceMax = 5;
const pauseMs = 10;
const longestPauseMs = 80;
const never = new AbortController().signal;

/** Finds the helper, or starts it, as often as it is asked. */
export class SharedFinder {
  readonly #settings: FinderSettings;
  readonly #system: SharedSystem;

  constructor(settings: FinderSettings, system: SharedSystem) {
    this.#settings = settings;
    this.#system = system;
  }

  async find(signal: AbortSignal | undefined): Promise<Session> {
    const { startTimeoutMs } = this.#settings;
    const { clock, random } = this.#system;
    const until = clock.nowMs() + startTimeoutMs;
    let endsAtOnce = endsAtOnceMax;
    let waitMs = pauseMs;
    for (;;) {
      signal?.throwIfAborted();
      const start = (): Promise<Session | undefined> => {
        endsAtOnce -= 1;
        return this.#start(until, endsAtOnce, signal);
      };
      const session = (await this.#connect(signal)) ?? (await this.#system.whileStarter(start));
      if (session !== undefined) return session;
      if (clock.nowMs() >= until) throw this.#late();
      // Another program starts it at this moment: those that wait leave it the processor.
      await pause(clock, waitMs * (1 + random()), signal ?? never);
      waitMs = Math.min(2 * waitMs, longestPauseMs);
    }
  }

  /**
   * A session with the helper that runs; none is started.
   * @throws {SidecallError} `ERR_SIDECALL_NO_LISTENER` where there is none.
   */
  async findRunning(signal: AbortSignal | undefined): Promise<Session> {
    let miss: unknown;
    const session = await this.#connect(signal, (error) => {
      miss = error;
    });
    if (session !== undefined) return session;
    if (SidecallError.is(miss) && miss.code !== 'ERR_SIDECALL_NO_LISTENER') throw miss;
    const text = `shared helper ${this.#settings.name} was ended; the next call starts it again`;
    throw new SidecallError('ERR_SIDECALL_NO_LISTENER', text);
  }

  /**
   * A session with the helper that runs, of a version that is wanted; undefined: there is none.
   * `onMiss` gets the error of a connection for which there may be one at the next try.
   * `isStarting`: a helper that is full is being replaced.
   */
  async #connect(
    signal: AbortSignal | undefined,
    onMiss: (error: unknown) => void = ignore,
    isStarting = false,
  ): Promise<Session | undefined> {
    let session: Session;
    try {
      session = await this.#system.open(signal);
    } catch (error) {
      onMiss(error);
      if (isFull(error) && (isStarting || (await this.#isReplaceable(signal)))) return undefined;
      return this.#whyNone(error);
    }
    try {
      const { version, pid } = await this.#infoOf(session);
      const order = compareVersions(version, this.#settings.version);
      if (order === 0 || this.#isUsed(order, version, pid)) return session;
    } catch (error) {
      onMiss(error);
      await session.close({ deadlineMs: 0 });
      return this.#whyNone(error);
    }
    await session.close({ deadlineMs: 0 });
    return undefined;
  }

  /** True: the helper takes no further session, and is older than a helper of ours, or ends. */
  async #isReplaceable(signal: AbortSignal | undefined): Promise<boolean> {
    let session: Session | undefined;
    try {
      session = await this.#system.openToReplace(signal);
      const { version, pid } = await this.#infoOf(session);
      const order = compareVersions(version, this.#settings.version);
      return order !== 0 && !this.#isUsed(order, version, pid);
    } catch (error) {
      // Another process replaces it at this moment.
      if (isFull(error) || isPassing(error)) return true;
      throw error;
    } finally {
      await session?.close({ deadlineMs: 0 });
    }
  }

  /** Called while no other program starts one. undefined: there is none yet. */
  async #start(
    until: number,
    endsAtOnce: number,
    signal: AbortSignal | undefined,
  ): Promise<Session | undefined> {
    const running = await this.#connect(signal);
    if (running !== undefined) return running;
    const { clock } = this.#system;
    const started = this.#system.start();
    let miss: unknown;
    while (clock.nowMs() < until) {
      signal?.throwIfAborted();
      await pause(clock, pauseMs, signal ?? never);
      const note = (error: unknown): void => {
        miss = error;
      };
      const session = await this.#connect(signal, note, true);
      if (session !== undefined) return session;
      const { exit } = started;
      if (exit === undefined) continue;
      const code = isError(exit) ? null : exit.code;
      // Another helper was faster; or this one has served others, and has ended before our turn.
      if (code === pathTakenExit || (code === 0 && endsAtOnce > 0)) return undefined;
      throw this.#failed(started);
    }
    // A process that has not come to its path is not found by the next program, which starts one.
    const isUnbound = SidecallError.is(miss) && miss.code === 'ERR_SIDECALL_NO_LISTENER';
    if (started.exit !== undefined || !isUnbound) return undefined;
    started.kill();
    throw this.#failed(started);
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
    // A helper that loads what it needs is waited for, as long as startTimeoutMs says.
    if (await this.#system.isPreparing()) return undefined;
    const { name, key } = this.#settings;
    const standing = await this.#system.standing();
    // Wait on, as long as startTimeoutMs says.
    if (standing.state === 'busy' || standing.state === 'unknown') return undefined;
    const named = key === undefined ? name : `${name} --key '${key}'`;
    const text = `shared helper ${name} (pid ${standing.pid}) does not answer: it ${standing.words}; sidecall stop ${named} --force ends it`;
    throw new SidecallError('ERR_SIDECALL_PEER_UNRESPONSIVE', text, { cause: error });
  }

  #failed({ exit, pid, command, tail }: StartedShared): SidecallError {
    const { name, startTimeoutMs } = this.#settings;
    const late = `process ${pid} took more than ${startTimeoutMs} ms (startTimeoutMs) and was ended`;
    const why = isError(exit) ? exit.message : exit === undefined ? late : exitText(pid, exit);
    const printed = tail();
    const said = printed === '' ? '' : `; its standard error ends with:\n${printed}`;
    const text = `shared helper ${name}: ${command}: ${why} before it listened${said}`;
    return new SidecallError('ERR_SIDECALL_HELPER_FAILED', text, { cause: exit });
  }

  #late(): SidecallError {
    const { name, path, startTimeoutMs } = this.#settings;
    const pid = this.#system.starterPid();
    const why =
      pid === undefined
        ? 'it is busy, or still loads; try again, or raise startTimeoutMs'
        : `process ${pid} starts it, and holds ${path}.start meanwhile; where that process hangs, end it`;
    const text = `shared helper ${name} gave no session within ${startTimeoutMs} ms (startTimeoutMs): ${why}`;
    return new SidecallError('ERR_SIDECALL_HELPER_FAILED', text);
  }
}

function isFull(error: unknown): boolean {
  return SidecallError.is(error) && error.code === 'ERR_SIDECALL_LIMIT_CONNECTIONS';
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
