// Builds and runs the native unit tests. `--sanitize` builds them with ASan and UBSan,
// `--sanitize=thread` with TSan. `--addon` builds the addon with ASan and UBSan, and ends sessions
// in it. `--programs` builds only what tests in JavaScript start.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fail, root } from './lib.mjs';

const sanitizers = {
  '--sanitize': { folder: 'core-tests-sanitized', value: 'address,undefined' },
  '--sanitize=thread': { folder: 'core-tests-thread', value: 'thread' },
};
const [option] = process.argv.slice(2);
const sanitizer = sanitizers[option];
const buildsPrograms = option === '--programs';
if (option === '--addon') {
  endSessionsUnderSanitizers();
  process.exit();
}
if (option !== undefined && sanitizer === undefined && !buildsPrograms) {
  const known = ['--programs', '--addon', ...Object.keys(sanitizers)].join(', ');
  fail(`unknown option ${option}; there are ${known}`);
}
const folder = join(root, 'build', sanitizer?.folder ?? 'core-tests');
// Optimized code runs with TSan, in test:ring, and in the addon of all tests in JavaScript.
const type = option === '--sanitize=thread' ? 'RelWithDebInfo' : 'Debug';
const settings = ['-DSIDECALL_TESTS=ON', `-DCMAKE_BUILD_TYPE=${type}`];
if (sanitizer !== undefined) settings.push(`-DSIDECALL_SANITIZE=${sanitizer.value}`);

/** Runs cmake; its output is shown only where it fails. */
function step(args) {
  const done = spawnSync('cmake', args, { cwd: root, encoding: 'utf8' });
  if (done.error) fail(`cmake: ${done.error.message}; install it with "apt-get install cmake g++"`);
  if (done.status !== 0) fail(`${done.stdout}${done.stderr}`);
}

step(['-S', root, '-B', folder, ...settings]);
const targets = buildsPrograms ? ['--target', 'peer', 'ring_peer'] : [];
step(['--build', folder, '--parallel', '2', ...targets]);
if (buildsPrograms) process.exit();
const programs = ['core_tests', 'call_faults']
  .map((name) => join(folder, 'native', name))
  .filter((program, at) => at === 0 || existsSync(program));
for (const program of programs) run(program, []);

function run(program, args, env = {}) {
  const tests = spawnSync(program, args, { stdio: 'inherit', env: { ...process.env, ...env } });
  if (tests.status !== 0) process.exit(tests.status ?? 1);
}

/**
 * Builds the addon with the sanitizers, and ends sessions in it amid a thousand reads and leases,
 * again and again. Node is built without them, so their libraries are loaded before it.
 */
function endSessionsUnderSanitizers() {
  if (!existsSync(join(root, 'dist', 'index.js'))) fail('run "npm run build:ts" before it');
  const { value } = sanitizers['--sanitize'];
  const out = join(root, 'build', 'addon-sanitized');
  const cmakeJs = createRequire(import.meta.url).resolve('cmake-js/bin/cmake-js');
  const build = [cmakeJs, 'compile', '--directory', root, '--out', out];
  const settings = [`--CDSIDECALL_SANITIZE=${value}`, '--CDSIDECALL_TESTS=OFF'];
  const done = spawnSync(process.execPath, [...build, ...settings], {
    cwd: root,
    encoding: 'utf8',
  });
  if (done.status !== 0) fail(`${done.stdout}${done.stderr}`);
  const libraries = ['libasan.so', 'libubsan.so'].map((name) => {
    const found = spawnSync('cc', [`-print-file-name=${name}`], { encoding: 'utf8' });
    return found.stdout.trim();
  });
  const program = join(root, 'test', 'e2e', 'programs', 'teardown.mjs');
  const times = process.env.SIDECALL_LONG === '1' ? '1000' : '100';
  run(process.execPath, ['--expose-gc', program, times], {
    SIDECALL_NATIVE: join(out, 'Release', 'sidecall.node'),
    LD_PRELOAD: libraries.join(':'),
    // Memory that Node itself does not free at its end is no leak of the addon.
    ASAN_OPTIONS: 'detect_leaks=0',
  });
}
