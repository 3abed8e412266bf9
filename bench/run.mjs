// The comparison: every cell in a fresh pair of processes, the peers interleaved, medians of
// rounds.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { printComparisons } from './comparisons.mjs';
import { isExternal, output, runExternal } from './external.mjs';
import { goalRuns } from './goals.mjs';
import { machine } from './machine.mjs';
import { compiled, goVersion } from './native.mjs';
import { placementOf, readNodes } from './placement.mjs';
import { printTable } from './report.mjs';
import { scenarios } from './scenarios/index.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const peersWithLanes = ['sidecall', 'sidecall-nopoll'];
/** Packages of bench/package.json that a peer needs. */
const packagesOf = {
  'grpc-js': '@grpc/grpc-js',
  'connect-node': '@connectrpc/connect-node',
  zeromq: 'zeromq',
  piscina: 'piscina',
  'tinypool-threads': 'tinypool',
  'tinypool-processes': 'tinypool',
};

const help = `npm run bench -- [options]

Once before: npm ci --prefix bench (the other packages; without it their peers are skipped).

  --scenario A,…    which scenarios (default: echo); --list describes them
  --goals           exactly the cells of the goals P1 to P14
  --all             every scenario
  --peers A,…       which peers (default: all of the scenario)
  --lane A,…        lanes of sidecall (default: ring,socket)
  --codec A,…       bytes, borrowed (bytes without fresh memory), json, protobuf (of echo and
                    allocs; default: bytes)
  --size B,…        bytes of a message (of echo; default: 1024,102400)
  --in-flight N,…   calls under way at once (of echo; default: 1,16)
  --windows N       windows of a second that pingpong counts (default: --seconds)
  --rate N          calls a second, for paced (default: 1000)
  --seconds N       measured time of a cell (default: 1)
  --requests N      calls of users16, allocs, health100k; connections per client of connect-rate
  --runs N          rounds; the median one is the row (default: 3). From 4 rounds on the two transports of
                    health100k and connect-rate are compared, with a p-value
  --poll on|off     may sidecall look for more before it sleeps (default: on)
  --numa WHERE      same, different or default: nodes of the processes of pingpong (default: default)
  --json FILE       write the rows as JSON
  --cpu-prof DIR    write CPU profiles of our processes there
  --smoke           one short round of small cells: does it run, not how fast
  --list            name scenarios and peers, run nothing
  --dry-run         count the cells that would run, run nothing
  --help            this text`;

const { values } = parseArgs({
  options: {
    scenario: { type: 'string' },
    goals: { type: 'boolean' },
    all: { type: 'boolean' },
    peers: { type: 'string' },
    lane: { type: 'string' },
    codec: { type: 'string' },
    size: { type: 'string' },
    'in-flight': { type: 'string' },
    windows: { type: 'string' },
    rate: { type: 'string' },
    seconds: { type: 'string' },
    requests: { type: 'string' },
    runs: { type: 'string' },
    poll: { type: 'string' },
    numa: { type: 'string' },
    json: { type: 'string' },
    'cpu-prof': { type: 'string' },
    smoke: { type: 'boolean' },
    list: { type: 'boolean' },
    'dry-run': { type: 'boolean' },
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
const isEvery = values.smoke || values.all;
const names = list(
  values.scenario ?? (isEvery ? allScenarios.join() : 'echo'),
  allScenarios,
  'scenario',
);
const lanes = list(
  values.lane ?? (process.env.SIDECALL_LANE || undefined),
  ['ring', 'socket'],
  'lane',
);
const [poll] = list(values.poll ?? 'on', ['on', 'off'], 'poll');
const [numa] = list(values.numa ?? 'default', ['same', 'different', 'default'], 'numa');
const settings = {
  sizes: numbers(values.size, values.smoke ? [1024] : [1024, 102_400], '--size', 1, 67_108_864),
  depths: numbers(values['in-flight'], values.smoke ? [16] : [1, 16], '--in-flight', 1, 4096),
  seconds: numbers(values.seconds, [values.smoke ? 0.2 : 1], '--seconds', 0.1, 60)[0],
  rate: numbers(values.rate, [1000], '--rate', 1, 100_000)[0],
  requests: values.requests && numbers(values.requests, [], '--requests', 1, 100_000_000)[0],
  codecs: list(values.codec ?? 'bytes', ['bytes', 'borrowed', 'json', 'protobuf'], 'codec'),
  numa,
  windows: values.windows && numbers(values.windows, [], '--windows', 1, 600)[0],
};
const runs = numbers(values.runs, [values.smoke ? 1 : 3], '--runs', 1, 20)[0];
const placement = placementOf(numa);
if (values['cpu-prof'] !== undefined && !values['dry-run'])
  mkdirSync(values['cpu-prof'], { recursive: true });

const plans = values.goals
  ? goalRuns.map(({ scenario, peers, ...own }) => ({ scenario, peers, own }))
  : names.map((scenario) => ({ scenario, peers: undefined, own: {} }));
const allPeers = [...new Set(plans.flatMap(({ scenario }) => scenarios[scenario].peers))];
const chosenPeers = list(values.peers, allPeers, 'peer');
const jobs = plans.flatMap(({ scenario, peers, own }) =>
  jobsOf(
    scenarios[scenario],
    scenarios[scenario].peers.filter(
      (peer) => chosenPeers.includes(peer) && (peers === undefined || peers.includes(peer)),
    ),
    { ...settings, ...own },
  ),
);
if (values['dry-run']) {
  for (const name of new Set(jobs.map(({ scenario }) => scenario.name))) {
    const cells = jobs.filter(({ scenario }) => scenario.name === name).length;
    console.log(`${name}: ${cells} cells, ${runs} rounds`);
  }
  process.exit(0);
}
const begunAt = performance.now();
let done = 0;
const rows = [];
for (const name of new Set(jobs.map(({ scenario }) => scenario.name))) {
  rows.push(...(await measure(jobs.filter(({ scenario }) => scenario.name === name))));
}
printTable(rows);
printComparisons(rows);
if (values.json !== undefined) {
  writeFileSync(values.json, `${JSON.stringify({ ...environment(), rows }, null, 2)}\n`);
  console.log(`\nwritten: ${values.json}`);
}
process.exit(rows.some((row) => row.errors > 0) ? 1 : 0);

function jobsOf(scenario, chosen, own) {
  return scenario
    .cells(own)
    .flatMap((cell) =>
      chosen
        .filter((peer) => scenario.takes(peer, cell))
        .flatMap((peer) => lanesOf(scenario, peer).map((lane) => ({ scenario, peer, lane, cell }))),
    );
}

function lanesOf(scenario, peer) {
  if (!peersWithLanes.includes(peer)) return [undefined];
  return lanes.filter((lane) => scenario.lanes === undefined || scenario.lanes.includes(lane));
}

/** Runs the peers in the order A B C A B C …, so that no peer inherits a warm CPU. */
async function measure(ofScenario) {
  const rounds = new Map();
  for (let run = 0; run < runs; run += 1) {
    for (const job of ofScenario) {
      progress(job);
      const key = JSON.stringify({ ...job, scenario: job.scenario.name });
      rounds.set(key, [...(rounds.get(key) ?? []), await runCell(job)]);
    }
  }
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  return [...rounds.values()].map(median);
}

function progress({ scenario, peer, lane, cell }) {
  const total = jobs.length * runs;
  const leftSeconds =
    done === 0 ? 0 : ((performance.now() - begunAt) / 1000 / done) * (total - done);
  done += 1;
  if (!process.stderr.isTTY) return;
  const what = `${scenario.name} ${peer} ${lane ?? ''} ${JSON.stringify(cell)}`;
  const left = `${Math.floor(leftSeconds / 60)}:${String(Math.floor(leftSeconds % 60)).padStart(2, '0')}`;
  process.stderr.write(`\r[${done}/${total}, ${left} left] ${what.slice(0, 120)}\x1b[K`);
}

async function runCell({ scenario, peer, lane, cell }) {
  const labels = { scenario: scenario.name, peer };
  const skip = (skipped) => ({ ...labels, lane: lane ?? null, ...cell, skipped });
  const missing = whyMissing(peer);
  if (missing !== undefined) return skip(missing);
  const placed = scenario.isPlaced ? placement : { client: [], server: [] };
  if (placed.why !== undefined) return skip(placed.why);
  if (scenario.runHere !== undefined) {
    return orSkipped(labels, cell, await scenario.runHere(peer, cell));
  }
  if (isExternal(peer)) {
    return orSkipped(labels, cell, await runExternal(scenario.name, peer, cell, placed));
  }
  const blocks = scenario.countsBlocks ? compiled('blocks') : {};
  if (blocks.why !== undefined) return skip(blocks.why);
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
  const config = JSON.stringify({
    ...labels,
    lane,
    poll,
    serverPrefix: placed.server,
    nodes: placed.nodes,
    ...cell,
  });
  const [command, ...args] = [...placed.client, process.execPath, ...nodeOptions];
  try {
    return JSON.parse(await output(command, [...args, join(here, 'client.mjs'), config], env));
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

function orSkipped(labels, cell, row) {
  return row.skipped === undefined ? { ...labels, ...row } : { ...labels, ...cell, ...row };
}

function whyMissing(peer) {
  const needed = packagesOf[peer];
  if (needed === undefined || existsSync(join(here, 'node_modules', needed))) return undefined;
  return `${needed} is not installed: npm ci --prefix bench`;
}

function median(rows) {
  if (rows[0].skipped !== undefined) return rows[0];
  const sorted = [...rows].sort((a, b) => a.callsPerSecond - b.callsPerSecond);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)];
  return { ...middle, rounds: rows.map((row) => row.callsPerSecond) };
}

function environment() {
  return {
    ...machine(),
    numaNodes: readNodes(),
    numaBalancing: readSetting('/proc/sys/kernel/numa_balancing'),
    go: goVersion(),
    versions: versions(),
  };
}

/** Versions of the packages and modules in the comparison. */
function versions() {
  const found = {};
  for (const name of [
    '@grpc/grpc-js',
    '@connectrpc/connect-node',
    'zeromq',
    'vscode-jsonrpc',
    'piscina',
    'tinypool',
  ]) {
    const file = [join(here, 'node_modules', name), join(here, '..', 'node_modules', name)]
      .map((folder) => join(folder, 'package.json'))
      .find(existsSync);
    if (file !== undefined) found[name] = JSON.parse(readFileSync(file, 'utf8')).version;
  }
  const modules = readFileSync(join(here, 'peers', 'go', 'go.mod'), 'utf8');
  for (const name of [
    'github.com/johnsiilver/golib',
    'google.golang.org/grpc',
    'github.com/cloudwego/shmipc-go',
  ]) {
    found[name] = new RegExp(`${name} (v\\S+)`).exec(modules)?.[1];
  }
  return found;
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
