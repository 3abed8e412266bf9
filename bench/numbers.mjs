// The price of the numbers of `session.stats()`, and of the flight recorder of a helper: calls
// through a build of its own in which either can be switched off, in both processes, while they
// run. Rounds with and without it take turns, so that neither the layout of a process nor the clock
// speed of the machine is compared. npm run bench:numbers [-- --help]
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { machine } from './machine.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const help = `npm run bench:numbers -- [options]

  --of PART          what is switched: numbers, or the flight recorder of the helper, with
                     handlers or frames (default: numbers)
  --processes N      pairs of processes for each cell (default: 24)
  --rounds N         rounds of each kind in a pair (default: 60)
  --calls N          calls of a round (default: 2000; fewer of long messages)
  --lane LANE,…      ring or socket (default: ring,socket)
  --size B,…         bytes of a message (default: 1024,102400)
  --in-flight N,…    calls under way at once (default: 1,16)
  --json FILE        write the ratios of every pair as JSON
  --smoke            one cell, a few short rounds: does it run, not how fast`;

const { values } = parseArgs({
  options: {
    of: { type: 'string', default: 'numbers' },
    processes: { type: 'string', default: '24' },
    rounds: { type: 'string', default: '60' },
    calls: { type: 'string', default: '2000' },
    lane: { type: 'string', default: 'ring,socket' },
    size: { type: 'string', default: '1024,102400' },
    'in-flight': { type: 'string', default: '1,16' },
    json: { type: 'string' },
    smoke: { type: 'boolean' },
    help: { type: 'boolean' },
  },
});
if (values.help) {
  console.log(help);
  process.exit(0);
}
const processes = values.smoke ? 1 : Number(values.processes);
const rounds = values.smoke ? 2 : Number(values.rounds);
const callsOfRound = values.smoke ? 200 : Number(values.calls);

// Parts by file: a statement that is switched, or the beginning of a method, and what the method
// does while it is switched off.
const counting = {
  'rpc/counting/method-counters.js': [
    ['count(bytes) {', 'return;'],
    ['countSent(bytes) {', 'return;'],
    ['countReceived(bytes) {', 'return;'],
  ],
  'rpc/calling/outgoing-call.js': [['this.counters.started += 1;']],
  'rpc/calling/answer-receiver.js': [
    ['call.counters.receivedMessages += 1;'],
    ['call.counters.receivedBytes += bytes;'],
  ],
  'rpc/sending/send-queue.js': [
    ['stream.counters.sentMessages += 1;'],
    ['stream.counters.sentBytes += messageBytes;'],
  ],
  'rpc/serving/incoming-call.js': [
    ['counters.receivedMessages += 1;'],
    ['counters.receivedBytes += requestBytes;'],
    ['counters.taken.messages += 1;'],
    ['counters.taken.bytes += this.requestBytes;'],
  ],
  'rpc/calling/call-counts.js': [['export function countSuccess(shared, call) {', 'return;']],
  'rpc/serving/call-counts.js': [['counters.started += 1;']],
  'rpc/session/session-core.js': [['shared.counters.framesReceived += 1;']],
  'rpc/counting/moments.js': [
    ['goOn() {', 'return;'],
    ['begin(call) {', 'return;'],
    ['arrive() {', 'return neverBegun;'],
    ['end(counters, begunMs) {', 'return;'],
    ['reach(nowMs) {', 'return;'],
  ],
};
const recording = {
  'wire/flight-recorder.js': [
    ['received(header, bytes) {', 'return;'],
    ['sent(header, bytes) {', 'return;'],
    ['sentOn(stream, header, bytes, method) {', 'return;'],
    ['nameLast(stream, method) {', 'return;'],
    ['handlerStarted(stream, kind, method) {', 'return unlisted;'],
    ['this.#recorder.handlerSettled(entry);'],
  ],
};
const parts = {
  numbers: { switched: counting, recorder: 'off', sides: ['caller', 'handler'] },
  handlers: { switched: recording, recorder: 'handlers', sides: ['handler'] },
  frames: { switched: recording, recorder: 'frames', sides: ['handler'] },
};
const part = parts[values.of];
if (part === undefined) {
  console.error(`--of ${values.of}: it takes ${Object.keys(parts).join(', ')}`);
  process.exit(2);
}

/** Kinds of rounds: whether the part is on in the process that calls, and the one that answers. */
const kinds = [
  { name: 'without', caller: 0, handler: 0 },
  { name: 'without, again', caller: 0, handler: 0 },
  { name: 'with', caller: 1, handler: 1 },
  ...(part.sides.length < 2
    ? []
    : [
        { name: 'caller only', caller: 1, handler: 0 },
        { name: 'handler only', caller: 0, handler: 1 },
      ]),
];

const cells = values.smoke
  ? [{ lane: 'ring', size: 1_024, inFlight: 1 }]
  : values.lane
      .split(',')
      .flatMap((lane) =>
        values.size
          .split(',')
          .flatMap((size) =>
            values['in-flight']
              .split(',')
              .map((inFlight) => ({ lane, size: Number(size), inFlight: Number(inFlight) })),
          ),
      );
const where = machine(); // before the measurement: its commit is that of the build
const folder = switchable();
const rows = [];
try {
  console.log(`Time of a call as a ratio to rounds without ${values.of}: median of`);
  console.log(`${processes} pairs of processes, its standard error, least and most.`);
  for (const cell of cells) rows.push(await measured(cell));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
if (values.json) {
  writeFileSync(values.json, `${JSON.stringify({ ...where, rows }, null, 2)}\n`);
}

async function measured(cell) {
  const times = [];
  const ratios = kinds.map(() => []);
  for (let at = 0; at < processes; at += 1) {
    const medians = await compare(cell);
    const without = Math.sqrt(medians[0] * medians[1]);
    times.push(without);
    for (const [which, ns] of medians.entries()) ratios[which].push(ns / without);
    if (process.stderr.isTTY) process.stderr.write(`\r${at + 1} of ${processes}\r`);
  }
  const ns = Math.round(quantile(times, 0.5));
  const { lane, size, inFlight } = cell;
  console.log(`${lane}, ${size} bytes, ${inFlight} at once: ${ns} ns a call without ${values.of}`);
  for (const [at, { name }] of kinds.entries()) {
    const [median, least, most] = [0.5, 0, 1].map((share) => quantile(ratios[at], share));
    const text = [median, errorOf(ratios[at]), least, most].map((ratio) => ratio.toFixed(4));
    console.log(`  ${name.padEnd(16)} ${text[0]} ±${text[1]}  ${text[2]} to ${text[3]}`);
  }
  return {
    of: values.of,
    ...cell,
    ns,
    ratios: kinds.map(({ name }, at) => ({ kind: name, ratios: ratios[at] })),
  };
}

/** Measures one pair of processes, whose rounds of each kind take turns; ns of a call of each. */
async function compare(cell) {
  const program = fileURLToPath(new URL('numbers-echo.mjs', import.meta.url));
  const { recorder } = part;
  const args = [program, folder, JSON.stringify({ ...cell, recorder })];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const calls = Math.ceil(callsOfRound / Math.max(1, cell.size / 10_240));
  const run = async ({ caller, handler }) => {
    child.stdin.write(`${caller} ${handler} ${calls}\n`);
    const { value, done } = await lines.next();
    if (done) throw new Error('a process of the measurement has ended');
    return Number(value);
  };
  const ofKinds = kinds.map(() => []);
  const warmUp = values.smoke ? 0 : 10;
  for (let round = -warmUp; round < rounds; round += 1) {
    for (const which of shuffled()) {
      const ns = await run(kinds[which]);
      if (round >= 0) ofKinds[which].push(ns);
    }
  }
  child.stdin.end();
  await once(child, 'exit');
  return ofKinds.map((each) => quantile(each, 0.5));
}

/**
 * The kinds in a random order. Where each came behind the same other one, the two kinds of rounds
 * without numbers differed by 0.6 %.
 */
function shuffled() {
  const order = kinds.map((_, which) => ({ which, at: Math.random() }));
  return order.sort((a, b) => a.at - b.at).map(({ which }) => which);
}

/** A build of its own, a file for each module, in which the part can be switched off. */
function switchable() {
  const copy = realpathSync(mkdtempSync(join(tmpdir(), 'sidecall-numbers-')));
  const tsc = [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.build.json'];
  const modules = ['--outDir', join(copy, 'dist'), '--emitDeclarationOnly', 'false'];
  execFileSync(process.execPath, [...tsc, ...modules], { cwd: root, stdio: 'inherit' });
  cpSync(join(root, 'package.json'), join(copy, 'package.json'));
  for (const name of ['build', 'node_modules']) symlinkSync(join(root, name), join(copy, name));
  writeFileSync(join(copy, 'dist', 'switches.js'), 'export const on = new Uint8Array([1]);\n');
  for (const [file, texts] of Object.entries(part.switched)) {
    const path = join(copy, 'dist', file);
    let text = readFileSync(path, 'utf8');
    for (const [line, body] of texts) {
      const [before, after, ...more] = text.split(`${line}\n`);
      if (after === undefined || more.length > 0) throw new Error(`${file}: no ${line}`);
      text =
        body === undefined
          ? `${before}if (on[0] === 1) ${line}\n${after}`
          : `${before}${line} if (on[0] === 0) ${body}\n${after}`;
    }
    const up = '../'.repeat(file.split('/').length - 1);
    writeFileSync(path, `import { on } from '${up}switches.js';\n${text}`);
  }
  return copy;
}

/** The standard error of the median of numbers that are spread as a normal distribution is. */
function errorOf(numbers) {
  const deviation = (quantile(numbers, 0.75) - quantile(numbers, 0.25)) / 1.349;
  return (1.2533 * deviation) / Math.sqrt(numbers.length);
}

/** Between the two nearest numbers where none is at the share itself. */
function quantile(numbers, share) {
  const sorted = numbers.toSorted((a, b) => a - b);
  const at = share * (sorted.length - 1);
  const [below, above] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]];
  return below + (above - below) * (at - Math.floor(at));
}
