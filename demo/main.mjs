// npm run demo -- [DIR]: two processes that know each other, on real input.
import { execFile } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { listen, SidecallError, spawnHelper } from '../dist/index.js';
import { Indexer, Settings } from './contract.mjs';
import { filesBelow, readText } from './files.mjs';

const here = dirname(fileURLToPath(import.meta.url));
// npm runs scripts in the project's folder and says where it was called.
const folder = resolve(
  process.env.INIT_CWD ?? '.',
  process.argv[2] ?? join(here, '..', 'node_modules'),
);
const fileMaxBytes = 64 * 1024 * 1024;
const lookUps = 10_000;
const lookUpsAtOnce = 64;
const filesAtOnce = 16;
// Any ordinary id will do, known or not; never 65534, which means "unmapped".
const strangerUid = 61_999;

try {
  await demo();
  console.log('demo: ok');
} catch (error) {
  console.error(error);
  console.error('demo: failed');
  process.exit(1);
}

async function demo() {
  const helper = await spawnHelper(new URL('indexer.mjs', import.meta.url));
  const { pid, uid, origin } = helper.peer;
  const { lane, laneReason } = helper.session;
  console.log(`helper: pid ${pid}, uid ${uid}, known by: ${origin}; lane ${lane} (${laneReason})`);
  helper.serve(Settings, { get: ({ name }) => ({ [name]: 5 }) });
  const indexer = helper.client(Indexer);
  await index(indexer);
  await lookUp(indexer, 1);
  await lookUp(indexer, lookUpsAtOnce);
  await callBack(indexer);
  await refuseStranger();
  await dieWithCallsInFlight(helper, indexer);
}

async function index(indexer) {
  const paths = await filesBelow(folder);
  const begun = performance.now();
  let done = 0;
  let sent = 0;
  let bytes = 0;
  const queue = paths.values();
  const worker = async () => {
    for (const path of queue) {
      const text = await readText(path, fileMaxBytes);
      if (text !== undefined) {
        await indexer.add(text, { metadata: { path: relative(folder, path) } });
        sent += 1;
        bytes += text.byteLength;
      }
      done += 1;
      progress(done, paths.length);
    }
  };
  await Promise.all(Array.from({ length: filesAtOnce }, worker));
  const seconds = (performance.now() - begun) / 1000;
  table({
    'files sent': `${sent} text files of ${paths.length} files below ${folder}; ${paths.length - sent} are binary, or larger than 64 MiB`,
    'bytes sent': `${(bytes / 1e6).toFixed(1)} MB in ${seconds.toFixed(2)} s`,
  });
}

/** One after the other shows what a call takes; many at once, how many there can be. */
async function lookUp(indexer, atOnce) {
  const words = ['function', 'module', 'license', 'error', 'buffer', 'zzzzzz'];
  const latencies = [];
  let next = 0;
  const caller = async () => {
    while (next < lookUps) {
      const word = words[next++ % words.length];
      const begun = performance.now();
      const { count } = await indexer.lookUp({ word });
      latencies.push(performance.now() - begun);
      if (!Number.isInteger(count)) throw new Error(`look-up of '${word}' gave ${count}`);
    }
  };
  const begun = performance.now();
  await Promise.all(Array.from({ length: atOnce }, caller));
  const seconds = (performance.now() - begun) / 1000;
  latencies.sort((a, b) => a - b);
  const quantile = (share) =>
    `${(latencies[Math.floor(share * latencies.length)] * 1000).toFixed(0)} µs`;
  table({
    'look-ups': `${latencies.length}, ${atOnce} at a time`,
    'calls/s': Math.round(latencies.length / seconds).toLocaleString('en'),
    'p50 / p99': `${quantile(0.5)} / ${quantile(0.99)}`,
  });
}

async function callBack(indexer) {
  const { files, words, top } = await indexer.summary();
  if (top.length > 5) throw new Error(`asked for 5 words, got ${top.length}`);
  console.log(
    `helper called back for a setting; ${words} words in ${files} files, most: ${top.join(', ')}`,
  );
}

async function refuseStranger() {
  if (process.geteuid() !== 0) {
    console.log('stranger: this step needs root, to become another user; left out');
    return;
  }
  const directory = mkdtempSync(join(tmpdir(), 'sidecall-demo-'));
  chmodSync(directory, 0o755);
  const refusals = [];
  const listener = await listen({
    path: join(directory, 'socket'),
    mode: '0666',
    onEvent: (event) => refusals.push(event),
  });
  try {
    const args = [join(here, 'stranger.mjs'), listener.path, String(strangerUid)];
    const { stdout } = await promisify(execFile)(process.execPath, args);
    const refusal = refusals[0];
    if (refusal?.error.code !== 'ERR_SIDECALL_PEER_DENIED' || refusal.peer.uid !== strangerUid) {
      throw new Error(`the stranger was not refused: it says ${stdout.trim()}`);
    }
    console.log(`stranger: ${refusal.error.message}; it saw ${stdout.trim()}`);
  } finally {
    await listener.close();
    rmSync(directory, { recursive: true });
  }
}

async function dieWithCallsInFlight(helper, indexer) {
  const calls = Array.from({ length: 10 }, () => indexer.rest());
  const settled = Promise.allSettled(calls);
  await indexer.lookUp({ word: 'license' }); // behind the ten: they have arrived
  process.kill(helper.pid, 'SIGKILL');
  for (const { reason } of await settled) {
    if (!SidecallError.is(reason) || reason.code !== 'ERR_SIDECALL_PEER_GONE') {
      throw new Error('a call in flight did not fail as it should', { cause: reason });
    }
  }
  const { code, delivered, retryable } = (await settled)[0].reason;
  console.log(
    `killed with ${calls.length} calls in flight: each ${code}, delivered ${delivered}, retryable ${retryable}`,
  );
  await helper.exited;
}

function progress(done, total) {
  if (!process.stderr.isTTY) return;
  const width = 40;
  const filled = Math.round((width * done) / total);
  const bar = '#'.repeat(filled).padEnd(width, '.');
  process.stderr.write(`\r[${bar}] ${done}/${total}${done === total ? '\r\x1b[K' : ''}`);
}

function table(rows) {
  const width = Math.max(...Object.keys(rows).map((name) => name.length));
  for (const [name, value] of Object.entries(rows))
    console.log(`  ${name.padEnd(width)}  ${value}`);
}
