// The cost of each part of a call by itself, in one process: for finding a part that became
// slower, not for comparing libraries. npm run bench:micro [-- --json FILE] [-- --filter WORD]
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Bench } from 'tinybench';
import { protobuf } from '../dist/adapters/protobuf.js';
import { requireNative } from '../dist/internal/addon/load-addon.js';
import { systemLoop } from '../dist/internal/loop/event-loop.js';
import { json } from '../dist/internal/rpc/contract/json.js';
import { ReceiveCredit, SendCredit } from '../dist/internal/rpc/sending/credit.js';
import { PollBudget } from '../dist/internal/shm/poll-budget.js';
import { FrameDecoder } from '../dist/internal/wire/frame-decoder.js';
import { emptyHeader, HeaderWriter, readHeader } from '../dist/internal/wire/frame-header.js';
import { RingPair } from './micro-ring.mjs';
import { messageType, objectOf, payloadOf } from './rows.mjs';

const { values } = parseArgs({
  options: {
    json: { type: 'string' },
    filter: { type: 'string' },
    help: { type: 'boolean' },
    smoke: { type: 'boolean' },
  },
});
if (values.help) {
  console.log('npm run bench:micro -- [--filter WORD] [--json FILE] [--smoke]');
  process.exit(0);
}

const bench = new Bench({
  time: values.smoke ? 10 : 500,
  warmupTime: values.smoke ? 10 : 250,
  throws: true,
  timestampProvider: 'hrtimeNow',
});
const perSample = 100;

/** Adds a benchmark of `once`; a sample is a hundred calls, since one is below the clock's step. */
function add(name, once) {
  if (values.filter !== undefined && !name.includes(values.filter)) return;
  const many = () => {
    for (let at = 0; at < perSample; at += 1) once();
  };
  bench.add(name, many, { async: false });
}

frames();
credit();
codecs();
poller();
const ring = new RingPair(requireNative('the benchmark'));
for (const size of [64, 1024, 65_536]) {
  const payload = payloadOf(size);
  add(`ring: write, publish, drain ${size} B`, () => ring.roundTrip(payload));
}
add('ring: drain that finds nothing', () => ring.drainNothing());
add('ring: lend, take and release a block', () => ring.lend());
await bench.run();
ring.close();

const rows = bench.tasks.map(({ name, result }) => {
  if (result.state !== 'completed') throw new Error(`${name}: ${result.state}`);
  const { latency } = result;
  const nanoseconds = (milliseconds) => (milliseconds * 1e6) / perSample;
  return { name, p50Ns: nanoseconds(latency.p50), p99Ns: nanoseconds(latency.p99) };
});
const width = Math.max(...rows.map(({ name }) => name.length));
for (const { name, p50Ns, p99Ns } of rows) {
  console.log(
    `${name.padEnd(width)} ${p50Ns.toFixed(0).padStart(8)} ns  (p99 ${p99Ns.toFixed(0)} ns)`,
  );
}
if (values.json !== undefined) {
  const said = { schema: 1, node: process.version, date: new Date().toISOString(), rows };
  writeFileSync(values.json, `${JSON.stringify(said, null, 2)}\n`);
}
process.exit(0);

function frames() {
  const writer = new HeaderWriter();
  const header = emptyHeader();
  const open = {
    kind: 1,
    slot: 5,
    generation: 9,
    method: 2,
    timeoutMs: 1000,
    metadataBytes: 0,
    messageBytes: 1024,
    windowBytes: 0,
  };
  add('frame: write an open', () => writer.open(open));
  const written = writer.open(open).slice();
  add('frame: read an open', () => readHeader(written, header));
  const one = Buffer.alloc(4 + 16 + 1024);
  one.writeUInt32LE(16 + 1024, 0);
  one.set(writer.message(2, 5, 9, 1024), 4);
  const chunk = Buffer.concat(Array.from({ length: 16 }, () => one));
  const sink = { onFrame: () => undefined, placeFor: () => undefined };
  const decoder = new FrameDecoder(sink, () => false);
  add('frame: 16 of 1 kB out of one chunk', () => decoder.push(chunk));
}

function credit() {
  const window = 1 << 30;
  const receive = new ReceiveCredit(window, window);
  add('credit: take and give back', () => {
    receive.take(1088);
    receive.release(1088);
  });
  const send = new SendCredit(window);
  add('credit: spend and grant', () => {
    send.spend(1088);
    send.grant(1088);
  });
}

function codecs() {
  const value = objectOf(1024);
  const all = { json: json(), protobuf: protobuf(messageType) };
  for (const [name, codec] of Object.entries(all)) {
    add(`codec: ${name} encode 1 kB`, () => codec.encode(value));
    const encoded = codec.encode(value);
    const view = typeof encoded === 'string' ? Buffer.from(encoded) : Buffer.from(encoded);
    add(`codec: ${name} decode 1 kB`, () => codec.decode(view, false));
  }
}

function poller() {
  const budget = new PollBudget(50);
  let now = 0;
  add('poller: a record, and may it sleep', () => {
    now += 0.01;
    budget.onRecords(now, true);
    budget.isSpent(now);
  });
  const rested = { owner: 1, isAwake: false, serve: () => undefined, rest: () => true };
  add('poller: wake and rest a ring', () => {
    systemLoop.poller.activate(rested);
    systemLoop.poller.deactivate(rested);
  });
}
