// A program on a terminal of its own, whose input and output are pipes here.
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';

const source = `import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(["/bin/sh", "-c", sys.argv[1]])))`;

/** Runs a command of the shell; its exit code is that of the command. */
export function spawnOnTerminal(
  command: string,
  env: NodeJS.ProcessEnv = process.env,
): ChildProcessByStdio<Writable, Readable, null> {
  return spawn('python3', ['-c', source, command], { env, stdio: ['pipe', 'pipe', 'inherit'] });
}
