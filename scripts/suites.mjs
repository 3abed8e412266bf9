// The suites of tests: what each finds, what it needs, and its size in the gate (`.ci/run`) and in
// the long run (`.ci/long`). `npm test` ends with this list; `--packages` prints what Debian calls
// the tools of the gate, `--changed NAME` ends with 0 where the inputs of a suite have changed.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fail, root } from './lib.mjs';

/** Tools of suites, and Debian's packages that have them. */
const packages = {
  'aarch64 libraries': 'libc6-arm64-cross libstdc++6-arm64-cross libatomic1-arm64-cross',
  chromium: 'chromium',
  'clang++': 'clang',
  'clang-format': 'clang-format',
  'clang-tidy': 'clang-tidy',
  cmake: 'cmake',
  'g++': 'g++',
  go: 'golang',
  mount: 'mount',
  nm: 'binutils',
  patchelf: 'patchelf',
  pip: 'python3-pip',
  python3: 'python3',
  'qemu-aarch64': 'qemu-user',
  'redis-cli': 'redis-tools',
  'redis-server': 'redis-server',
  setarch: 'util-linux',
  spin: 'spin',
  strace: 'strace',
  tshark: 'tshark',
  unshare: 'util-linux',
};

/**
 * Each suite by the npm script that runs it. `files`: tests for vitest that `npm test` leaves out.
 * `inputs`: the gate runs all of the suite only where one of these has changed since the long run.
 */
export const suites = JSON.parse(readFileSync(join(root, 'scripts', 'suites.json'), 'utf8'));

/** Is the tool there? */
function has(tool) {
  if (tool === 'root') return process.geteuid() === 0;
  if (tool === 'aarch64 libraries') return existsSync('/usr/aarch64-linux-gnu/lib/libatomic.so.1');
  if (tool === 'pip') {
    return spawnSync('python3', ['-m', 'pip', '--version'], { stdio: 'ignore' }).status === 0;
  }
  return spawnSync('sh', ['-c', `command -v "${tool}"`], { stdio: 'ignore' }).status === 0;
}

/** Ends with one line that says what a suite needs and this machine does not have. */
export function requireTools(name) {
  const missing = suites[name].needs.filter((tool) => !has(tool));
  if (missing.length === 0) return;
  const wanted = [...new Set(missing.map((tool) => packages[tool]).filter(Boolean))];
  const remedies = [
    ...(wanted.length > 0 ? [`apt-get install ${wanted.join(' ')}`] : []),
    ...(missing.includes('root') ? [`sudo env "PATH=$PATH" npm run ${name}`] : []),
  ];
  fail(`${name} needs ${missing.join(', ')}: ${remedies.join('; ')}`);
}

/** The results of the long run: the page that lists them is made from this file. */
export const resultsFile = join(root, 'test', 'long-run.json');

export function readResults() {
  return existsSync(resultsFile) ? JSON.parse(readFileSync(resultsFile, 'utf8')) : {};
}

/** A hash of the files that a suite depends on, as committed; undefined: it depends on all. */
export function inputsOf(name, commit = 'HEAD') {
  const { inputs } = suites[name];
  if (inputs === undefined) return undefined;
  const args = ['ls-tree', '-r', commit, '--', ...inputs];
  const { stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 26 });
  // The page that each long run writes is no document whose change matters.
  const files = stdout.split('\n').filter((line) => !line.endsWith('docs/testing/long-run.md'));
  return createHash('sha256').update(files.join('\n')).digest('hex').slice(0, 16);
}

/** Have the inputs of the suite changed since the long run has passed it? */
function hasChanged(name) {
  const { inputs, isPassed } = readResults()[name] ?? {};
  return inputs === undefined || !isPassed || inputs !== inputsOf(name);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [option, name] = process.argv.slice(2);
  if (option === '--packages') {
    const missing = Object.values(suites).flatMap(({ needs }) =>
      needs.filter((tool) => !has(tool)),
    );
    console.log([...new Set(missing.map((tool) => packages[tool]).filter(Boolean))].join(' '));
  } else if (option === '--changed') {
    process.exit(hasChanged(name) ? 0 : 1);
  } else {
    console.log('\nFurther suites, each a command of its own:\n');
    for (const [script, { finds, needs }] of Object.entries(suites).slice(1)) {
      const tools = needs.length === 0 ? '' : ` (needs ${needs.join(', ')})`;
      console.log(`  npm run ${script.padEnd(20)} ${finds}${tools}`);
    }
  }
}
