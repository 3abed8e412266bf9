// Builds and runs the native unit tests. `--sanitize` builds them with ASan and UBSan,
// `--sanitize=thread` with TSan.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fail, root } from './lib.mjs';

const sanitizers = {
  '--sanitize': { folder: 'core-tests-sanitized', value: 'address,undefined' },
  '--sanitize=thread': { folder: 'core-tests-thread', value: 'thread' },
};
const [option] = process.argv.slice(2);
const sanitizer = sanitizers[option];
if (option !== undefined && sanitizer === undefined) {
  fail(`unknown option ${option}; there are ${Object.keys(sanitizers).join(' and ')}`);
}
const folder = join(root, 'build', sanitizer?.folder ?? 'core-tests');
const type = option === '--sanitize' ? 'Debug' : 'RelWithDebInfo';
const settings = ['-DSIDECALL_TESTS=ON', `-DCMAKE_BUILD_TYPE=${type}`];
if (sanitizer !== undefined) settings.push(`-DSIDECALL_SANITIZE=${sanitizer.value}`);

/** Runs cmake; its output is shown only where it fails. */
function step(args) {
  const done = spawnSync('cmake', args, { cwd: root, encoding: 'utf8' });
  if (done.error) fail(`cmake: ${done.error.message}; install it with "apt-get install cmake g++"`);
  if (done.status !== 0) fail(`${done.stdout}${done.stderr}`);
}

step(['-S', root, '-B', folder, ...settings]);
step(['--build', folder, '--parallel', '2']);
const programs = ['core_tests', 'call_faults']
  .map((name) => join(folder, 'native', name))
  .filter((program, at) => at === 0 || existsSync(program));
for (const program of programs) {
  const tests = spawnSync(program, [], { stdio: 'inherit' });
  if (tests.status !== 0) process.exit(tests.status ?? 1);
}
