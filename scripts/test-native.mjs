// Builds and runs the native unit tests. `--sanitize` puts ASan and UBSan into them.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fail, root } from './lib.mjs';

const isSanitized = process.argv.includes('--sanitize');
const folder = join(root, 'build', isSanitized ? 'core-tests-sanitized' : 'core-tests');
const settings = [
  '-DSIDECALL_TESTS=ON',
  `-DCMAKE_BUILD_TYPE=${isSanitized ? 'Debug' : 'RelWithDebInfo'}`,
];
if (isSanitized) settings.push('-DSIDECALL_SANITIZE=address,undefined');

/** Quiet unless it fails. */
function step(args) {
  const done = spawnSync('cmake', args, { cwd: root, encoding: 'utf8' });
  if (done.error) fail(`cmake: ${done.error.message}; install it with "apt-get install cmake g++"`);
  if (done.status !== 0) fail(`${done.stdout}${done.stderr}`);
}

step(['-S', root, '-B', folder, ...settings]);
step(['--build', folder, '--parallel', '2']);
const tests = spawnSync(join(folder, 'native', 'core_tests'), [], { stdio: 'inherit' });
process.exit(tests.status ?? 1);
