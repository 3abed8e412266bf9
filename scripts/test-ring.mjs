// The ring under stress, sanitizers and a fuzzer, and controls with a planted bug, which have to be
// found. npm run test:ring -- [NAME …] runs some of them; --list names them; --short runs a tenth
// of what only repeats. The models (npm run test:models) are checks, too.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fail, root } from './lib.mjs';
import { requireTools } from './suites.mjs';

const args = process.argv.slice(2);
const isShort = args.includes('--short');
/** A number of rounds or seconds, as an argument of a program. */
const rounds = (long) => String(isShort ? Math.ceil(long / 10) : long);

const plain = 'core-tests';
const address = 'core-tests-sanitized';
const thread = 'core-tests-thread';
const fuzz = 'core-tests-fuzz';
const builds = {
  [plain]: ['-DCMAKE_BUILD_TYPE=RelWithDebInfo'],
  [address]: ['-DCMAKE_BUILD_TYPE=Debug', '-DSIDECALL_SANITIZE=address,undefined'],
  [thread]: ['-DCMAKE_BUILD_TYPE=RelWithDebInfo', '-DSIDECALL_SANITIZE=thread'],
  [fuzz]: [
    '-DCMAKE_BUILD_TYPE=RelWithDebInfo',
    '-DSIDECALL_SANITIZE=address,undefined',
    '-DSIDECALL_FUZZ=ON',
    '-DCMAKE_CXX_COMPILER=clang++',
  ],
};
const corpus = join(root, 'native', 'test', 'fuzz', 'corpus', 'ring');
const scratch = join(root, 'build', 'fuzz');
/** Seeded bugs of `model/` that a turn of the simulation hides: orders within one native call. */
const orders = [
  'publish-unordered',
  'release-unordered',
  'announce-unordered',
  'wait-unordered',
  'look-then-announce',
  'cursor-before-payload',
  'cursor-relaxed',
];

/**
 * The checks by name: `build`, `run` or `command`, and `finds` where a planted bug has to be found.
 * Checks with `hasOneThread` run in parallel, after the others.
 */
const checks = {
  'stress-records': { build: plain, run: ['ring_stress', 'records', rounds(100_000_000)] },
  'stress-sleeps': { build: plain, run: ['ring_stress', 'sleeps', rounds(1_000_000)] },
  'stress-weak-order-wedges': { build: plain, run: ['ring_stress_weak', 'wedge', '60'] },
  schedule: { build: plain, run: ['ring_schedule', rounds(50_000)] },
  ...Object.fromEntries(
    orders.map((bug) => [
      `schedule-${bug}-is-found`,
      { build: plain, run: ['ring_schedule', '20000', bug], finds: /schedule \d+: / },
    ]),
  ),
  'race-thread-sanitizer': { build: thread, run: ['ring_race', rounds(100_000), rounds(20_000)] },
  'race-relaxed-order-is-reported': {
    build: thread,
    run: ['ring_race_relaxed', '10000', '2000'],
    finds: /ThreadSanitizer: data race/,
  },
  'flip-address-sanitizer': { build: address, run: ['ring_flip', rounds(10)] },
  'flip-unchecked-size-is-reported': {
    build: address,
    run: ['ring_flip_unchecked', '60'],
    finds: /AddressSanitizer/,
  },
  'fuzz-corpus': { build: fuzz, run: ['ring_fuzz', corpus, '-runs=0'] },
  fuzz: {
    build: fuzz,
    hasOneThread: true,
    run: [
      'ring_fuzz',
      scratch,
      corpus,
      '-runs=10000000',
      `-max_total_time=${rounds(60)}`,
      '-print_final_stats=1',
    ],
  },
  'fuzz-unchecked-size-is-found': {
    build: fuzz,
    run: [
      'ring_fuzz_unchecked',
      scratch,
      corpus,
      '-max_total_time=60',
      `-artifact_prefix=${scratch}/`,
    ],
    // Memory for a record of 4 GiB is one of the ways in which the bug shows.
    finds: /AddressSanitizer|libFuzzer: (deadly signal|out-of-memory)/,
  },
  'shmipc-fuzz': {
    build: fuzz,
    hasOneThread: true,
    run: ['shmipc_fuzz', `-max_total_time=${rounds(30)}`, '-print_final_stats=1'],
  },
  'shmipc-fuzz-unchecked-slice-is-found': {
    build: fuzz,
    run: ['shmipc_fuzz_unchecked', '-max_total_time=60', `-artifact_prefix=${root}/build/`],
    finds: /AddressSanitizer|libFuzzer: deadly signal/,
  },
  'model-store-buffers': { hasOneThread: true, command: ['python3', 'model/ring_model.py'] },
  'model-spin': { hasOneThread: true, command: ['bash', 'model/check.sh'] },
};

const names = args.filter((argument) => argument !== '--short');
if (names.includes('--list')) {
  console.log(Object.keys(checks).join('\n'));
  process.exit(0);
}
requireTools(names.some((name) => name.startsWith('model-')) ? 'test:models' : 'test:ring');
const unknown = names.find((name) => !(name in checks));
if (unknown !== undefined) fail(`no check '${unknown}'; --list names them`);

const configured = new Set();
const failed = [];
const wanted = Object.keys(checks).filter((name) =>
  names.length === 0 ? !name.startsWith('model-') : names.includes(name),
);
for (const name of wanted) {
  const { build: folder, run: program } = checks[name];
  if (folder !== undefined) build(folder, program[0]);
}
for (const name of wanted) if (!checks[name].hasOneThread) await judge(name);
const waiting = wanted.filter((name) => checks[name].hasOneThread);
await Promise.all(Array.from({ length: availableParallelism() }, judgeWaiting));
if (failed.length > 0) fail(`test:ring: ${failed.join(', ')}`);

async function judgeWaiting() {
  for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) await judge(name);
}

async function judge(name) {
  const begun = performance.now();
  const { isGood, words } = await run(name, checks[name]);
  const seconds = ((performance.now() - begun) / 1000).toFixed(1);
  console.log(`${words}${isGood ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)`);
  if (!isGood) failed.push(name);
}

function build(folder, program) {
  const path = join(root, 'build', folder);
  if (!configured.has(folder))
    step(['-S', root, '-B', path, '-DSIDECALL_TESTS=ON', ...builds[folder]]);
  configured.add(folder);
  step(['--build', path, '--parallel', '2', '--target', program]);
}

function step(args) {
  const done = spawnSync('cmake', args, { cwd: root, encoding: 'utf8' });
  if (done.error) fail(`cmake: ${done.error.message}; install it with "apt-get install cmake g++"`);
  if (done.status !== 0) fail(`${done.stdout}${done.stderr}`);
}

/** Runs one check. `words`: the end of its output; empty for a bug that was found. */
async function run(name, { build: folder, run: program, command, finds }) {
  mkdirSync(scratch, { recursive: true });
  const [file, ...args] = command ?? [
    join(root, 'build', folder, 'native', program[0]),
    ...program.slice(1),
  ];
  // Without address randomization, since the sanitizers' shadow does not fit into every layout of
  // the kernel.
  // The first report is enough: each takes seconds, for the names of its functions.
  const env = { ...process.env, TSAN_OPTIONS: 'halt_on_error=1' };
  const child = spawn('setarch', ['-R', file, ...args], { cwd: root, env });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      said += text;
    });
  }
  const status = await new Promise((resolve) => {
    child.on('error', ({ message }) =>
      fail(`setarch: ${message}; install it with "apt-get install util-linux"`),
    );
    child.on('close', resolve);
  });
  if (name.startsWith('fuzz')) rmSync(scratch, { recursive: true, force: true });
  const isGood = finds === undefined ? status === 0 : status !== 0 && finds.test(said);
  if (isGood && finds !== undefined) return { isGood, words: '' };
  const tail = said
    .trimEnd()
    .split('\n')
    .slice(isGood ? -3 : -40);
  return { isGood, words: tail.map((line) => `       ${line}\n`).join('') };
}
