// Programs that end, in each way, while what they have started through us stands at each moment:
// nothing of that is left.
import { appendFileSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { until } from '../support/contract.ts';
import { isRunning, isZombie } from '../support/helper.ts';
import { scratchDirectory, startProgram } from '../support/programs.ts';

const helperMoments = [
  'before the import',
  'before parent()',
  'with a session',
  'debugger',
  'not Node',
];
const relays = ['relay', 'relay of a wrapper'];
const silent = ['debugger', 'not Node'];

interface Case {
  readonly moment: string;
  readonly place: 'main thread' | 'worker';
  readonly end: NodeJS.Signals | 'terminate()';
}

function allCases(): Case[] {
  const signals = ['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP'] as const;
  const ofMain = [...helperMoments, ...relays].flatMap((moment) =>
    signals.map((end) => ({ moment, place: 'main thread', end }) as const),
  );
  const ofWorkers = [...helperMoments, ...relays].flatMap((moment) =>
    (['SIGKILL', 'terminate()'] as const).map((end) => ({ moment, place: 'worker', end }) as const),
  );
  const stops = ['with a session', ...relays].map(
    (moment) => ({ moment, place: 'main thread', end: 'SIGUSR2' }) as const,
  );
  return [...ofMain, ...ofWorkers, ...stops];
}

/** The processes that a process has started, and those that they have. */
function descendantsOf(pid: number): number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1')
      .split(' ')
      .filter(Boolean)
      .map(Number),
  );
  return children.flatMap((child) => [child, ...descendantsOf(child)]);
}

async function isLeftBehind({ moment, place, end }: Case): Promise<void> {
  using scratch = scratchDirectory();
  const file = scratch.file('ready');
  appendFileSync(file, '');
  await using app = startProgram('left/app.mjs', [moment, place], { env: { PIDS: file } });
  const isReady = (): boolean =>
    silent.includes(moment)
      ? descendantsOf(app.pid).some((pid) => /inspect-brk|sleep/.test(commandOf(pid)))
      : readFileSync(file, 'utf8') !== '';
  await until(isReady);
  const started = descendantsOf(app.pid);
  expect(started.length).toBeGreaterThan(relays.includes(moment) ? 1 : 0);
  if (end === 'terminate()') app.tell('');
  else app.child.kill(end);
  if (end === 'terminate()') await until(() => started.every((pid) => !isRunning(pid)));
  else await until(() => started.every((pid) => !isRunning(pid) || isZombie(pid)));
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
}

describe('a program that ends', () => {
  it.each([...helperMoments, ...relays])('leaves nothing of %s', async (moment) => {
    const cases = allCases().filter((one) => one.moment === moment);
    await Promise.all(cases.map(isLeftBehind));
  });
});

it('a worker that is terminated leaves no file of its listeners, however they listen', async () => {
  using scratch = scratchDirectory();
  const paths = [scratch.file('a.sock'), scratch.file('b.sock')];
  await using app = startProgram('left/listeners.mjs', paths);
  const { directories } = (await app.next()) as { directories: string[] };
  expect(directories.every((directory) => existsSync(directory))).toBe(true);
  app.tell('terminate');
  await app.next();
  expect(directories.filter((directory) => existsSync(directory))).toEqual([]);
  expect(readdirSync(scratch.path)).toEqual(['b.sock']); // unlinkOnClose: false
  expect(app.child.exitCode).toBeNull();
});
