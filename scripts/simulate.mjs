// npm run sim: runs simulated cases by their seeds, on all processors, and says what was reached.
// A case that fails prints the line that repeats it, and is shrunk to the smallest case that fails
// in the same way, which becomes a test.
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { fail, root } from './lib.mjs';
import { bundleSimulation } from './simulation-bundle.mjs';

const usage = `usage: npm run sim -- [options]
       SEED=n npm run sim -- --workload NAME [--trace]

  --workload NAME    only this one; may be given several times
  --seeds N          cases of each workload; default 500
  --from N           the first seed; default 1
  --minutes N        for this long, in place of --seeds; seeds begin at a random number
  --jobs N           processes; default: one for each processor
  --trace            with SEED: what happened, one line for each frame and turn of events
  --case FILE        a case of test/simulation/regressions/, in place of a seed
  --no-shrink        a case that fails stays as it is
  --coverage         which frame has met which state, and which never
  --json             the result as JSON
  --list             the workloads`;

const options = {
  workload: { type: 'string', multiple: true },
  seeds: { type: 'string', default: '500' },
  from: { type: 'string' },
  minutes: { type: 'string' },
  jobs: { type: 'string', default: String(availableParallelism()) },
  trace: { type: 'boolean' },
  case: { type: 'string' },
  shrink: { type: 'boolean', default: true },
  coverage: { type: 'boolean' },
  json: { type: 'boolean' },
  list: { type: 'boolean' },
  help: { type: 'boolean' },
};
process.stdout.on('error', () => process.exit()); // its reader has enough
const values = parse();
if (values.help === true) {
  console.log(usage);
  process.exit();
}
const program = await bundleSimulation(root, join(root, 'build', 'simulation'));
const known = (await ask(['--list']))[0];
const chosen = workloadsChosen();

if (values.list === true) {
  for (const [name, about] of Object.entries(known.workloads)) {
    console.log(`${name.padEnd(12)} ${about}`);
  }
} else if (values.case !== undefined) {
  await runOne(['--case', values.case]);
} else if (process.env.SEED !== undefined) {
  for (const workload of chosen) {
    await runOne(['--workload', workload, '--seed', String(wholeNumber('SEED', process.env.SEED))]);
  }
} else {
  await runAll();
}

function parse() {
  try {
    return parseArgs({ options, allowNegative: true }).values;
  } catch (error) {
    return fail(`sim: ${error.message}\n\n${usage}`);
  }
}

function workloadsChosen() {
  const names = Object.keys(known.workloads);
  for (const name of values.workload ?? []) {
    if (!names.includes(name)) {
      fail(`sim: there is no workload '${name}'; there are: ${names.join(', ')}`);
    }
  }
  return values.workload ?? names;
}

function wholeNumber(name, text) {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 0) {
    fail(`sim: ${name} must be a whole number, got '${text}'`);
  }
  return number;
}

/** Starts the program; returns its process. */
function start(args, stdio) {
  return spawn(process.execPath, [program, ...args], { cwd: root, stdio });
}

/** The lines that the program prints, as JSON. */
async function ask(args, onLine = () => undefined) {
  const child = start(args, ['ignore', 'pipe', 'inherit']);
  const lines = [];
  const ended = new Promise((resolve) => child.once('close', resolve));
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.startsWith('{')) {
      console.log(line);
      continue;
    }
    lines.push(JSON.parse(line));
    onLine(lines.at(-1));
  }
  const code = await ended;
  if (code !== 0) fail(`sim: the program ended with ${code}: ${args.join(' ')}`);
  return lines;
}

/** Runs a case, given by its seed or file. */
async function runOne(args) {
  const trace = values.trace === true ? ['--trace'] : [];
  const [{ faults, ...run }] = await ask([...args, ...trace]);
  console.log(JSON.stringify(run));
  for (const fault of faults) console.log(`FAULT ${fault}`);
  if (faults.length > 0) process.exitCode = 1;
}

async function runAll() {
  const jobs = Math.max(1, wholeNumber('--jobs', values.jobs));
  const seconds = values.minutes === undefined ? undefined : 60 * Number(values.minutes);
  const from = firstSeed(seconds);
  const seeds = wholeNumber('--seeds', values.seeds);
  const begun = performance.now();
  const total = newTotal();
  for (const workload of chosen) {
    const share = seconds === undefined ? [] : ['--seconds', String(seconds / chosen.length)];
    const work = Array.from({ length: jobs }, (_, job) => {
      const range = ['--from', from + job, '--to', from + seeds - 1, '--step', jobs].map(String);
      return ask(['--workload', workload, ...range, ...share], (report) => {
        add(total, report);
        showProgress(total, { workload, seeds, seconds, begun });
      });
    });
    await Promise.all(work);
  }
  total.seconds = (performance.now() - begun) / 1000;
  clearProgress();
  report(total);
  if (values.shrink !== false) await shrinkFirst(total);
  if (total.failures.length > 0) process.exitCode = 1;
}

function firstSeed(seconds) {
  if (values.from !== undefined) return wholeNumber('--from', values.from);
  return seconds === undefined ? 1 : 1 + Math.floor(Math.random() * 2 ** 40);
}

function newTotal() {
  return { cases: {}, steps: 0, virtualMs: 0, injected: {}, coverage: {}, failures: [] };
}

function add(total, { workload, cases, steps, virtualMs, injected, coverage, failures }) {
  total.cases[workload] = (total.cases[workload] ?? 0) + cases;
  total.steps += steps;
  total.virtualMs += virtualMs;
  for (const [to, counts] of [
    [total.injected, injected],
    [total.coverage, coverage],
  ]) {
    for (const [name, count] of Object.entries(counts)) to[name] = (to[name] ?? 0) + count;
  }
  total.failures.push(...failures.map((failure) => ({ workload, ...failure })));
}

function showProgress(total, { workload, seeds, seconds, begun }) {
  if (!process.stderr.isTTY || values.json === true) return;
  const done = total.cases[workload];
  const spent = (performance.now() - begun) / 1000;
  const share = seconds === undefined ? done / seeds : spent / seconds;
  const bar = '#'.repeat(Math.min(20, Math.round(20 * share))).padEnd(20, '.');
  const failed = total.failures.length === 0 ? '' : `, ${total.failures.length} FAILED`;
  process.stderr.write(`\r\x1b[K${workload.padEnd(10)} ${bar} ${done} cases${failed}`);
}

function clearProgress() {
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
}

function report(total) {
  const never = known.situations.filter((situation) => !(situation in total.coverage));
  if (values.json === true) return console.log(JSON.stringify({ ...total, never }, null, 2));
  const cases = Object.values(total.cases).reduce((sum, count) => sum + count, 0);
  const hours = total.virtualMs / 3_600_000;
  const rate = Math.round(total.steps / total.seconds);
  console.log(
    `${cases} cases in ${total.seconds.toFixed(1)} s: ${total.steps} steps, ${rate} a second; ${hours.toFixed(1)} hours simulated`,
  );
  for (const [workload, count] of Object.entries(total.cases)) {
    const failed = total.failures.filter((failure) => failure.workload === workload).length;
    console.log(`  ${workload.padEnd(12)} ${count} cases, ${failed} failed`);
  }
  const faults = Object.entries(total.injected).map(([kind, count]) => `${kind} ${count}`);
  console.log(`faults injected: ${faults.join(', ') || 'none'}`);
  const reached = known.situations.length - never.length;
  console.log(`situations reached: ${reached} of ${known.situations.length}`);
  if (values.coverage === true) {
    for (const situation of known.situations) {
      console.log(`  ${situation.padEnd(34)} ${total.coverage[situation] ?? 'never'}`);
    }
  }
  for (const { workload, seed, faults: texts } of total.failures) {
    console.log(`\nFAILED  SEED=${seed} npm run sim -- --workload ${workload}`);
    for (const text of texts.slice(0, 3)) console.log(`  ${text}`);
  }
}

async function shrinkFirst({ failures }) {
  const [first] = failures;
  if (first === undefined) return;
  const { workload, seed } = first;
  const args = ['--workload', workload, '--seed', String(seed), '--shrink'];
  const lines = await ask(args, ({ runs }) => {
    if (process.stderr.isTTY && runs !== undefined)
      process.stderr.write(`\r\x1b[Kshrinking: ${runs}`);
  });
  clearProgress();
  const { smallest } = lines.at(-1);
  const folder = join(root, 'test', 'simulation', 'regressions');
  const file = join(folder, `${workload}-${seed}.json`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(file, `${JSON.stringify(smallest, null, 2)}\n`);
  const { acts, faults } = smallest;
  console.log(
    `\nshrunk to ${acts.length} acts and ${faults.length} faults, as a test: ${relative(root, file)}`,
  );
}
