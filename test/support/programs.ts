// Real processes: the programs under test/e2e/programs, over the built package.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface RunningProgram extends AsyncDisposable {
  readonly pid: number;
  readonly child: ChildProcess;
  /** The next line of its output, as JSON; rejects where it ends first. */
  readonly next: () => Promise<Record<string, unknown>>;
  readonly tell: (line: string) => void;
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

export function programPath(name: string): string {
  return fileURLToPath(new URL(`../e2e/programs/${name}`, import.meta.url));
}

/** The peer that is not Node; `npm run test:native` builds it. */
export const peerProgram = fileURLToPath(
  new URL('../../build/core-tests/native/peer', import.meta.url),
);

/** The peer that writes invalid words into its rings. */
export const ringPeerProgram = fileURLToPath(
  new URL('../../build/core-tests/native/ring_peer', import.meta.url),
);

/** Starts a program whose output is JSON lines. The scope that holds it ends it. */
export function startProgram(
  name: string,
  args: readonly string[] = [],
  options: { env?: NodeJS.ProcessEnv; command?: string; uid?: number; gid?: number } = {},
): RunningProgram {
  const command = options.command ?? process.execPath;
  if (isAbsolute(command) && !existsSync(command))
    throw new Error(`${command} is missing: run "npm run test:native" first`);
  const prefix = command === process.execPath ? [programPath(name)] : [];
  const child = spawn(command, [...prefix, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...options.env },
    uid: options.uid,
    gid: options.gid,
  });
  const lines: string[] = [];
  const waiting: ((line: string | undefined) => void)[] = [];
  let isEnded = false;
  const reader = createInterface({ input: child.stdout });
  reader.on('line', (line) => {
    const waiter = waiting.shift();
    if (waiter === undefined) lines.push(line);
    else waiter(line);
  });
  reader.on('close', () => {
    isEnded = true;
    for (const waiter of waiting.splice(0)) waiter(undefined);
  });
  child.stdin.on('error', () => undefined);
  const exited = once(child, 'close').then(([code, signal]) => ({ code, signal }));
  return {
    pid: child.pid as number,
    child,
    exited,
    tell: (line) => child.stdin.write(`${line}\n`),
    next: async () => {
      const line = lines.shift();
      const text =
        line ??
        (isEnded ? undefined : await new Promise<string | undefined>((done) => waiting.push(done)));
      if (text === undefined) throw new Error(`${name} ended without another line`);
      return JSON.parse(text);
    },
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

/** A directory of mode 0700, removed with the scope. */
export function scratchDirectory(): Disposable & { path: string; file: (name: string) => string } {
  const path = mkdtempSync(join(tmpdir(), 'scratch-'));
  return {
    path,
    file: (name) => join(path, name),
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}

/** Fails a test that needs two users where the process is not root; it is never skipped. */
export function requireRoot(): void {
  if (process.geteuid?.() === 0) return;
  throw new Error('this test drops to another user and so needs root: run it with sudo');
}
