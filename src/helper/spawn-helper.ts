// SPDX-License-Identifier: MIT
// spawnHelper(): a child process with a session, stopped in order, started again where that is
// wanted.
import type { Readable } from 'node:stream';
import { systemClock } from '../base/clock.ts';
import { quiet } from '../base/ignore-errors.ts';
import { ranges } from '../base/limits/option-limits.ts';
import { checkInteger, checkKeys } from '../base/misuse.ts';
import { pause } from '../base/pause.ts';
import { LastingPeer } from '../lasting/lasting-peer.ts';
import { Registry } from '../rpc/serving/registry.ts';
import type { Session } from '../rpc/session/session.ts';
import type { HelperExit } from './helper-errors.ts';
import { HelperProcess } from './helper-process.ts';
import type { HelperState } from './helper-state.ts';
import { checkRestart } from './restart-options.ts';
import { checkSpawn, type SpawnOptions } from './spawn-options.ts';
import { Supervisor } from './supervisor.ts';

/**
 * Starts a helper over an inherited socket pair: there is no path on disk that another process
 * could take, and the spawn handle identifies the helper. A Node helper calls `parent()`;
 * docs/protocol.md says what any other must do. Its standard input is closed. In Electron
 * `process.execPath` is run as Node (`ELECTRON_RUN_AS_NODE`). A helper that has not called
 * `parent()` after 3 seconds is told to `onEvent` (`helper-silent`), or else as a warning of the
 * process.
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
  return new Helper(supervisor, registry);
}

/** A helper process and the way to call it. Its clients live through restarts. */
export class Helper extends LastingPeer<HelperState> {
  readonly #supervisor: Supervisor;
  readonly #registry: Registry;
  #stopping: Promise<void> | undefined;

  /** @internal Use `spawnHelper()`. */
  constructor(supervisor: Supervisor, registry: Registry) {
    super({ target: supervisor.target, registry, states: supervisor.states });
    this.#supervisor = supervisor;
    this.#registry = registry;
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

  /** Resolves when the helper has ended for good: it was stopped, or is not started again. */
  get exited(): Promise<HelperExit> {
    return this.#supervisor.exited;
  }

  /**
   * Ends the helper: its session drains, then SIGTERM, then SIGKILL. Resolves when it is gone. A
   * second call has no further effect.
   * @param options.deadlineMs for calls in flight: default 5,000; 0 to 600,000.
   * @param options.killGraceMs from SIGTERM to SIGKILL: default 2,000; 0 to 600,000.
   */
  stop(
    options: {
      readonly deadlineMs?: number | undefined;
      readonly killGraceMs?: number | undefined;
    } = {},
  ): Promise<HelperExit> {
    return quiet(this.#checkAndStop(options));
  }

  async #checkAndStop(options: {
    readonly deadlineMs?: number | undefined;
    readonly killGraceMs?: number | undefined;
  }): Promise<HelperExit> {
    checkKeys('stop()', options, ['deadlineMs', 'killGraceMs']);
    const deadlineMs = checkInteger('deadlineMs', options.deadlineMs, ranges.closeDeadlineMs);
    const graceMs = checkInteger('killGraceMs', options.killGraceMs, ranges.killGraceMs);
    this.#stopping ??= this.#stop(deadlineMs, graceMs);
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

  async #stop(deadlineMs: number, graceMs: number): Promise<void> {
    const last = await this.#supervisor.retire();
    if (last === undefined) return;
    await this.#registry.shutDown(systemClock);
    await last.session.close({ deadlineMs });
    if (last.exit !== undefined) return;
    last.kill('SIGTERM');
    const gone = new AbortController();
    void last.exited.then(() => gone.abort());
    await pause(systemClock, graceMs, gone.signal);
    if (last.exit === undefined && !gone.signal.aborted) last.kill('SIGKILL');
    await last.exited;
  }
}
