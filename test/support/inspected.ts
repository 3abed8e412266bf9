// Processes that are inspected from outside, and the command `sidecall inspect`.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'vitest';
import type { ThreadReport } from '../../src/cli/inspect-process.ts';
import { type RunningProgram, startProgram } from './programs.ts';

/** The command `sidecall`, as it is built. */
export const command = resolve(import.meta.dirname, '../../dist/cli/main.js');

export interface Ended {
  readonly stdout: string;
  readonly stderr: string;
  readonly status: number | null;
}

/** Runs the command beside the processes that it looks into, which a synchronous run would stop. */
export async function inspect(runtime: string, args: string[], uid?: number): Promise<Ended> {
  const env = { ...process.env, XDG_RUNTIME_DIR: runtime };
  const child = spawn(process.execPath, [command, 'inspect', ...args], { env, uid, gid: uid });
  const status = new Promise<number | null>((done) => child.once('close', done));
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { stdout, stderr, status: await status };
}

export async function threadsOf(
  runtime: string,
  operand: string,
): Promise<readonly ThreadReport[]> {
  const { stdout, stderr, status } = await inspect(runtime, [
    operand,
    '--json',
    '--timeout',
    '60000',
  ]);
  expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
  return JSON.parse(stdout).threads;
}

/** Starts a process that `sidecall inspect` can reach, with sessions of its own. */
export async function startInspected(
  runtime: string,
  options: object = {},
  env: NodeJS.ProcessEnv = { SIDECALL_INSPECT: '1' },
): Promise<RunningProgram> {
  const told = JSON.stringify({ path: join(runtime, 's'), ...options });
  const program = startProgram('inspected.mjs', [told], {
    env: { XDG_RUNTIME_DIR: runtime, ...env },
  });
  await program.next();
  return program;
}

export function socketsIn(runtime: string): readonly string[] {
  const directory = join(runtime, 'sidecall');
  const names = existsSync(directory) ? readdirSync(directory) : [];
  return names.filter((name) => name.endsWith('.sock'));
}
