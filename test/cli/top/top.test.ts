// `sidecall top` as a user runs it: as text, as JSON, and on a terminal with keys.
import { spawn } from 'node:child_process';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { scratchDirectory, startProgram } from '../../support/programs.ts';
import { spawnOnTerminal } from '../../support/terminal.ts';

const main = resolve(import.meta.dirname, '../../../dist/cli/main.js');

async function startInspected(runtime: string) {
  const env = { XDG_RUNTIME_DIR: runtime, SIDECALL_INSPECT: '1' };
  const told = JSON.stringify({ path: join(runtime, 's') });
  const program = startProgram('inspected.mjs', [told], { env });
  await program.next();
  return program;
}

async function run(runtime: string, args: string[], onOutput?: () => void) {
  const env = { ...process.env, XDG_RUNTIME_DIR: runtime };
  const child = spawn(process.execPath, [main, 'top', ...args], { env });
  child.stdout.on('data', () => onOutput?.());
  const status = new Promise<number | null>((done) => child.once('close', done));
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { stdout, stderr, status: await status };
}

it('prints a table for each look, and with --json a line', async () => {
  using runtime = scratchDirectory();
  await using program = await startInspected(runtime.path);
  const often = ['--interval', '100', '--count', '2'];
  const table = await run(runtime.path, [String(program.pid), ...often]);
  expect(table).toMatchObject({ stderr: '', status: 0 });
  expect(table.stdout.match(/^process \d+ · Node v/gm)).toHaveLength(2);
  expect(table.stdout).toMatch(/^ {7}1 .* ring .*stream-window 1$/m);
  const json = await run(runtime.path, [join(runtime.path, 's'), ...often, '--json']);
  const [, second] = json.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(second.pid).toBe(program.pid);
  expect(second.sessions).toHaveLength(2);
  expect(second.sessions[0]).toMatchObject({ lane: 'ring', callsPerSecond: 0 });
});

it('draws on a terminal, looks into a session, and gives the terminal back', async () => {
  using runtime = scratchDirectory();
  await using program = await startInspected(runtime.path);
  const command = `stty cols 140 rows 40; ${process.execPath} ${main} top ${program.pid} --interval 100`;
  const env = { ...process.env, XDG_RUNTIME_DIR: runtime.path };
  const terminal = spawnOnTerminal(command, env);
  const ended = new Promise<number | null>((done) => terminal.once('close', done));
  let screen = '';
  const shows = async (words: RegExp, key: string): Promise<void> => {
    for await (const part of terminal.stdout.iterator({ destroyOnReturn: false })) {
      screen += String(part);
      if (words.test(screen)) break;
    }
    expect(screen).toMatch(words);
    screen = '';
    terminal.stdin.write(key);
  };
  await shows(/stream-window 1[\s\S]*look inside/, 'i');
  await shows(/sorted by id/, '\r');
  await shows(/Work\.flow/, 'q');
  for await (const part of terminal.stdout) screen += String(part);
  expect(await ended).toBe(0);
  expect(screen).toContain('\u001b[?1049l'); // the screen of the shell
  expect(screen).toContain('\u001b[?25h'); // and its cursor
});

it('ends with words where the process ends', async () => {
  using runtime = scratchDirectory();
  await using program = await startInspected(runtime.path);
  const args = [String(program.pid), '--interval', '100'];
  const { stderr, status } = await run(runtime.path, args, () => {
    process.kill(program.pid, 'SIGKILL'); // it has shown the process, and looks again
  });
  expect(stderr).toMatch(/there is no process|has ended|ended while it was looked into/);
  expect(status).toBe(1);
});
