// Extensions of the example: what they print, how they finish, and how a user cancels them.
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { until } from '../support/contract.ts';
import { failureOf, home, hosting } from '../support/extension-host.ts';
import { scratchDirectory } from '../support/programs.ts';
import { spawnOnTerminal } from '../support/terminal.ts';

/** A folder with one extension, `mine`, whose module is `code`. */
function extensionOf(commands: string[], code: string) {
  const scratch = scratchDirectory();
  mkdirSync(scratch.file('mine'));
  const manifest = { main: 'index.mjs', commands: commands.map((each) => `mine.${each}`) };
  writeFileSync(scratch.file('mine/extension.json'), JSON.stringify(manifest));
  writeFileSync(scratch.file('mine/index.mjs'), code);
  return scratch;
}

describe('the output of an extension', () => {
  it('reaches its log: console, the streams of its process, the error that ends it', async () => {
    using extensions = extensionOf(
      ['print', 'crash'],
      `console.log('loaded');
      export function activate({ commands }) {
        commands.register('mine.print', () => {
          console.log('two\\nlines');
          console.error('a %s', 'warning');
          process.stdout.write('past console\\n');
        });
        commands.register('mine.crash', () => setImmediate(() => { throw new Error('no luck'); }));
      }`,
    );
    await hosting(
      async (host, row) => {
        await host.run('mine.print');
        const expected = ['loaded', 'two', 'lines', 'error: a warning', 'stdout: past console'];
        await until(() => expected.every((line) => row('mine').log.includes(line)));
        await host.run('mine.crash').catch(() => undefined);
        await until(() => row('mine').log.includes('stderr: Error: no luck'));
      },
      {},
      extensions.path,
    );
  });

  it('waits in bounded memory where it comes faster than the host takes it', async () => {
    using extensions = extensionOf(
      ['print'],
      `export function activate({ commands }) {
        commands.register('mine.print', () => {
          for (let line = 0; line < 100_000; line += 1) console.log('line ' + line);
        });
      }`,
    );
    await hosting(
      async (host, row) => {
        await host.run('mine.print');
        await until(() => row('mine').logged > 1_000);
        // 1,000 lines were on their way, and the rest was counted.
        expect(row('mine').log.at(-1)).toBe(
          '99000 more lines were printed faster than the host takes them',
        );
        expect(row('mine').logged).toBe(1_001);
      },
      {},
      extensions.path,
    );
  });

  it('of an ordinary amount arrives whole and in order', async () => {
    using extensions = extensionOf(
      ['print'],
      `export function activate({ commands }) {
        commands.register('mine.print', () => {
          for (let line = 0; line < 900; line += 1) console.log('line ' + line);
        });
      }`,
    );
    await hosting(
      async (host, row) => {
        await host.run('mine.print');
        await until(() => row('mine').logged === 900);
        const last = Array.from({ length: 50 }, (_, at) => `line ${850 + at}`);
        expect(row('mine').log).toEqual(last);
      },
      {},
      extensions.path,
    );
  });
});

describe('an extension whose host is closed', () => {
  it('finishes in deactivate(), which the host waits for', async () => {
    using extensions = extensionOf(
      ['go'],
      `let storage;
      export function activate(api) {
        storage = api.storage;
        api.commands.register('mine.go', () => 'gone');
      }
      export async function deactivate() {
        await new Promise((resolve) => setTimeout(resolve, 100));
        await storage.set('state', 'saved');
      }`,
    );
    let stored = () => 0;
    await hosting(
      async (host, row) => {
        stored = () => row('mine').stored;
        await host.run('mine.go');
        expect(stored()).toBe(0);
      },
      { deactivateTimeoutMs: 60_000 },
      extensions.path,
    );
    expect(stored()).toBeGreaterThan(0);
  });

  it.each([
    ['throws', 'throw new Error("not now")'],
    ['never ends', 'await new Promise(() => undefined)'],
  ])('does not hold it up where deactivate() %s', async (how, body) => {
    using extensions = extensionOf(
      ['go'],
      `export function activate({ commands }) { commands.register('mine.go', () => 'gone'); }
      export async function deactivate() { ${body}; }`,
    );
    let log = (): string[] => [];
    await hosting(
      async (host, row) => {
        log = () => row('mine').log;
        await host.run('mine.go');
      },
      { deactivateTimeoutMs: how === 'throws' ? 60_000 : 200 },
      extensions.path,
    );
    if (how === 'throws') expect(log()).toContain('error: deactivate(): not now');
  });
});

describe('a user who cancels', () => {
  it('aborts the signal of the running command, and of a command that it runs', async () => {
    using extensions = extensionOf(
      ['wait'],
      `export function activate({ commands, withProgress }) {
        commands.register('mine.wait', () =>
          withProgress('waiting', async (report, signal) => {
            await report(1, 2);
            await new Promise((resolve) => signal.addEventListener('abort', resolve));
            console.log('told');
          }));
      }`,
    );
    mkdirSync(extensions.file('asker'));
    const manifest = { main: 'index.mjs', commands: ['asker.ask'] };
    writeFileSync(extensions.file('asker/extension.json'), JSON.stringify(manifest));
    writeFileSync(
      extensions.file('asker/index.mjs'),
      `export function activate({ commands }) {
        commands.register('asker.ask', () => commands.execute('mine.wait'));
      }`,
    );
    await hosting(
      async (host, row) => {
        for (const [command, name] of [
          ['mine.wait', 'mine'],
          ['asker.ask', 'asker'],
        ] as const) {
          const told = row('mine').log.length;
          const failure = failureOf(host.run(command));
          await until(() => row('mine').progress.length === 1);
          host.cancel(name);
          expect((await failure).message).toBe('the user cancelled the command');
          await until(() => row('mine').log.length > told);
          await until(() => row('mine').progress.length === 0 && row('mine').running === 0);
        }
        expect(row('mine').log).toEqual(['told', 'told']);
      },
      {},
      extensions.path,
    );
  });

  it('does so with the key beside the progress bar', async () => {
    const program = `stty cols 80 rows 24; exec ${process.execPath} ${join(home, 'main.mjs')} --run indexer.build`;
    const terminal = spawnOnTerminal(program);
    let said = '';
    terminal.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    const exited = new Promise((resolve) => terminal.on('close', resolve));
    await until(() => /indexing [█░]+ \d+ % \[C\]/.test(said));
    terminal.stdin.write('C');
    await until(() => said.includes('indexer.build: the user cancelled the command'));
    terminal.stdin.write('Q');
    expect(await exited).toBe(0);
  });
});

describe('--json', () => {
  it('reports each command of --run, and ends with 1 where one has failed', async () => {
    const args = ['--json', '--run', 'hello.greet,crasher.crash,no.such'];
    const child = spawn(process.execPath, [join(home, 'main.mjs'), ...args]);
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    expect(await new Promise((resolve) => child.on('close', resolve))).toBe(1);
    expect(JSON.parse(said).results).toMatchObject([
      { command: 'hello.greet', state: 'done', result: 'hello, world' },
      { command: 'crasher.crash', state: 'failed', error: { code: 'ERR_SIDECALL_PEER_GONE' } },
      { command: 'no.such', state: 'failed', error: { status: 'not_found' } },
    ]);
  });
});
