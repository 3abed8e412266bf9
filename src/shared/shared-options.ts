// SPDX-License-Identifier: MIT
// The options of sharedHelper(), and their checks.

import { resolve } from 'node:path';
import { isUrl } from '../base/brands.ts';
import { ranges } from '../base/limits/option-limits.ts';
import {
  checkInteger,
  checkKeys,
  checkObject,
  checkSignal,
  checkText,
  nodeError,
} from '../base/misuse.ts';
import { commandOf } from '../helper/node-command.ts';
import { type SessionOptions, sessionOptionNames } from '../open/session-options.ts';
import type { ReconnectOptions } from '../rendezvous/reconnect-options.ts';
import { sharedPath } from './shared-path.ts';
import { checkVersion } from './version-order.ts';

/** Options of {@link sharedHelper}. */
export interface SharedHelperOptions extends Omit<SessionOptions, 'idleTimeoutMs'> {
  /**
   * Names the helper among all of this user: 1 to 32 letters, digits, `_`, `-` and single dots.
   * Programs that give the same name share it.
   */
  readonly name: string;
  /** The folder of a project, for one: each key has a helper of its own. Default: one for all. */
  readonly key?: string | undefined;
  /** The version of the helper that `program` starts, as semver.org says. */
  readonly version: string;
  /**
   * A module, as the URL of its file, which runs on our own Node without our options of Node; or
   * the path of an executable. Options of Node go into `args`, before the path of a script.
   */
  readonly program: string | URL;
  /** Its arguments. Default: none. */
  readonly args?: readonly string[] | undefined;
  /**
   * Environment of the helper, beside `PATH`, `HOME`, `USER`, `LANG`, `TZ`, `TMPDIR` and
   * `XDG_RUNTIME_DIR`, where this program starts it: it lives longer than the program that starts
   * it, and serves others. Default: nothing more.
   */
  readonly env?: NodeJS.ProcessEnv | undefined;
  /**
   * Milliseconds without a session after which it ends; at least 10,000 until the first one. Only
   * the program that starts it decides. Default 60,000; 100 to 2,147,483,647.
   */
  readonly idleTimeoutMs?: number | undefined;
  /**
   * The longest time to find or start the helper, in milliseconds; then `sharedHelper` rejects with
   * `ERR_SIDECALL_HELPER_FAILED`. Default 30,000; 100 to 600,000.
   */
  readonly startTimeoutMs?: number | undefined;
  /**
   * An older helper runs: `replace` it (the default), so that it finishes its calls and every
   * program moves to the newer one; `use` it; or `fail`.
   */
  readonly onOlder?: 'replace' | 'use' | 'fail' | undefined;
  /** A newer helper runs: `use` it (the default), or `fail`. It is never replaced by an older. */
  readonly onNewer?: 'use' | 'fail' | undefined;
  /** As of `connect()`: the connection outlives the helper. Default: `true`. */
  readonly reconnect?: true | ReconnectOptions | undefined;
  /** Gives up; `sharedHelper` rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
}

/** Checked {@link SharedHelperOptions}. */
export interface SharedSettings {
  readonly path: string;
  readonly name: string;
  readonly key: string | undefined;
  readonly version: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly idleTimeoutMs: number;
  readonly startTimeoutMs: number;
  readonly onOlder: 'replace' | 'use' | 'fail';
  readonly onNewer: 'use' | 'fail';
}

/** The options that are those of a shared helper alone; the others are of its sessions. */
export const sharedOptionNames = [
  'name',
  'key',
  'version',
  'program',
  'args',
  'env',
  'idleTimeoutMs',
  'startTimeoutMs',
  'onOlder',
  'onNewer',
  'reconnect',
  'signal',
] as const satisfies readonly (keyof SharedHelperOptions)[];

/** @throws {TypeError | RangeError} for misuse. */
export function checkShared(options: SharedHelperOptions): SharedSettings {
  checkKeys('sharedHelper()', options, [
    ...sessionOptionNames.filter((name) => name !== 'idleTimeoutMs'),
    ...sharedOptionNames,
  ] as never);
  const { name, key, program, args = [], env = {}, idleTimeoutMs, startTimeoutMs } = options;
  if (!isUrl(program) && checkText('program', program) === undefined) {
    const text = 'sharedHelper() needs a program: a path, or the URL of a module';
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
  }
  checkSignal(options.signal);
  if (!Array.isArray(args) || !args.every((arg) => typeof arg === 'string')) {
    throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'args must be a list of strings');
  }
  return {
    path: sharedPath(name, key),
    name,
    key,
    version: checkVersion(options.version),
    ...commandOf(placed(program), args, isOurs(program) ? [] : undefined),
    env: checkObject('env', env) as NodeJS.ProcessEnv,
    idleTimeoutMs: checkInteger('idleTimeoutMs', idleTimeoutMs, ranges.sharedIdleTimeoutMs),
    startTimeoutMs: checkInteger('startTimeoutMs', startTimeoutMs, ranges.startTimeoutMs),
    onOlder: oneOf('onOlder', options.onOlder, ['replace', 'use', 'fail']),
    onNewer: oneOf('onNewer', options.onNewer, ['use', 'fail']),
  };
}

/** A path is that of the program that asks, since the helper runs in the root directory. */
function placed(program: string | URL): string | URL {
  return typeof program === 'string' && program.includes('/') ? resolve(program) : program;
}

/** It runs on our own Node: without our options of Node, which are not those of its other users. */
function isOurs(program: string | URL): boolean {
  return isUrl(program) || program === process.execPath;
}

/** The first one is the default. */
function oneOf<T extends string>(
  name: string,
  value: T | undefined,
  known: readonly [T, ...T[]],
): T {
  if (value === undefined) return known[0];
  if (known.includes(value)) return value;
  const text = `${name} must be ${known.join(', ')}, got '${String(value)}'`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}
