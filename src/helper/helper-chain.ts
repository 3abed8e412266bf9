// SPDX-License-Identifier: MIT
// Helpers that start helpers without end: a program that calls spawnHelper() wherever it runs
// starts itself again and again.
import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { SidecallError } from '../base/errors.ts';
import type { StartedCommand } from './helper-errors.ts';
import { chainVariable, fdVariable } from './helper-variables.ts';

/** Helpers that start one another, none of which has called parent(). */
const chainMax = 4;

/**
 * Refuses what would be started for ever. A helper that has called `parent()` starts what it wants,
 * and so does one that has not, unless it is its own program again or the fifth in a row.
 * @throws {SidecallError} `ERR_SIDECALL_HELPER_FAILED`, not retryable.
 */
export function refuseChain(started: StartedCommand): void {
  if (process.env[fdVariable] === undefined) return;
  const { type } = process as { readonly type?: string };
  if (type === 'browser' && process.env.ELECTRON_RUN_AS_NODE !== undefined) {
    throw refused(
      'this is an Electron app that was started to run as Node, which its fuse runAsNode forbids: use a utilityProcess (docs/electron.md)',
    );
  }
  const ask = `a program that may run as a helper looks at process.env.${fdVariable}, and calls parent() where it is set`;
  if (isOwnProgram(started)) throw refused(`this helper would start its own program: ${ask}`);
  if (chainLength() >= chainMax) {
    throw refused(`${chainMax} helpers have started one another before this one: ${ask}`);
  }
}

/** Helpers in a row that have not called parent(), this process with them. */
export function chainLength(): number {
  return process.env[fdVariable] === undefined ? 0 : Number(process.env[chainVariable]) || 1;
}

function isOwnProgram({ command, args, cwd }: StartedCommand): boolean {
  const own = process.argv[1];
  if (command !== process.execPath) return false;
  // An executable with its program inside has none.
  if (own === undefined || own === process.execPath) return true;
  const ownFile = fileAt(own, undefined);
  return args.some((arg) => !arg.startsWith('-') && fileAt(arg, cwd) === ownFile);
}

function fileAt(path: string, cwd: string | undefined): string {
  const full = resolve(cwd ?? '.', path);
  try {
    return realpathSync(full);
  } catch {
    return full;
  }
}

function refused(why: string): SidecallError {
  const text = `spawnHelper(), before parent(): ${why}`;
  return new SidecallError('ERR_SIDECALL_HELPER_FAILED', text, { retryable: false });
}
