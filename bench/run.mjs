// The comparison: every cell in a fresh pair of processes, the peers interleaved, medians of rounds.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, release, tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { compiled } from './native.mjs';
import { printTable } from './report.mjs';
import { scenarios } from './scenarios/index.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const peersWithLanes = ['sidecall', 'sidecall-nopoll'];

const help = `npm run bench -- [options]

  --scenario A,…    which scenarios (default: echo); --list describes them
  --peers A,…       which peers (default: all of the scenario)
  --lane A,…        lanes of sidecall (default: ring,socket)
  --codec A,…       bytes, json (of echo and memory; default: bytes)
  --size B,…        bytes of a message (default: 1024,102400)
  --in-flight N,…   calls under way at once (default: 1,16)
  --rate N          calls a second, for paced (default: 1000)
  --seconds N       measured time of a cell (default: 2)
  --runs N          rounds; the median one is the row (default: 3)
  --json FILE       write the rows as JSON
  --cpu-prof DIR    write CPU profiles of our processes there
  --smoke           one short round of small cells: does it run, not how fast
  --list            name scenarios and peers, run nothing
  --help            this text`;

const { values } = parseArgs({
  options: {
    scenario: { type: 'string' },
    peers: { type: 'string' },
    lane: { type: 'string' },
    codec: { type: 'string' },
    size: { type: 'string' },
    'in-flight': { type: 'string' },
    rate: { type: 'string' },
    seconds: { type: 'string' },
    runs: { type: 'string' },
    json: { type: 'string' },
    'cpu-prof': { type: 'string' },
    smoke: { type: 'boolean' },
    list: { type: 'boolean' },
    help: { type: 'boolean' },
  },
});

if (values.help) {
  console.log(help);
  process.exit(0);
}
if (values.list) {
  for (const { name, about, peers } of Object.values(scenarios))
    console.log(`${name}: ${about}\n  ${peers.join(', ')}`);
  process.exit(0);
}

const allScenarios = Object.keys(scenarios);
const names = list(
  values.scenario ?? (values.smoke ? allScenarios.join() : 'echo'),
  allScenarios,
  'scenario',
);
const lanes = list(
  values.lane ?? (process.env.SIDECALL_LANE || undefined),
  ['ring', 'socket'],
  'lane',
);
const settings = {
  sizes: numbers(values.size, values.smoke ? [1024] : [1024, 102_400], '--size', 1, 67_108_864),
  depths: numbers(values['in-flight'], values.smoke ? [16] : [1, 16], '--in-flight', 1, 4096),
  seconds: numbers(values.seconds, [values.smoke ? 0.2 : 2], '--seconds', 0.1, 60)[0],
  rate: numbers(values.rate, [1000], '--rate', 1, 100_000)[0],
  codecs: list(values.codec ?? 'bytes', ['bytes', 'json'], 'codec'),
};
const runs = numbers(values.runs, [values.smoke ? 1 : 3], '--runs', 1, 20)[0];
if (values['cpu-prof'] !== undefined) mkdirSync(values['cpu-prof'], { recursive: true });

const allPeers = [...new Set(names.flatMap((name) => scenarios[name].peers))];
const peers = list(values.peers, allPeers, `peer of ${names.join(', ')}`);
const rows = [];
for (const name of names) {
  const scenario = scenarios[name];
  rows.push(
    ...(await measure(
      scenario,
      scenario.peers.filter((peer) => peers.includes(peer)),
    )),
  );
}
printTable(rows);
if (values.json !== undefined) {
  writeFileSync(values.json, `${JSON.stringify({ ...environment(), rows }, null, 2)}\n`);
  console.log(`\nwritten: ${values.json}`);
}
process.exit(rows.some((row) => row.errors > 0) ? 1 : 0);

/** A B C A B C …: neither garbage nor a warm CPU is inherited. */
async function measure(scenario, chosen) {
  const jobs = scenario.cells(settings).flatMap((cell) =>
    chosen
      .filter((peer) => scenario.takes(peer, cell))
      .flatMap((peer) =>
        (peersWithLanes.includes(peer) ? lanes : [undefined]).map((lane) => ({
          peer,
          lane,
          cell,
        })),
      ),
  );
  const rounds = new Map();
  let done = 0;
  for (let run = 0; run < runs; run += 1) {
    for (const job of jobs) {
      done += 1;
      const what = `${scenario.name} ${job.peer} ${job.lane ?? ''} ${JSON.stringify(job.cell)}`;
      if (process.stderr.isTTY)
        process.stderr.write(`\r[${done}/${jobs.length * runs}] ${what}\x1b[K`);
      const key = JSON.stringify(job);
      rounds.set(key, [...(rounds.get(key) ?? []), await runCell(scenario, job)]);
    }
  }
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  return [...rounds.values()].map(median);
}

async function runCell(scenario, { peer, lane, cell }) {
  const labels = { scenario: scenario.name, peer };
  if (peer.startsWith('c-')) {
    const { file, why } = compiled('echo');
    if (why !== undefined) return { ...labels, skipped: why };
    const said = await output(file, [peer.slice(2), String(cell.size), String(cell.seconds)], {});
    return { ...labels, lane: null, ...JSON.parse(said) };
  }
  const blocks = scenario.countsBlocks ? compiled('blocks') : {};
  if (blocks.why !== undefined) return { ...labels, skipped: blocks.why };
  const scratch = mkdtempSync(join(tmpdir(), 'bench-'));
  const env = {};
  if (blocks.file !== undefined) {
    env.BENCH_BLOCKS = join(scratch, 'blocks');
    env.LD_PRELOAD = blocks.file;
    writeFileSync(env.BENCH_BLOCKS, Buffer.alloc(4096));
  }
  const profile = values['cpu-prof'];
  const isProfiled = profile !== undefined && peersWithLanes.includes(peer);
  const nodeOptions = [
    ...(scenario.nodeOptions ?? []),
    ...(isProfiled ? ['--cpu-prof', `--cpu-prof-dir=${resolve(profile)}`] : []),
  ];
  const config = JSON.stringify({ ...labels, lane, ...cell });
  try {
    const args = [...nodeOptions, join(here, 'client.mjs'), config];
    return JSON.parse(await output(process.execPath, args, env));
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

/** What a program prints; for us one client process, which starts its own server process. */
function output(command, args, env) {
  return new Promise((done, reject) => {
    const child = spawn(command, args, {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, ...env },
    });
    let said = '';
    child.stdout.on('data', (chunk) => {
      said += chunk;
    });
    child.on('error', reject);
    child.on('close', (code) => {
      if (code !== 0) reject(new Error(`${command} ${args.at(-1)} ended with ${code}`));
      else done(said);
    });
  });
}

function median(rows) {
  if (rows[0].skipped !== undefined) return rows[0];
  const sorted = [...rows].sort((a, b) => a.callsPerSecond - b.callsPerSecond);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)];
  return { ...middle, rounds: rows.map((row) => row.callsPerSecond) };
}

function environment() {
  const git = (...args) => execFileSync('git', args, { cwd: here, encoding: 'utf8' }).trim();
  return {
    schema: 1,
    commit: git('rev-parse', 'HEAD'),
    dirty: git('status', '--porcelain') !== '',
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    kernel: release(),
    numaBalancing: readSetting('/proc/sys/kernel/numa_balancing'),
    node: process.version,
    go: null,
    date: new Date().toISOString(),
    args: process.argv.slice(2),
  };
}

function readSetting(path) {
  try {
    return Number(readFileSync(path, 'utf8'));
  } catch {
    return null;
  }
}

function list(given, all, what) {
  const chosen = given?.split(',') ?? all;
  const unknown = chosen.find((name) => !all.includes(name));
  if (unknown === undefined) return chosen;
  console.error(`bench: no ${what} '${unknown}'; there are ${all.join(', ')}`);
  process.exit(2);
}

function numbers(given, standard, what, min, max) {
  const chosen = given?.split(',').map(Number) ?? standard;
  if (chosen.every((number) => number >= min && number <= max)) return chosen;
  console.error(`bench: ${what} must be from ${min} to ${max}, got '${given}'`);
  process.exit(2);
}
