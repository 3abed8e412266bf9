// The comparison: every cell in a fresh pair of processes, the peers interleaved, medians of rounds.
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, release } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { printTable } from './report.mjs';
import { echo } from './scenarios/echo.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const scenarios = { echo };

const help = `npm run bench -- [options]

  --scenario A,…    which scenarios (default: all): ${Object.keys(scenarios).join(', ')}
  --peers A,…       which peers (default: all of the scenario)
  --size B,…        bytes of a message (default: 1024,102400)
  --in-flight N,…   calls under way at once (default: 1,16)
  --seconds N       measured time of a cell (default: 2)
  --runs N          rounds; the median one is the row (default: 3)
  --json FILE       write the rows as JSON
  --smoke           one short round of small cells: does it run, not how fast
  --list            name scenarios and peers, run nothing
  --help            this text`;

const { values } = parseArgs({
  options: {
    scenario: { type: 'string' },
    peers: { type: 'string' },
    size: { type: 'string' },
    'in-flight': { type: 'string' },
    seconds: { type: 'string' },
    runs: { type: 'string' },
    json: { type: 'string' },
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
  for (const [name, { peers }] of Object.entries(scenarios))
    console.log(`${name}: ${peers.join(', ')}`);
  process.exit(0);
}

const names = list(values.scenario, Object.keys(scenarios), 'scenario');
const settings = {
  sizes: numbers(values.size, values.smoke ? [1024] : [1024, 102_400], '--size', 1, 1_048_576),
  depths: numbers(values['in-flight'], values.smoke ? [16] : [1, 16], '--in-flight', 1, 4096),
  seconds: numbers(values.seconds, [values.smoke ? 0.2 : 2], '--seconds', 0.1, 60)[0],
  runs: numbers(values.runs, [values.smoke ? 1 : 3], '--runs', 1, 20)[0],
};

const rows = [];
for (const name of names) {
  const scenario = scenarios[name];
  const peers = list(values.peers, scenario.peers, `peer of ${name}`);
  rows.push(...(await measure(scenario, peers)));
}
printTable(rows);
if (values.json !== undefined) {
  writeFileSync(values.json, `${JSON.stringify({ ...environment(), rows }, null, 2)}\n`);
  console.log(`\nwritten: ${values.json}`);
}
process.exit(rows.some((row) => row.errors > 0 || row.skipped !== undefined) ? 1 : 0);

/** A B C A B C …: neither garbage nor a warm CPU is inherited. */
async function measure(scenario, peers) {
  const cells = scenario.cells(settings);
  const total = cells.length * peers.length * settings.runs;
  const rounds = new Map();
  let done = 0;
  for (let run = 0; run < settings.runs; run += 1) {
    for (const cell of cells) {
      for (const peer of peers) {
        done += 1;
        const what = `${scenario.name} ${peer} ${JSON.stringify(cell)}`;
        if (process.stderr.isTTY) process.stderr.write(`\r[${done}/${total}] ${what}\x1b[K`);
        const key = JSON.stringify([peer, cell]);
        const row = await runCell(scenario, peer, cell);
        rounds.set(key, [...(rounds.get(key) ?? []), row]);
      }
    }
  }
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  return [...rounds.values()].map(median);
}

/** One client process, which starts its own server process. */
function runCell(scenario, peer, cell) {
  const config = { scenario: scenario.name, peer, ...cell };
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [join(here, 'client.mjs'), JSON.stringify(config)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let said = '';
    child.stdout.on('data', (chunk) => {
      said += chunk;
    });
    child.on('close', (code) => {
      if (code !== 0) reject(new Error(`${peer}: the client process ended with ${code}`));
      else resolve(JSON.parse(said));
    });
  });
}

function median(rows) {
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
