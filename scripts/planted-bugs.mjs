// npm run sim:bugs: puts each known bug back into a copy, and says within how many seeds the
// simulation finds it. A simulation that misses bugs proves nothing.
import { spawn, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { mended } from '../test/simulation/planted/mended.mjs';
import { mutants } from '../test/simulation/planted/mutants.mjs';
import { ringBugs } from '../test/simulation/planted/ring.mjs';
import { fail, root } from './lib.mjs';
import { bundleSimulation } from './simulation-bundle.mjs';

const usage = `usage: npm run sim:bugs -- [--only TEXT] [--seeds N] [--json FILE] [--cases FOLDER]

  --only TEXT     bugs whose name or file contains this
  --seeds N       seeds of each workload; default 4000, more for rare bugs
  --json FILE     writes the results there
  --results FILE  takes the results of an earlier run from there
  --write         writes the table into docs/testing.md
  --cases FOLDER  writes the smallest failing case of each mended defect there`;

const { values } = parse();
if (values.help === true) {
  console.log(usage);
  process.exit();
}
// Of this run alone: another one may go on beside it.
const folder = join(root, 'build', `planted-${process.pid}`);
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
const all = [
  ...mended.map((bug) => ({ ...bug, kind: 'mended' })),
  ...mutants.map((bug) => ({ ...bug, kind: 'mutant' })),
  ...ringBugs.map((bug) => ({ ...bug, kind: bug.model === true ? 'model' : 'mutant' })),
].filter(({ name, file }) => `${name} ${file}`.includes(values.only ?? ''));

const results = values.results === undefined ? await findAll() : readResults(values.results);
const missed = results.filter(({ found }) => found === undefined);
console.log(`${results.length - missed.length} of ${results.length} planted bugs found`);
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(results, null, 2));
if (values.write === true) writeTable();
if (missed.length > 0) process.exitCode = 1;

async function findAll() {
  const done = [];
  for (const bug of all) {
    const found = await find(bug);
    done.push({ ...bug, found });
    const how =
      found === undefined ? 'NOT FOUND' : `${found.workload} ${found.seed}: ${found.kind}`;
    console.log(`${bug.kind.padEnd(7)} ${bug.name}\n        ${how}`);
  }
  return done;
}

function readResults(file) {
  return JSON.parse(readFileSync(file, 'utf8'));
}

function writeTable() {
  const file = join(root, 'docs', 'testing.md');
  const rows = results.map(({ kind, name, commit, found }) => {
    const since = commit === undefined ? '' : ` (${commit})`;
    return `| ${kind} | ${name}${since} | ${found?.workload ?? 'not found'} | ${found?.seed ?? ''} |`;
  });
  const table = ['| Kind | Bug | Found by | Seed |', '|---|---|---|---|', ...rows].join('\n');
  const text = readFileSync(file, 'utf8');
  const marked = /(<!-- planted -->)[\s\S]*(<!-- \/planted -->)/;
  writeFileSync(
    file,
    text.replace(marked, (_, begin, end) => `${begin}\n\n${table}\n\n${end}`),
  );
}

function parse() {
  const options = {
    only: { type: 'string' },
    seeds: { type: 'string' },
    json: { type: 'string' },
    cases: { type: 'string' },
    results: { type: 'string' },
    write: { type: 'boolean' },
    help: { type: 'boolean' },
  };
  try {
    return parseArgs({ options });
  } catch (error) {
    return fail(`sim:bugs: ${error.message}\n\n${usage}`);
  }
}

/** The source with the bug. @throws where the source does not hold the text that is to change. */
function planted({ name, file, from, to }) {
  const text = readFileSync(join(root, file), 'utf8');
  if (!text.includes(from)) fail(`sim:bugs: '${name}': ${file} does not contain:\n${from}`);
  return text.replace(from, () => to);
}

async function find(bug) {
  const isNative = bug.file.startsWith('native/');
  const addonFrom = isNative ? buildNative(bug) : root;
  const sources = isNative ? new Map() : new Map([[join(root, bug.file), planted(bug)]]);
  const program = await bundleSimulation(root, folder, { addonFrom, sources });
  // The workloads one after the other, two at once: the first failure ends the search. A rare bug
  // is looked for in its workload alone, in two halves.
  const { rare } = bug;
  const count = Number(values.seeds ?? rare?.seeds ?? 4_000);
  const half = Math.ceil(count / 2);
  const searches =
    rare === undefined
      ? [...workloadsFor(bug)].map((workload) => ({ workload, from: 1, to: count }))
      : [
          { workload: rare.workload, from: 1, to: half },
          { workload: rare.workload, from: half + 1, to: count },
        ];
  let found;
  const children = new Set();
  const search = async () => {
    for (
      let next = searches.shift();
      next !== undefined && found === undefined;
      next = searches.shift()
    ) {
      const failure = await run(program, next, children);
      if (failure === undefined || found !== undefined) continue;
      found = { workload: next.workload, ...failure };
      for (const child of children) child.kill('SIGKILL');
    }
  };
  await Promise.all([search(), search()]);
  if (found !== undefined && values.cases !== undefined && bug.kind === 'mended') {
    await writeCase(program, bug, found);
  }
  return found;
}

/** Workloads that are likely to find it first. */
function workloadsFor({ file }) {
  const names = [
    'calls',
    'streams',
    'channels',
    'leases',
    'closes',
    'shortages',
    'crashes',
    'restarts',
    'abandoned',
    'reconnects',
    'handovers',
    'elections',
  ];
  const first = [
    [/shared/, ['elections']],
    [/rendezvous|lasting/, ['handovers', 'reconnects']],
    [/shm|native/, ['leases', 'shortages', 'crashes']],
    [/streams|channels/, ['streams', 'channels']],
    [/goaway|session-core|socket-transport/, ['closes']],
    [/retry/, ['restarts']],
    [/answer-receiver|late-frames/, ['abandoned']],
  ].find(([pattern]) => pattern.test(file));
  return new Set([...(first?.[1] ?? []), ...names]);
}

/** The first failure among the seeds; undefined: there is none. A run without end is one, too. */
function run(program, { workload, from, to }, children) {
  const range = ['--from', String(from), '--to', String(to)];
  const args = ['--workload', workload, ...range, '--first-failure'];
  const child = spawn(process.execPath, [program, ...args], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  children.add(child);
  let text = '';
  let seen = 0;
  child.stdout.on('data', (chunk) => {
    text += chunk;
    seen = Date.now();
  });
  return new Promise((resolve) => {
    const begun = Date.now();
    const watch = setInterval(() => {
      if (Date.now() - Math.max(begun, seen) < 60_000) return;
      child.kill('SIGKILL');
    }, 1_000);
    child.once('close', (code) => {
      clearInterval(watch);
      children.delete(child);
      const whole = text.slice(0, text.lastIndexOf('\n') + 1); // it may have been ended in a line
      const reports = whole
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line));
      const failure = reports.flatMap(({ failures }) => failures)[0];
      const cases = reports.reduce((sum, report) => sum + report.cases, 0);
      if (failure !== undefined)
        return resolve({ seed: failure.seed, kind: failure.faults[0].slice(0, 160) });
      resolve(
        code === 0 ? undefined : { seed: from + cases, kind: 'the run does not end, or crashes' },
      );
    });
  });
}

async function writeCase(program, bug, { workload, seed }) {
  const args = ['--workload', workload, '--seed', String(seed), '--shrink'];
  const { stdout } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' });
  const last = stdout.trim().split('\n').at(-1);
  const smallest = last?.startsWith('{') ? JSON.parse(last).smallest : undefined;
  if (smallest === undefined) return;
  mkdirSync(values.cases, { recursive: true });
  const file = join(values.cases, `${bug.name.replace(/[^a-z0-9]+/gi, '-').slice(0, 60)}.json`);
  writeFileSync(file, `${JSON.stringify({ found: bug.name, ...smallest }, null, 2)}\n`);
}

/** A copy of the native sources with the bug, built. Returns its folder. */
function buildNative(bug) {
  const copy = join(folder, 'native-copy');
  if (!existsSync(copy)) {
    mkdirSync(copy, { recursive: true });
    for (const name of ['CMakeLists.txt', 'package.json'])
      cpSync(join(root, name), join(copy, name));
    cpSync(join(root, 'native'), join(copy, 'native'), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  }
  const file = join(copy, bug.file);
  writeFileSync(file, planted(bug));
  const cmakeJs = createRequire(import.meta.url).resolve('cmake-js/bin/cmake-js');
  const args = [cmakeJs, 'compile', '--directory', copy, '--out', join(copy, 'build')];
  const build = spawnSync(process.execPath, args, { cwd: copy, encoding: 'utf8' });
  // With a new time, so that the next build compiles it again: an object with a bug would stay.
  writeFileSync(file, readFileSync(join(root, bug.file)));
  if (build.status !== 0) fail(`sim:bugs: '${bug.name}' does not build:\n${build.stderr}`);
  return copy;
}
