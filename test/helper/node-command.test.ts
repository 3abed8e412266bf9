import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, expect, it } from 'vitest';
import { commandOf, inheritable, waitsForDebugger } from '../../src/helper/node-command.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { scratchDirectory } from '../support/programs.ts';

const before = [...process.execArgv];
afterEach(() => {
  process.execArgv = [...before];
});

it('hands the options of Node on, without those of this process alone', () => {
  expect(
    inheritable([
      ...['--import', 'tsx', '--inspect-brk=0', '--inspect', '-e', 'code()', '--expose-gc'],
      ...['--test', '--watch-path', './x', '--inspect-port', '9230', '--input-type=module'],
      ...['--max-old-space-size=100', '-r', './hook.cjs', '--print', '-c', '--run', 'build'],
    ]),
  ).toEqual([
    ...['--import', 'tsx', '--expose-gc'],
    ...['--max-old-space-size=100', '-r', './hook.cjs'],
  ]);
});

it('runs a module on our Node, and our Node with our options', () => {
  process.execArgv = ['--import', 'tsx', '--inspect'];
  const url = pathToFileURL('/a folder/helper.ts');
  const ours = { command: process.execPath };
  expect(commandOf(url, ['x'], undefined)).toEqual({
    ...ours,
    args: ['--import', 'tsx', '/a folder/helper.ts', 'x'],
  });
  expect(commandOf(process.execPath, ['h.mjs'], undefined)).toEqual({
    ...ours,
    args: ['--import', 'tsx', 'h.mjs'],
  });
  expect(commandOf(url, [], [])).toEqual({ ...ours, args: ['/a folder/helper.ts'] });
  expect(commandOf('/bin/cat', ['x'], undefined)).toEqual({ command: '/bin/cat', args: ['x'] });
});

it('refuses what is no file, and options of Node for another program', async () => {
  await expect(spawnHelper(new URL('https://example.org/x.mjs'))).rejects.toThrow(
    'takes the URL of a file, got https://',
  );
  await expect(spawnHelper('/bin/cat', [], { execArgv: ['--expose-gc'] })).rejects.toThrow(
    "not for '/bin/cat'",
  );
  await expect(spawnHelper(process.execPath, [], { execArgv: 'x' as never })).rejects.toThrow(
    'execArgv must be a list of strings',
  );
});

it.each([
  [['--inspect-brk', 'x.mjs'], {}, true],
  [['--inspect-wait=0', 'x.mjs'], {}, true],
  [['x.mjs'], { NODE_OPTIONS: '--no-warnings --inspect-brk=9230' }, true],
  [['--inspect', 'x.mjs'], {}, false],
  [['x.mjs'], { NODE_OPTIONS: '--inspect' }, false],
])('%j with %j waits for a debugger: %s', (args, env, waits) => {
  expect(waitsForDebugger(args, env)).toBe(waits);
});

it('a helper by its URL has our options, and those that are given instead', async () => {
  using scratch = scratchDirectory();
  const built = new URL('../../dist/index.js', import.meta.url).href;
  writeFileSync(
    scratch.file('helper.mjs'),
    `import { parent, service, unary } from ${JSON.stringify(built)};
    const session = await parent();
    session.serve(service('Own', { options: unary() }), {
      options: () => [process.execArgv, process.argv.slice(2)],
    });`,
  );
  const Own = service('Own', { options: unary<void, string[][]>() });
  process.execArgv = ['--expose-gc', '--inspect-port=0'];
  const url = pathToFileURL(scratch.file('helper.mjs'));
  await using inherited = await spawnHelper(url, ['word']);
  expect(await inherited.client(Own).options()).toEqual([['--expose-gc'], ['word']]);
  await using given = await spawnHelper(url, [], { execArgv: ['--no-warnings'] });
  expect(await given.client(Own).options()).toEqual([['--no-warnings'], []]);
});

it('takes a file in an archive of Electron from the folder beside it, or says so', async () => {
  using scratch = scratchDirectory();
  const archive = scratch.file('app.asar');
  writeFileSync(archive, 'an archive');
  const inside = (name: string): URL => pathToFileURL(join(archive, 'src', name));
  const beside = join(`${archive}.unpacked`, 'src', 'helper.mjs');
  mkdirSync(dirname(beside), { recursive: true });
  writeFileSync(beside, '');
  expect(commandOf(inside('helper.mjs'), [], []).args).toEqual([beside]);
  expect(commandOf(join(archive, 'src', 'helper.mjs'), [], undefined).command).toBe(beside);
  const refused = { code: 'ERR_SIDECALL_HELPER_FAILED', retryable: false };
  expect(() => commandOf(inside('packed.mjs'), [], [])).toThrow(expect.objectContaining(refused));
  await expect(spawnHelper(inside('packed.mjs'))).rejects.toThrow('unpack it, by asarUnpack');
  // A folder of that name is a folder.
  const folder = scratch.file('plain.asar');
  mkdirSync(folder);
  const plain = join(folder, 'helper.mjs');
  expect(commandOf(pathToFileURL(plain), [], []).args).toEqual([plain]);
  expect('noAsar' in process).toBe(false);
});
