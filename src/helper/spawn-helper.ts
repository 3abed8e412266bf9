// SPDX-License-Identifier: MIT
// spawnHelper(): a child process with a session, stopped in order, started again where that is
// wanted.

import type { Readable } from 'node:stream';
import { systemClock } from '../base/clock.ts';
import { quiet } from '../base/ignore-errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { checkInteger, checkKeys } from '../base/misuse.ts';
import { LastingPeer } from '../lasting/lasting-peer.ts';
import { monitorSums } from '../open/monitor.ts';
import { openInspectionOnce } from '../rendezvous/inspection-listener.ts';
import { Registry, servedSetOf } from '../rpc/serving/registry.ts';
import type { Session } from '../rpc/session/session.ts';
import type { SessionSums } from '../rpc/session/session-sums.ts';
import { refuseChain } from './helper-chain.ts';
import type { HelperExit } from './helper-errors.ts';
import { HelperProcess, type StartSettings, type StopLimits } from './helper-process.ts';
import type { HelperState } from './helper-state.ts';
import type { HelperRecording } from './recorder-memory.ts';
import { type ReplacedHelper, startHealthy } from './replacement.ts';
import { checkRestart } from './restart-options.ts';
import { checkCommand, checkSpawn, type SpawnOptions } from './spawn-options.ts';
import { Supervisor } from './supervisor.ts';

/**
 * Starts a helper over an inherited socket pair: there is no path on disk that another process
 * could take, and the spawn handle identifies the helper. A Node helper calls `parent()`;
 * docs/protocol.md says what any other must do. Its standard input is closed. In Electron
 * `process.execPath` is run as Node (`ELECTRON_RUN_AS_NODE`). A helper that has not called
 * `parent()` after 4 seconds, and does not use the processor either, is told to `onEvent`
 * (`helper-silent`), or else as a warning of the process; one that uses it, after 30 seconds.
 * @param program a module, as `new URL('helper.mjs', import.meta.url)`, which runs on our own Node;
 * or the path of an executable.
 * @param args its arguments. Default: none.
 * @throws (as rejection) {SidecallError} `ERR_SIDECALL_HELPER_FAILED` saying why,
 * `ERR_SIDECALL_SHM_UNAVAILABLE`; `signal.reason`; `TypeError`/`RangeError` for misuse.
 * @example
 * ```ts
 * import { service, spawnHelper, unary } from 'sidecall';
 *
 * const Hasher = service('Hasher', { hash: unary<string, string>() });
 *
 * const helperFile = new URL('hasher.mjs', import.meta.url);
 * await using helper = await spawnHelper(helperFile, [], { restart: true });
 * console.log(await helper.client(Hasher).hash('text'));
 * ```
 */
export async function spawnHelper(
  program: string | URL,
  args: readonly string[] = [],
  options: SpawnOptions = {},
): Promise<Helper> {
  const registry = new Registry();
  const settings = checkSpawn(program, args, options, registry);
  const restart = checkRestart(options.restart);
  options.signal?.throwIfAborted();
  refuseChain(settings);
  openInspectionOnce();
  const first = await HelperProcess.start(settings, options.signal);
  const supervisor = new Supervisor(
    {
      command: settings.command,
      start: (signal) => HelperProcess.start(settings, signal),
      onEvent: settings.session.onEvent,
    },
    restart,
    first,
  );
  const check = (other: string | URL, otherArgs: readonly string[]): StartSettings => ({
    ...settings,
    ...checkCommand(other, otherArgs, options.execArgv),
  });
  const { sums, monitor } = settings.session;
  const helper = new Helper(supervisor, registry, sums, { program, args, check });
  monitorSums(monitor, sums, helper.exited);
  await servedSetOf(options.services)?.hold({
    isListener: false,
    closed: helper.exited,
    close: (deadlineMs) => helper.stop({ deadlineMs }),
  });
  return helper;
}

/** Options of the end of a helper process. */
export interface StopOptions {
  /** Milliseconds for calls in flight. Default 5,000; 0 to 600,000. */
  readonly deadlineMs?: number | undefined;
  /** Milliseconds from SIGTERM to SIGKILL. Default 2,000; 0 to 600,000. */
  readonly killGraceMs?: number | undefined;
}

/** Options of {@link Helper.replace}. */
export interface ReplaceOptions extends StopOptions {
  /** The program of the new process, as of {@link spawnHelper}. Default: as before. */
  readonly program?: string | URL | undefined;
  /** Its arguments. Default: as before. */
  readonly args?: readonly string[] | undefined;
}

/** A helper process and the way to call it. Its clients live through restarts. */
export class Helper extends LastingPeer<HelperState> {
  readonly #supervisor: Supervisor;
  readonly #registry: Registry;
  #command: HelperCommand;
  #stopping: Promise<void> | undefined;

  /** @internal Use `spawnHelper()`. */
  constructor(
    supervisor: Supervisor,
    registry: Registry,
    sums: SessionSums,
    command: HelperCommand,
  ) {
    super({ target: supervisor.target, registry, states: supervisor.states, sums });
    this.#supervisor = supervisor;
    this.#registry = registry;
    this.#command = command;
  }

  /** Process id of the current (or last) process. */
  get pid(): number {
    return this.#supervisor.current.pid;
  }

  /** The current (or last) session. After a restart it is another one. */
  get session(): Session {
    return this.#supervisor.current.session;
  }

  /**
   * Output of the current process, with `stdout: 'pipe'`; else null. After a restart it is another
   * stream.
   */
  get stdout(): Readable | null {
    return this.#supervisor.current.stdout;
  }

  /** As {@link Helper.stdout}. */
  get stderr(): Readable | null {
    return this.#supervisor.current.stderr;
  }

  /**
   * The last frames of the current (or last) process, and the handlers that run (or ran when it
   * ended): a copy, made now or at its end. Takes a few milliseconds. What a process that runs
   * writes meanwhile is left out. undefined: it is not recorded.
   */
  recording(): HelperRecording | undefined {
    return this.#supervisor.current.recording;
  }

  /** Resolves when the helper has ended for good: it was stopped, or is not started again. */
  get exited(): Promise<HelperExit> {
    return this.#supervisor.exited;
  }

  /**
   * Puts another process in the place of the present one, without a gap: starts it with the same
   * options, waits until its health is `serving`, makes all new calls on it, and lets the one
   * before finish the calls that it has. Restarts start the new program, too. Replacements run one
   * after the other.
   * @throws (as rejection) {SidecallError} `ERR_SIDECALL_HELPER_FAILED` where the new process does
   * not become healthy within `startTimeoutMs`: then the present one goes on as if nothing had
   * been; `ERR_SIDECALL_CLOSED` where the helper is stopped; `TypeError`/`RangeError` for misuse.
   */
  replace(options: ReplaceOptions = {}): Promise<ReplacedHelper> {
    return quiet(this.#checkAndReplace(options));
  }

  async #checkAndReplace(options: ReplaceOptions): Promise<ReplacedHelper> {
    checkKeys('replace()', options, ['program', 'args', 'deadlineMs', 'killGraceMs']);
    const { check } = this.#command;
    const { program = this.#command.program, args = this.#command.args } = options;
    const limits = stopLimits(options);
    const settings = check(program, args);
    const replaced = await this.#supervisor.replace(
      (signal) => startHealthy(settings, signal),
      limits,
    );
    this.#command = { program, args, check };
    return replaced;
  }

  /**
   * Ends the helper: its session drains; a helper that then neither ends by itself nor works for
   * 500 ms, or has worked for `killGraceMs`, gets SIGTERM, and SIGKILL after `killGraceMs`.
   * Resolves when it is gone, and every process that it has replaced. A second call has no further
   * effect.
   */
  stop(options: StopOptions = {}): Promise<HelperExit> {
    return quiet(this.#checkAndStop(options));
  }

  async #checkAndStop(options: StopOptions): Promise<HelperExit> {
    checkKeys('stop()', options, ['deadlineMs', 'killGraceMs']);
    const limits = stopLimits(options);
    this.#stopping ??= this.#stop(limits);
    await this.#stopping;
    return this.exited;
  }

  /** The same as {@link Helper.stop} with its defaults. */
  async close(): Promise<void> {
    await this.stop();
  }

  /** The helper keeps this process alive (the default). */
  ref(): void {
    this.#supervisor.setReferenced(true);
  }

  /** The helper alone does not keep this process alive. */
  unref(): void {
    this.#supervisor.setReferenced(false);
  }

  async #stop(limits: StopLimits): Promise<void> {
    const running = await this.#supervisor.retire();
    if (running.length === 0) return;
    await this.#registry.shutDown(systemClock);
    await Promise.all(running.map((helper) => helper.stop(limits)));
  }
}

/** The program of a helper, and the check of another one with the same options. */
interface HelperCommand {
  readonly program: string | URL;
  readonly args: readonly string[];
  readonly check: (program: string | URL, args: readonly string[]) => StartSettings;
}

function stopLimits({ deadlineMs, killGraceMs }: StopOptions): StopLimits {
  return {
    deadlineMs: checkInteger('deadlineMs', deadlineMs, ranges.closeDeadlineMs),
    killGraceMs: checkInteger('killGraceMs', killGraceMs, ranges.killGraceMs),
  };
}
