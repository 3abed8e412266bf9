// SPDX-License-Identifier: MIT
// One helper process from spawn to open session, and its end.

import type { ChildProcess, StdioOptions } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import type { NativeAddon } from '../addon/addon-api.ts';
import { nativeState } from '../addon/load-addon.ts';
import { onAbortOf } from '../base/abort-listeners.ts';
import { systemClock } from '../base/clock.ts';
import { SidecallError } from '../base/errors.ts';
import { ignore } from '../base/ignore-errors.ts';
import { pause } from '../base/pause.ts';
import type { Peer } from '../base/peer.ts';
import { standingOfProcess } from '../base/process-standing.ts';
import { establishOverDescriptor, establishOverStream } from '../open/open-session.ts';
import type { SessionSettings } from '../open/session-options.ts';
import { withDeadline } from '../open/time-limit.ts';
import type { ClosedCalls } from '../rpc/session/closed-calls.ts';
import type { Session } from '../rpc/session/session.ts';
import { spawnBound } from './bound-child.ts';
import { chainLength } from './helper-chain.ts';
import {
  EarlyExit,
  exitText,
  type HelperExit,
  isElectronItself,
  type StartedCommand,
  startError,
  tailOf,
  tellWhenSilent,
} from './helper-errors.ts';
import { chainVariable, fdVariable, parentVariable, recorderVariable } from './helper-variables.ts';
import { waitsForDebugger } from './node-command.ts';
import {
  type HelperRecording,
  RecorderMemory,
  type RecorderMode,
  recorderFd,
} from './recorder-memory.ts';

/** Number of the inherited descriptor in the helper. */
const helperFd = 3;
/** Checked options of `spawnHelper()` that concern one process. */
export interface StartSettings extends StartedCommand {
  readonly uid: number | undefined;
  readonly gid: number | undefined;
  readonly stdout: 'inherit' | 'pipe' | 'ignore';
  readonly stderr: 'inherit' | 'pipe' | 'ignore';
  readonly startTimeoutMs: number;
  readonly ownProcessGroup: boolean;
  readonly recorder: RecorderMode;
  readonly session: SessionSettings;
}

/** Checked limits of the end of a process. */
export interface StopLimits {
  /** Milliseconds for calls under way. */
  readonly deadlineMs: number;
  /** Milliseconds of the wait for its own end, at most, and from SIGTERM to SIGKILL. */
  readonly killGraceMs: number;
}

const asNodeVariable = 'ELECTRON_RUN_AS_NODE';

const accepting = { side: 'accepting' } as const;
/** The longest time that a timer takes: no limit. */
const noLimitMs = 2_147_483_647;
const exitPauseMs = 500;
/**
 * How long calls wait for the exit of a process whose socket has ended: it follows within a few
 * milliseconds, unless the helper has closed the socket alone.
 */
const exitKnownMs = 500;
const reapPauseMs = 2_000;
/** How long {@link standingOfProcess} looks: one that waits for so long stays. */
const ownEndMs = 500;

/** A helper that runs, with its open session. */
export class HelperProcess {
  readonly #child: ChildProcess;
  readonly session: Session;
  /** Resolves when the process has ended. */
  readonly exited: Promise<HelperExit>;
  exit: HelperExit | undefined;
  /** The handlers that ran, in words, where it ended without `stop()`; undefined: unknown. */
  lastWords: string | undefined;
  readonly #recorder: RecorderMemory | undefined;

  private constructor({ child, session, exited, recorder }: HelperParts) {
    this.#child = child;
    this.session = session;
    this.exited = exited;
    this.#recorder = recorder;
    void exited.then((exit) => this.#onExit(exit));
    void session.closed.then(() => this.#reap());
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  get stdout(): Readable | null {
    return this.#child.stdout;
  }

  get stderr(): Readable | null {
    return this.#child.stderr;
  }

  /**
   * Spawns and says hello. @throws {SidecallError} `ERR_SIDECALL_HELPER_FAILED` with what went
   * wrong; nothing is left.
   */
  static async start(settings: StartSettings, signal?: AbortSignal): Promise<HelperProcess> {
    const { addon } = nativeState();
    const pair = addon === undefined ? undefined : makePair(addon);
    const isRecorded = addon !== undefined && settings.recorder !== 'off';
    const recorder = isRecorded ? RecorderMemory.create(addon) : undefined;
    let child: ChildProcess;
    try {
      child = spawnChild(settings, pair?.far ?? 'pipe', recorder);
    } catch (cause) {
      if (pair !== undefined) addon?.closeDescriptor(pair.near);
      recorder?.end('');
      throw startError(settings, cause);
    } finally {
      if (pair !== undefined) addon?.closeDescriptor(pair.far); // the child has its own
    }
    const early = new AbortController();
    const exited = watchExit(child, early);
    const forget = onAbortOf(signal, (reason) => early.abort(reason));
    // Node would throw away what nobody reads at the exit of the child.
    child.stderr?.on('readable', ignore);
    const silent = tellWhenSilent(settings, child.pid, settings.session.onEvent);
    try {
      const isHeld = waitsForDebugger(settings.args, settings.env);
      const limitMs = isHeld ? noLimitMs : settings.startTimeoutMs;
      const session = await withDeadline('its hello', limitMs, early.signal, (until) =>
        finishHello(addon, pair?.near, child, settings, until),
      );
      return new HelperProcess({ child, session, exited, recorder });
    } catch (cause) {
      recorder?.end('');
      // The end of its socket is seen before the end of its process: give the exit code its chance.
      if (isGone(cause)) await pause(systemClock, exitPauseMs, early.signal);
      // Before its 'error', Node's kill() of a child that was not started ends our process group.
      if (child.pid === undefined) await exited;
      else child.kill('SIGKILL');
      const reason = early.signal.aborted ? early.signal.reason : cause;
      if (signal?.aborted) throw signal.reason;
      throw startError(settings, reason, await tailOf(child.stderr));
    } finally {
      silent.stop();
      child.stderr?.off('readable', ignore);
      forget();
    }
  }

  /** Its last frames, and the handlers that run or ran; undefined: it is not recorded. */
  get recording(): HelperRecording | undefined {
    return this.#recorder?.read();
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /**
   * Ends it: its session drains; where it does not end by itself then, SIGTERM, then SIGKILL.
   * Resolves when it is gone. A second call counts where its deadline is sooner. `isFollowed`:
   * another process has its place.
   */
  async stop({ deadlineMs, killGraceMs }: StopLimits, isFollowed = false): Promise<ClosedCalls> {
    const calls = await this.session.closeCounted(deadlineMs, isFollowed);
    const gone = new AbortController();
    void this.exited.then(() => gone.abort());
    if (calls.forced === 0 && killGraceMs >= ownEndMs) {
      const begun = systemClock.nowMs();
      const isLate = (): boolean => systemClock.nowMs() - begun >= killGraceMs;
      // On a busy machine it takes longer to end, and works meanwhile.
      while ((await standingOfProcess(this.pid, gone.signal)).state === 'busy' && !isLate());
    }
    if (this.exit !== undefined) return calls;
    this.kill('SIGTERM');
    await pause(systemClock, killGraceMs, gone.signal);
    if (!gone.signal.aborted) this.kill('SIGKILL');
    await this.exited;
    return calls;
  }

  ref(): void {
    this.#child.ref();
    for (const output of this.#outputs) output.ref();
    this.session.ref();
  }

  unref(): void {
    this.#child.unref();
    for (const output of this.#outputs) output.unref();
    this.session.unref();
  }

  /** Pipes that Node made for its output. */
  get #outputs(): Socket[] {
    return [this.#child.stdout, this.#child.stderr].filter((output) => output !== null) as Socket[];
  }

  /**
   * Ends the process once its session is over: SIGTERM where it does not end
   * by itself, then SIGKILL.
   */
  async #reap(): Promise<void> {
    const gone = new AbortController();
    void this.exited.then(() => gone.abort());
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await pause(systemClock, reapPauseMs, gone.signal);
      if (gone.signal.aborted) return;
      this.kill(signal);
    }
  }

  /**
   * Ends the session when the process has ended, since a grandchild may hold the
   * helper's end of the socket open.
   */
  #onExit(exit: HelperExit): void {
    this.exit = exit;
    this.#recorder?.end(exitText(this.pid, exit));
    if (this.session.state !== 'closed') this.lastWords = this.#recorder?.lastWords;
    // Frames that the helper had sent are in the socket: two turns of the loop read all that it can
    // hold.
    systemClock.setImmediate(() =>
      systemClock.setImmediate(() => {
        this.session.terminate(
          new SidecallError('ERR_SIDECALL_PEER_GONE', exitText(this.pid, exit, this.lastWords)),
        );
      }),
    );
  }
}

/** The parts of a helper that runs. */
interface HelperParts {
  readonly child: ChildProcess;
  readonly session: Session;
  readonly exited: Promise<HelperExit>;
  readonly recorder: RecorderMemory | undefined;
}

function makePair(native: NativeAddon): { near: number; far: number } {
  try {
    const pair = native.socketPair();
    native.refuseDescriptors(pair.near); // before the helper can send one whose close blocks us
    return pair;
  } catch (cause) {
    throw new SidecallError('ERR_SIDECALL_HELPER_FAILED', 'no socket pair could be made', {
      cause,
    });
  }
}

function spawnChild(
  settings: StartSettings,
  channel: number | 'pipe',
  recorder: RecorderMemory | undefined,
): ChildProcess {
  const { command, args, cwd, uid, gid, stdout, stderr } = settings;
  const env: NodeJS.ProcessEnv = { ...settings.env, [fdVariable]: String(helperFd) };
  // Without this variable the executable of an Electron app starts the app again.
  if (isElectronItself(command)) env[asNodeVariable] ??= '1';
  // PR_SET_PDEATHSIG follows the thread that spawned: a helper of a worker dies with that worker.
  env[parentVariable] = String(process.pid);
  env[chainVariable] = String(chainLength() + 1);
  const stdio: StdioOptions = ['ignore', stdout, stderr, channel];
  delete env[recorderVariable];
  if (recorder !== undefined) {
    const suffix = settings.recorder === 'frames' ? ':frames' : '';
    env[recorderVariable] = `${recorderFd}${suffix}`;
    stdio.push(recorder.fd);
  }
  const detached = settings.ownProcessGroup;
  return spawnBound(command, args, { cwd, env, uid, gid, stdio, detached, windowsHide: true });
}

function watchExit(child: ChildProcess, early: AbortController): Promise<HelperExit> {
  return new Promise((resolve) => {
    // The listener stays, since a signal that could not be delivered is an 'error', too.
    child.on('error', (cause) => {
      if (child.pid !== undefined) return;
      early.abort(cause); // it never started
      resolve({ code: null, signal: null });
    });
    child.once('exit', (code, signal) => {
      early.abort(new EarlyExit(child.pid, { code, signal }));
      resolve({ code, signal });
    });
  });
}

function finishHello(
  native: NativeAddon | undefined,
  near: number | undefined,
  child: ChildProcess,
  settings: StartSettings,
  signal: AbortSignal,
): Promise<Session> {
  const peer = spawnedPeer(child, settings);
  const session = { ...settings.session, exitKnownMs };
  if (native !== undefined && near !== undefined) {
    return establishOverDescriptor(native, near, peer, accepting, session, signal);
  }
  const socket = child.stdio[helperFd] as Socket;
  return establishOverStream(socket, peer, accepting, session, signal);
}

/**
 * The peer by its spawn handle: the credentials of a socket pair name our own process at both ends.
 */
function spawnedPeer(child: ChildProcess, { uid, gid }: StartSettings): Peer {
  const isSame = uid === undefined && gid === undefined;
  return Object.freeze({
    origin: 'spawned',
    capturedAt: 'spawn',
    pid: child.pid,
    pidIsHint: false,
    uid: uid ?? process.geteuid?.(),
    gid: gid ?? process.getegid?.(),
    groups: isSame ? process.getgroups?.() : groupsOf(child.pid),
  });
}

/**
 * The groups of a process that was spawned with other ids, from `/proc`: they change with the ids,
 * if the system lets them.
 */
function groupsOf(pid: number | undefined): number[] | undefined {
  try {
    const [, groups] = /^Groups:(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? [];
    return groups?.split(/\s+/).filter(Boolean).map(Number);
  } catch {
    return undefined; // not Linux, or it has ended
  }
}

function isGone(error: unknown): boolean {
  return SidecallError.is(error) && error.code === 'ERR_SIDECALL_PEER_GONE';
}
