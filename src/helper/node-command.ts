// SPDX-License-Identifier: MIT
// The command line of a helper that runs on our own Node.

import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isUrl } from '../base/brands.ts';
import { SidecallError } from '../base/errors.ts';
import { nodeError } from '../base/misuse.ts';

/** A program and its arguments. */
export interface Command {
  readonly command: string;
  readonly args: readonly string[];
}

/**
 * A module, or a program. A module runs on our own executable; our own executable gets `execArgv`
 * before its arguments, so that a loader such as tsx works in helpers, too.
 * A file in an asar archive is taken from the folder beside it, `app.asar.unpacked`.
 * @throws {TypeError} for a URL that names no file. @throws {SidecallError}
 * `ERR_SIDECALL_HELPER_FAILED` for a file that an archive alone has.
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
    return onOurNode([unpacked(fileURLToPath(program)), ...args], execArgv);
  }
  if (program === process.execPath) return onOurNode(args, execArgv);
  if (execArgv === undefined) return { command: unpacked(program), args };
  const text = `execArgv is for helpers on process.execPath, not for '${program}': give it in args`;
  throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', text);
}

/** The file of a path that leads into an archive of Electron, from which no process starts. */
function unpacked(file: string): string {
  const [, archive, inner] = /^(.*\.asar)([\\/].*)$/.exec(file) ?? [];
  if (archive === undefined || !isFile(archive)) return file;
  const beside = `${archive}.unpacked${inner}`;
  if (isFile(beside)) return beside;
  const text = `${file} is inside an archive, from which no process starts: unpack it, by asarUnpack of electron-builder or packagerConfig.asar.unpack of Electron Forge; then it is taken from ${beside}`;
  throw new SidecallError('ERR_SIDECALL_HELPER_FAILED', text, { retryable: false });
}

/** True: an ordinary file. To the `fs` of Electron an archive is a folder, unless it is told. */
function isFile(path: string): boolean {
  const electron = process as { noAsar?: boolean };
  const { noAsar } = electron;
  electron.noAsar = true;
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
  } catch {
    return false;
  } finally {
    if (noAsar === undefined) delete electron.noAsar;
    else electron.noAsar = noAsar;
  }
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
