// The five faults of `examples/it-hangs`: `inspect` names the cause of each, in the lines that
// docs/guide/operations.md shows.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { until } from '../support/contract.ts';
import { scratchDirectory } from '../support/programs.ts';

const root = resolve(import.meta.dirname, '../..');
const guide = readFileSync(join(root, 'docs/guide/operations.md'), 'utf8');

/** The blocks of the guide behind a heading: lines of reports. */
function shownUnder(heading: string): string[][] {
  const [, section = ''] = guide.split(`\n### ${heading}\n`);
  const own = section.split(/\n##/)[0] ?? '';
  return [...own.matchAll(/```text\n([^`]+)```/g)].map(([, block = '']) =>
    block
      .trimEnd()
      .split('\n')
      .map(withoutNumbers)
      .filter((line) => line !== '…'),
  );
}

function withoutNumbers(line: string): string {
  return line.replace(/-?\d[\d,.]*( ms| min \d+ s| s)?/g, 'N').trim();
}

async function inspected(pid: string, env: NodeJS.ProcessEnv): Promise<string[]> {
  const main = join(root, 'dist/cli/main.js');
  const child = spawn(process.execPath, [main, 'inspect', pid], { env });
  const outputs = await Promise.all([text(child.stdout), text(child.stderr)]);
  return outputs.join('').split('\n').map(withoutNumbers);
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // it has ended with its parent
  }
}

/** A fault, its heading, and the process of each block that is shown under it. */
const faults: [string, string, ('main' | 'helper')[]][] = [
  ['unanswered', 'A handler that never answers', ['helper']],
  ['unread', 'A reader that stands still', ['helper', 'main']],
  ['window', 'A window that is used up', ['main', 'helper']],
  ['blocked', 'A blocked event loop', ['helper']],
  ['leases', 'Leases that leak', ['main']],
];

it.each(faults)('%s: inspect prints what the guide shows', async (fault, heading, processes) => {
  using scratch = scratchDirectory();
  const env = { ...process.env, SIDECALL_INSPECT: '1', XDG_RUNTIME_DIR: scratch.path };
  const program = spawn(process.execPath, ['main.mjs', fault], {
    cwd: join(root, 'examples/it-hangs'),
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(program, 'exit');
  let [main, helper]: (string | undefined)[] = [];
  try {
    const [chunk] = await once(program.stdout, 'data');
    program.stdout.resume();
    [, main, helper] = /process (\d+), its helper (\d+)/.exec(String(chunk)) ?? [];
    const shown = shownUnder(heading);
    expect(shown).toHaveLength(processes.length);
    for (const [at, of] of processes.entries()) {
      const pid = (of === 'main' ? main : helper) as string;
      const missing = async (): Promise<string[]> => {
        const lines = await inspected(pid, env);
        return (shown[at] ?? []).filter((line) => !lines.some((each) => each.includes(line)));
      };
      await until(async () => (await missing()).length === 0);
    }
  } finally {
    program.kill('SIGKILL');
    await exited;
    if (helper !== undefined) endProcess(Number(helper)); // it may be busy for a minute
  }
});

it('says which faults there are', async () => {
  const cwd = join(root, 'examples/it-hangs');
  const program = spawn(process.execPath, ['main.mjs', 'nothing'], { cwd });
  const exited = once(program, 'exit');
  expect(await text(program.stderr)).toBe(
    `usage: node main.mjs ${faults.map(([fault]) => fault).join('|')}\n`,
  );
  expect((await exited)[0]).toBe(2);
});
