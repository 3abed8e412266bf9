// SPDX-License-Identifier: MIT
// The command line of a helper that runs on our own Node.

import { fileURLToPath } from 'node:url';
import { isUrl } from '../base/brands.ts';
import { nodeError } from '../base/misuse.ts';

/** A program and its arguments. */
export interface Command {
  readonly command: string;
  readonly args: readonly string[];
}

/**
 * A module, or a program. A module runs on our own executable; our own executable gets `execArgv`
 * before its arguments, so that a loader such as tsx works in helpers, too.
 * @throws {TypeError} for a URL that names no file.
 */
export function commandOf(
  program: string | URL,
  args: readonly string[],
  execArgv: readonly string[] | undefined,
): Command {
  if (isUrl(program)) {
    if (program.protocol !== 'file:') {
      const text = `spawnHelper() takes the URL of a file, got ${program.protocol}//`;
      throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
    }
    return onOurNode([fileURLToPath(program), ...args], execArgv);
  }
  if (program === process.execPath) return onOurNode(args, execArgv);
  if (execArgv === undefined) return { command: program, args };
  const text = `execArgv is for helpers on process.execPath, not for '${program}': give it in args`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}

function onOurNode(args: readonly string[], execArgv: readonly string[] | undefined): Command {
  const own = execArgv ?? inheritable(process.execArgv);
  return { command: process.execPath, args: [...own, ...args] };
}

// Options that say what this process is to run, or that take a port.
const dropped =
  /^(-e|--eval|-p|--print|-pe|-c|--check|-i|--interactive|--input-type|--run|--test|--watch|--inspect|--debug-port)(-[\w-]+)?(=|$)/;

/** Our options of Node, without those that concern this process alone. */
export function inheritable(execArgv: readonly string[]): string[] {
  const kept: string[] = [];
  for (let at = 0; at < execArgv.length; at += 1) {
    const option = execArgv[at] as string;
    if (!dropped.test(option)) kept.push(option);
    // The list holds options and their values only.
    else if (execArgv[at + 1]?.startsWith('-') === false) at += 1;
  }
  return kept;
}

/** True: the helper stands still at its start until a debugger lets it go on. */
export function waitsForDebugger(args: readonly string[], env: NodeJS.ProcessEnv): boolean {
  const waits = /^--inspect-(brk|wait)(=|$)/;
  return args.some((arg) => waits.test(arg)) || /--inspect-(brk|wait)/.test(env.NODE_OPTIONS ?? '');
}
