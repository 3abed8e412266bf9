// SPDX-License-Identifier: MIT
// sidecall relay: a program that speaks JSON-RPC over its standard input and output, for the
// process that started us, or for those that connect to a path.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { FramingName } from '../adapters/stdio-framing.ts';
import { type RelayEnd, relayStdio } from '../adapters/stdio-relay.ts';
import { nativeState } from '../addon/load-addon.ts';
import { systemClock } from '../base/clock.ts';
import { errorText } from '../base/error-text.ts';
import { SidecallError } from '../base/errors.ts';
import { ignore } from '../base/ignore-errors.ts';
import { pause } from '../base/pause.ts';
import { spawnBound } from '../helper/bound-child.ts';
import { fdVariable, parentVariable, withoutHelperVariables } from '../helper/helper-variables.ts';
import { parent } from '../helper/parent.ts';
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
/**
 * Milliseconds from SIGTERM to SIGKILL for what the program leaves behind, and for the program
 * where we get SIGTERM: less than `stop()` gives us.
 */
const killAfterMs = 1_500;
const lookMs = 20;
const never = new AbortController().signal;
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
  // We outlive that process, because the program has its time to end.
  nativeState().addon?.outliveParent();
  delete process.env[parentVariable];
  const program = await start(settings);
  if (typeof program === 'number') return program;
  const forget = handOn((signal) => {
    program.kill(signal);
    if (signal === 'SIGTERM') setTimeout(() => program.kill('SIGKILL'), killAfterMs).unref();
  });
  let end: RelayEnd | undefined;
  try {
    const session = await parent({ limits });
    end = await relayed(session, program, settings);
    await session.close();
  } finally {
    await endAll(program); // a signal meanwhile ends those that are left, and not us
    forget();
  }
  return end === undefined ? program.exitCode || 1 : statusOf(end);
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
    await endAll(program);
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
  // The pair that we inherited is ours alone. The program leads a group of all that it starts.
  const program = spawnBound(command, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: withoutHelperVariables(process.env),
    detached: true,
  });
  // Output without a listener is dropped where the program ends before the session is there.
  program.stdout?.on('readable', ignore);
  try {
    await once(program, 'spawn');
    program.kill = (signal) => killGroup(program.pid as number, signal ?? 'SIGTERM');
    return program;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    say(
      `'${command}' does not start: ${code === 'ENOENT' ? 'there is no such program' : errorText(error)}`,
    );
    return code === 'ENOENT' ? notFound : notAllowed;
  }
}

/** Ends what is left of the program and of what it has started: SIGTERM, then SIGKILL. */
async function endAll(program: ChildProcess): Promise<void> {
  if (!program.kill('SIGTERM')) return;
  const isLeft = () => program.kill(0);
  for (let waitedMs = 0; waitedMs < killAfterMs && isLeft(); waitedMs += lookMs) {
    await pause(systemClock, lookMs, never);
  }
  program.kill('SIGKILL');
}

/** False: no process of the group is left. */
function killGroup(leader: number, signal: NodeJS.Signals | number): boolean {
  try {
    return process.kill(-leader, signal);
  } catch {
    return false;
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
function statusOf({ code, signal }: RelayEnd): number {
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
