// SPDX-License-Identifier: MIT
// The options of spawnHelper(), and their checks.
import { isUrl } from '../base/brands.ts';
import { ranges } from '../base/limits/option-limits.ts';
import {
  checkBoolean,
  checkInteger,
  checkKeys,
  checkObject,
  checkSignal,
  checkText,
  nodeError,
} from '../base/misuse.ts';
import {
  checkSessionOptions,
  type SessionOptions,
  sessionOptionNames,
} from '../open/session-options.ts';
import type { Registry } from '../rpc/serving/registry.ts';
import type { StartSettings } from './helper-process.ts';
import { type Command, commandOf } from './node-command.ts';
import { type RecorderMode, recorderModes } from './recorder-memory.ts';
import type { RestartOptions } from './restart-options.ts';

/** Options of {@link spawnHelper}. */
export interface SpawnOptions extends SessionOptions {
  /** Working directory of the helper. Default: ours. */
  readonly cwd?: string | undefined;
  /**
   * Options of Node for a helper that runs on our own executable (a module, or `process.execPath`).
   * Default: those of this process (`process.execArgv`, so that loaders such as tsx work), without
   * the ones that concern it alone (`--eval`, `--test`, `--watch`, `--inspect…`). With
   * `--inspect-brk` or `--inspect-wait`, also in `NODE_OPTIONS`, the start has no time limit.
   */
  readonly execArgv?: readonly string[] | undefined;
  /** Environment of the helper. Default: ours. `SIDECALL_FD` and the like are added; the helper
   * deletes them. */
  readonly env?: NodeJS.ProcessEnv | undefined;
  /** User id to run the helper under; needs the privilege. Default: ours. */
  readonly uid?: number | undefined;
  /** Group id to run the helper under; needs the privilege. Default: ours. */
  readonly gid?: number | undefined;
  /** The destination of its output. Default `inherit`; with `pipe` read {@link Helper.stdout}. */
  readonly stdout?: 'inherit' | 'pipe' | 'ignore' | undefined;
  /** As `stdout`. */
  readonly stderr?: 'inherit' | 'pipe' | 'ignore' | undefined;
  /**
   * The helper gets a process group of its own, so that Ctrl-C in a terminal, which reaches all of
   * a group, leaves it to the parent to let calls finish and then to `stop()` it. Default: no, as
   * `child_process.spawn()`: then SIGINT ends a helper that does not handle it, and its calls.
   */
  readonly ownProcessGroup?: boolean | undefined;
  /**
   * The helper writes which handlers run, and with `frames` the headers of its last 4,096 frames,
   * to memory that this process reads when the helper crashes: errors then say what it was doing.
   * 256 KiB for each helper; on Linux, with the addon on both sides. Default: `handlers`.
   */
  readonly recorder?: RecorderMode | undefined;
  /**
   * Milliseconds from spawn to open session; then the helper is killed.
   * Default 30,000; 100 to 600,000.
   */
  readonly startTimeoutMs?: number | undefined;
  /**
   * Start it again when it dies: `true` for the defaults of {@link RestartOptions}. Default: no.
   */
  readonly restart?: boolean | RestartOptions | undefined;
  /** Gives up starting; `spawnHelper` rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
}

const names = [
  ...sessionOptionNames,
  'cwd',
  'execArgv',
  'env',
  'uid',
  'gid',
  'stdout',
  'stderr',
  'ownProcessGroup',
  'recorder',
  'startTimeoutMs',
  'restart',
  'signal',
] as const satisfies readonly (keyof SpawnOptions)[];
const outputs = ['inherit', 'pipe', 'ignore'] as const;

/**
 * Checks what `spawnHelper()` takes, but for `restart`.
 * @throws {TypeError | RangeError} for misuse.
 */
export function checkSpawn(
  program: string | URL,
  args: readonly string[],
  options: SpawnOptions,
  registry: Registry,
): StartSettings {
  checkKeys('spawnHelper()', options, names);
  checkSignal(options.signal);
  return {
    ...checkCommand(program, args, options.execArgv),
    cwd: checkText('cwd', options.cwd),
    env: checkObject('env', options.env) ?? process.env,
    uid: checkId('uid', options.uid),
    gid: checkId('gid', options.gid),
    stdout: checkOutput('stdout', options.stdout),
    stderr: checkOutput('stderr', options.stderr),
    startTimeoutMs: checkInteger('startTimeoutMs', options.startTimeoutMs, ranges.startTimeoutMs),
    ownProcessGroup: checkBoolean('ownProcessGroup', options.ownProcessGroup),
    recorder: checkRecorder(options.recorder),
    session: checkSessionOptions(options, registry),
  };
}

/**
 * The command line of a helper.
 * @throws {TypeError} for misuse.
 */
export function checkCommand(
  program: string | URL,
  args: readonly string[],
  execArgv: readonly string[] | undefined,
): Command {
  if (!isUrl(program) && checkText('program', program) === undefined) {
    const text = 'spawnHelper() needs a program: a path, or the URL of a module';
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  checkTexts('args', args);
  if (execArgv !== undefined) checkTexts('execArgv', execArgv);
  return commandOf(program, args, execArgv);
}

function checkTexts(name: string, texts: readonly string[]): void {
  if (Array.isArray(texts) && texts.every((text) => typeof text === 'string')) return;
  const text = `spawnHelper(): ${name} must be a list of strings`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
}

function checkId(name: string, id: number | undefined): number | undefined {
  if (id === undefined || (Number.isInteger(id) && id >= 0 && id < 0xffff_ffff)) return id;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', `${name} must be an id, got ${String(id)}`);
}

function checkRecorder(value: RecorderMode | undefined): RecorderMode {
  if (value === undefined) return 'handlers';
  if (recorderModes.includes(value)) return value;
  const text = `recorder must be ${recorderModes.join(', ')}, got '${String(value)}'`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}

function checkOutput(
  name: string,
  value: 'inherit' | 'pipe' | 'ignore' | undefined,
): 'inherit' | 'pipe' | 'ignore' {
  if (value === undefined) return 'inherit';
  if (outputs.includes(value)) return value;
  const text = `${name} must be ${outputs.join(', ')}, got '${String(value)}'`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}
