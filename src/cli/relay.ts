// SPDX-License-Identifier: MIT
// sidecall relay: a program that speaks JSON-RPC over its standard input and output, for the
// process that started us, or for those that connect to a path.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { FramingName } from '../adapters/stdio-framing.ts';
import { type RelayEnd, relayStdio } from '../adapters/stdio-relay.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { fdVariable, parentVariable, pollVariable } from '../helper/helper-process.ts';
import { parent } from '../helper/parent.ts';
import { recorderVariable } from '../helper/recorder-memory.ts';
import { listen } from '../rendezvous/listen.ts';
import type { Session } from '../rpc/session/session.ts';
import { Misuse } from './misuse.ts';

/** The program to relay, and the other end. */
export interface RelaySettings {
  readonly command: string;
  readonly args: readonly string[];
  readonly framing: FramingName;
  /** The path to listen at; undefined: the process that started us is the other end. */
  readonly path: string | undefined;
}

// Messages of language servers are long.
const limits = { receiveMaxBytes: 64 * 1024 * 1024 };
// Programs at a time, one for each session of a path.
const sessionsMax = 64;
const notFound = 127;
const notAllowed = 126;

/** The exit status: that of the program, or 0 where a listener was closed. */
export async function relay(settings: RelaySettings): Promise<number> {
  return settings.path === undefined ? relayToParent(settings) : relayAtPath(settings);
}

async function relayToParent(settings: RelaySettings): Promise<number> {
  if (process.env[fdVariable] === undefined) {
    throw new Misuse(
      'relay needs --listen PATH, or a process that starts it by spawnHelper(sidecallCommand, …)',
    );
  }
  const program = await start(settings);
  if (typeof program === 'number') return program;
  const forget = handOn((signal) => program.kill(signal));
  try {
    const session = await parent({ limits });
    const end = await relayed(session, program, settings);
    await session.close();
    return end === undefined ? program.exitCode || 1 : statusOf(end, forget);
  } finally {
    if (program.exitCode === null && program.signalCode === null) program.kill();
    forget();
  }
}

async function relayAtPath(settings: RelaySettings): Promise<number> {
  await using listener = await listen({ path: settings.path, limits, sessionsMax });
  const forget = handOn(() => void listener.close());
  console.error(`sidecall relay: listening at ${listener.path}`);
  for await (const session of listener) void serve(session, settings);
  await listener.closed;
  forget();
  return 0;
}

async function serve(session: Session, settings: RelaySettings): Promise<void> {
  try {
    const program = await start(settings);
    if (typeof program === 'number') return;
    const end = await relayed(session, program, settings);
    if (end !== undefined && end.code !== 0) say(`'${settings.command}' ${endText(end)}`);
  } finally {
    await session.close();
  }
}

async function relayed(
  session: Session,
  program: ChildProcess,
  { framing }: RelaySettings,
): Promise<RelayEnd | undefined> {
  try {
    return await relayStdio(session, program, { framing, onError: (error) => say(textOf(error)) });
  } catch (error) {
    say(textOf(error));
    return undefined;
  }
}

/** The program, or the exit status where it does not start. */
async function start({ command, args }: RelaySettings): Promise<ChildProcess | number> {
  // The pair that we inherited is ours alone.
  const {
    [fdVariable]: _fd,
    [parentVariable]: _parent,
    [pollVariable]: _poll,
    [recorderVariable]: _recorder,
    ...env
  } = process.env;
  const program = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'], env });
  try {
    await once(program, 'spawn');
    return program;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    say(
      `'${command}' does not start: ${code === 'ENOENT' ? 'there is no such program' : errorText(error)}`,
    );
    return code === 'ENOENT' ? notFound : notAllowed;
  }
}

/** Calls `onSignal` for the signals that end a program. Returns what takes it back. */
function handOn(onSignal: (signal: NodeJS.Signals) => void): () => void {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, onSignal);
  return () => {
    for (const signal of signals) process.off(signal, onSignal);
  };
}

/** The exit status of the program. Where a signal ended it, the same signal ends us. */
function statusOf({ code, signal }: RelayEnd, forget: () => void): number {
  forget();
  if (signal !== null) process.kill(process.pid, signal);
  return code ?? 1;
}

function endText({ code, signal }: RelayEnd): string {
  return signal === null ? `ended with exit code ${code}` : `ended with signal ${signal}`;
}

function textOf(error: unknown): string {
  return SidecallError.is(error) ? `${errorText(error)} (${error.code})` : errorText(error);
}

function say(text: string): void {
  console.error(`sidecall relay: ${text}`);
}
