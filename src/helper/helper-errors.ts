// SPDX-License-Identifier: MIT
// Errors of helpers that do not start, or have ended: the command line, the end, and the last lines
// that were printed.
import { Buffer } from 'node:buffer';
import { basename } from 'node:path';
import type { Readable } from 'node:stream';
import { systemClock } from '../base/clock.ts';
import { errorText } from '../base/error-text.ts';
import { isDescriptorWant, SidecallError } from '../base/errors.ts';
import { emitEvent, type OnEvent } from '../base/events.ts';
import { endWaits, pause } from '../base/pause.ts';
import { standingOfProcess } from '../base/process-standing.ts';
import { waitsForDebugger } from './node-command.ts';

/** The end of a helper. */
export interface HelperExit {
  /** Exit code, or null where a signal ended it. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** The program that a helper runs, and where. */
export interface StartedCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string | undefined;
  readonly env: NodeJS.ProcessEnv;
}

/** How long a helper may be silent before that is told: one that waits, and one that works. */
const silentAfterMs = 3_000;
const workingAfterMs = 30_000;
const lineMaxLetters = 300;
/** Bytes of the helper's output that an error repeats, and how long they are waited for. */
const tailMaxBytes = 2_048;
const tailMaxMs = 500;

/** The text of its end. `doing`: what it was doing then. */
export function exitText(pid: number | undefined, exit: HelperExit, doing?: string): string {
  const ended = `helper ${pid} ${howEnded(exit)}`;
  return doing === undefined ? ended : `${ended}; ${doing}`;
}

function howEnded({ code, signal }: HelperExit): string {
  return signal === null ? `ended with exit code ${code}` : `ended with signal ${signal}`;
}

/** A process that ended before its hello. */
export class EarlyExit extends Error {
  constructor(pid: number | undefined, exit: HelperExit) {
    super(`process ${pid} ${howEnded(exit)} before its hello`);
  }
}

/** The error of a helper that did not start. `tail`: the end of its standard error. */
export function startError(started: StartedCommand, cause: unknown, tail = ''): SidecallError {
  const { command, cwd } = started;
  const where = cwd === undefined ? '' : ` (in ${cwd})`;
  const printed = tail === '' ? '' : `; its standard error ends with:\n${tail}`;
  // A failed spawn is not retryable: a missing program stays missing.
  const { syscall } = (cause ?? {}) as { syscall?: unknown };
  const isUnspawned = typeof syscall === 'string' && syscall.startsWith('spawn');
  const hint = isUnspawned ? moduleHint(command) : fuseHint(command);
  const text = `helper ${lineOf(started)}${where}: ${whyOf(cause)}${hint}${printed}`;
  const retryable = !isUnspawned || isDescriptorWant(cause);
  return new SidecallError('ERR_SIDECALL_HELPER_FAILED', text, { cause, retryable });
}

/** The hint for a module that was given as a program. */
function moduleHint(command: string): string {
  if (!/\.[cm]?[jt]s$/.test(command)) return fuseHint(command);
  return ` (a module is given by its URL: new URL('${basename(command)}', import.meta.url))`;
}

function whyOf(cause: unknown): string {
  if (cause instanceof EarlyExit) return cause.message;
  if (SidecallError.is(cause) && cause.code === 'ERR_SIDECALL_HELLO_TIMEOUT') {
    return `it did not call parent(): ${cause.message}`;
  }
  return `it did not start: ${errorText(cause)}`;
}

/** The command line, as much of it as tells one helper from another. */
function lineOf({ command, args }: StartedCommand): string {
  const words = [command, ...args].map((word) =>
    /[\s'"]/.test(word) || word === '' ? JSON.stringify(word) : word,
  );
  const line = words.join(' ');
  return line.length > lineMaxLetters ? `${line.slice(0, lineMaxLetters)}…` : line;
}

/** True: the command is the executable of the Electron app that we are. */
export function isElectronItself(command: string): boolean {
  return process.versions.electron !== undefined && command === process.execPath;
}

/**
 * The hint for a helper of an Electron app: a second copy of the app never
 * says hello, or ends at once.
 */
function fuseHint(command: string): string {
  if (!isElectronItself(command)) return '';
  return ' (where the runAsNode fuse of the app is off, use a utilityProcess: docs/electron.md)';
}

/**
 * Tells `onEvent`, or else warns, when the helper has said nothing for 4 seconds and does not work
 * either, or for 30 seconds. Nothing ends: it may have much to load, on a busy machine.
 */
export function tellWhenSilent(
  started: StartedCommand,
  pid: number | undefined,
  onEvent: OnEvent | undefined,
): { readonly stop: () => void } {
  const over = new AbortController();
  void untilSilent(pid, over.signal).then((silence) => {
    if (silence === undefined) return;
    const command = lineOf(started);
    const { waitedMs, isWorking } = silence;
    const why = waitsForDebugger(started.args, started.env)
      ? 'it waits for a debugger'
      : `${isWorking ? 'it is still starting; ' : ''}a helper in Node calls parent() of sidecall, any other says hello (docs/protocol.md)`;
    const text = `helper ${command} has not called parent() for ${Math.round(waitedMs / 1_000)} s: ${why}`;
    const error = new SidecallError('ERR_SIDECALL_HELPER_FAILED', text);
    if (onEvent === undefined) process.emitWarning(text, { code: 'SIDECALL_HELPER_SILENT' });
    emitEvent(onEvent, { type: 'helper-silent', error, peer: undefined, command, waitedMs });
  });
  return { stop: () => endWaits(over) };
}

/** Resolves when a helper is silent; undefined: `signal` was aborted before. */
async function untilSilent(
  pid: number | undefined,
  signal: AbortSignal,
): Promise<{ readonly waitedMs: number; readonly isWorking: boolean } | undefined> {
  const begun = systemClock.nowMs();
  await pause(systemClock, silentAfterMs, signal);
  // Twice in a row, since one that starts on a busy machine waits for its own threads, too.
  for (let idleLooks = 0; !signal.aborted; ) {
    const { state } = await standingOfProcess(pid, signal);
    const waitedMs = systemClock.nowMs() - begun;
    idleLooks = state === 'busy' ? 0 : idleLooks + 1;
    if (signal.aborted) break;
    if (idleLooks === 2 || waitedMs >= workingAfterMs) {
      return { waitedMs, isWorking: idleLooks === 0 };
    }
  }
  return undefined;
}

/** The end of a pipe that no other code has read, and whose writer is being ended. */
export async function tailOf(output: Readable | null | undefined): Promise<string> {
  // Without a descriptor for the process Node makes no pipes either.
  if (output === null || output === undefined || output.readableFlowing === true) return '';
  const over = new AbortController();
  // A process that the helper started may hold the pipe open.
  void pause(systemClock, tailMaxMs, over.signal).then(() => output.destroy());
  let tail = Buffer.alloc(0);
  try {
    for await (const chunk of output) {
      tail = Buffer.concat([tail, chunk as Buffer]).subarray(-tailMaxBytes);
    }
  } catch {
    // destroyed, see above: what has come is told
  } finally {
    over.abort();
  }
  return tail.toString('utf8').trim();
}
