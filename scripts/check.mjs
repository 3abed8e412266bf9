// npm run check: static checks of the sources and the package; `--native`: of the C++. All steps
// run, so that one run shows all failures.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fail, root } from './lib.mjs';
import { requireTools } from './suites.mjs';

const bin = (name) => join(root, 'node_modules', '.bin', name);
const native = [
  ['clang-format', process.execPath, [join(root, 'scripts', 'format-native.mjs'), '--check']],
  ['clang-tidy', process.execPath, [join(root, 'scripts', 'tidy-native.mjs')]],
];
const steps = [
  ['biome', bin('biome'), ['check', '.']],
  ['tsc', bin('tsc'), ['-p', '.']],
  ['tsc of the page', bin('tsc'), ['-p', 'src/cli/web/page']],
  ['tidy', bin('vitest'), ['run', 'test/tidy.test.ts', 'test/docs.test.ts']],
  ['knip', bin('knip'), ['--no-progress']],
  ['publint', bin('publint'), ['--strict']],
];

const isNative = process.argv.includes('--native');
if (isNative) requireTools('check:native');
const failed = [];
for (const [name, command, args] of isNative ? native : steps) {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: 'inherit' });
  if (error !== undefined) console.error(`${name}: ${error.message}`);
  console.log(`check: ${name} ${status === 0 ? 'ok' : 'FAILED'}`);
  if (status !== 0) failed.push(name);
}
if (failed.length > 0) fail(`check: failed: ${failed.join(', ')}`);
