// The defaults of a session, which depend on the machine and on the host program.
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';

const module = JSON.stringify(
  new URL('../../dist/internal/open/configure.js', import.meta.url).href,
);

/** The poll budget of a fresh process, after some preparation. */
function budgetOf(
  preparation: string,
  prefix: readonly string[] = [],
  wanted = 'undefined',
): number {
  const code = `${preparation}; const { pollBudgetOf } = await import(${module}); console.log(pollBudgetOf(${wanted}));`;
  const command = [...prefix, process.execPath, '--input-type=module', '-e', code];
  const { stdout, stderr } = spawnSync(command[0] as string, command.slice(1), {
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  return Number(stdout);
}

/** Runs the rest of a command on one processor. */
const onOneProcessor = [
  'python3',
  '-c',
  'import os, sys; os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1]); os.execvp(sys.argv[1], sys.argv[1:])',
];

const electron = (type: string): string =>
  `Object.defineProperty(process, 'versions', { value: { ...process.versions, electron: '40.0.0' } });
   process.type = '${type}'`;

describe('the poll budget where nobody says', () => {
  it('is 50 µs on two processors, and nothing on one', () => {
    expect(budgetOf('')).toBe(50);
    expect(budgetOf('', onOneProcessor)).toBe(0);
  });

  it("is nothing in Electron's main process, where a turn is dear, and 50 µs in its others", () => {
    expect(budgetOf(electron('browser'))).toBe(0);
    expect(budgetOf(electron('utility'))).toBe(50);
  });

  it('is what the process that started us advises, where it is a budget', () => {
    const advised = (text: string): string =>
      `const { advisePollBudget } = await import(${module}); advisePollBudget('${text}')`;
    expect(budgetOf(advised('0'))).toBe(0);
    expect(budgetOf(advised('20'), [], '3')).toBe(3);
    for (const text of ['-1', '1001', 'much', '0.5']) expect(budgetOf(advised(text))).toBe(50);
    expect(
      budgetOf(
        `const c = await import(${module}); c.advisePollBudget('0'); c.configure({ pollBudgetUs: 7 })`,
      ),
    ).toBe(7);
  });

  it('is what configure() says, and a session may say otherwise', () => {
    const configured = `const { configure } = await import(${module}); configure({ pollBudgetUs: 7 })`;
    expect(budgetOf(configured, onOneProcessor)).toBe(7);
    expect(budgetOf(configured, [], '3')).toBe(3);
  });
});
