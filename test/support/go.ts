// Programs of Go, which `npm run test:interop` has built.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export function goProgram(name: string): string {
  return fileURLToPath(new URL(`../../build/go/${name}`, import.meta.url));
}

export interface Ran {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program beside this one, which serves it, to its end. */
export function run(command: string, args: readonly string[], input = ''): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: 'pipe' });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (text) => {
      stdout += text;
    });
    child.stderr.on('data', (text) => {
      stderr += text;
    });
    child.on('error', reject);
    // A program that ends before it has read its input is judged by its exit status.
    child.stdin.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') reject(error);
    });
    child.on('close', (status) => resolve({ status, stdout, stderr }));
    child.stdin.end(input);
  });
}
