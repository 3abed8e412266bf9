// clang-format over the C++ sources; with --check it changes nothing and fails on a difference.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fail, root } from './lib.mjs';

const folders = [
  'base',
  'os',
  'ring',
  'binding',
  'test',
  'test/fuzz',
  'test/programs',
  'test/schedule/ring',
];
const files = folders.flatMap((folder) =>
  readdirSync(join(root, 'native', folder))
    .filter((name) => /\.(h|cc)$/.test(name))
    .map((name) => join('native', folder, name)),
);
const mode = process.argv.includes('--check') ? ['--dry-run', '--Werror'] : ['-i'];
const { status, error } = spawnSync('clang-format', [...mode, ...files], {
  cwd: root,
  stdio: 'inherit',
});
if (error !== undefined)
  fail('clang-format is missing: install it with "apt-get install clang-format"');
process.exit(status ?? 1);
