// npm run test:election: many programs ask for one shared helper at the same instant, again and
// again; some of them, and the helper, are killed at random instants. Two helpers never serve at
// the same time, and each program that lives gets one.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { root } from './lib.mjs';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '1000' },
    starters: { type: 'string', default: '64' },
    json: { type: 'boolean' },
  },
});
const [rounds, count] = [Number(values.rounds), Number(values.starters)];
const killedAtOnce = 3;
const idleTimeoutMs = 1_000;

const scratch = mkdtempSync(join(tmpdir(), 'election-'));
const file = join(scratch, 'served');
writeFileSync(file, '');
const program = join(root, 'test/e2e/programs/election-starter.mjs');
const faults = [];
const times = [];
/** From the questions of a round to its last answer. */
const spans = [];
let killedStarters = 0;
let killedHelpers = 0;
let helperPid;

class Starter {
  #child;
  #answer;

  constructor() {
    this.#start();
  }

  /** Asks once. Resolves when it has an answer, or was killed. */
  ask(round) {
    const answer = new Promise((resolve) => {
      this.#answer = resolve;
    });
    this.#child.stdin.write(`${round}\n`);
    return answer;
  }

  kill() {
    killedStarters += 1;
    this.#child.kill('SIGKILL');
  }

  end() {
    this.#child.removeAllListeners('exit');
    this.#child.kill('SIGKILL');
  }

  #start() {
    const env = { ...process.env, XDG_RUNTIME_DIR: scratch };
    const args = [program, file, String(idleTimeoutMs)];
    const child = spawn(process.execPath, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
    this.#child = child;
    child.stdin.on('error', () => undefined);
    createInterface({ input: child.stdout }).on('line', (line) => {
      const said = JSON.parse(line);
      if (said.error !== undefined) faults.push(`round ${said.round}: ${said.error}`);
      else times.push(said.ms);
      helperPid = said.pid ?? helperPid;
      this.#answer?.();
    });
    child.once('exit', () => {
      this.#answer?.();
      this.#start(); // the next one asks from the next round on
    });
  }
}

const starters = Array.from({ length: count }, () => new Starter());
await Promise.all(starters.map((starter) => starter.ask(0))); // every program has started
const begun = performance.now();
for (let round = 1; round <= rounds; round += 1) {
  const from = process.hrtime.bigint();
  const answers = starters.map((starter) => starter.ask(round));
  const kills = Array.from({ length: killedAtOnce }, async () => {
    await wait(Math.random() * 200);
    starters[Math.floor(Math.random() * count)].kill();
  });
  let isAnswered = false;
  if (round % 2 === 0) kills.push(killHelper(() => isAnswered));
  await Promise.all(answers);
  isAnswered = true;
  spans.push({ from, to: process.hrtime.bigint() });
  await Promise.all(kills);
  // Now and then it has ended by itself when the next round begins, or ends at that moment.
  if (round % 3 === 0) await wait(Math.random() * 2 * idleTimeoutMs);
  progress(round);
}
for (const starter of starters) starter.end();
await wait(3 * idleTimeoutMs + 500);
const served = readServed();
const { helpers, overlaps } = lives(served);
faults.push(...overlaps);
const gaps = spans.map((span) => longestGapMs(span, served));
const longest = gaps.map((ms, at) => ({ round: at + 1, ms })).filter(({ ms }) => ms > 1_000);
rmSync(scratch, { recursive: true, force: true });
times.sort((a, b) => a - b);
const result = {
  rounds,
  starters: count,
  answered: times.length,
  helpers,
  killedStarters,
  killedHelpers,
  medianMs: times[times.length >> 1],
  longestMs: times.at(-1),
  longestGapMs: Math.max(...gaps),
  aboveOneSecond: longest,
  faults,
};
if (values.json) console.log(JSON.stringify(result));
else {
  console.log(
    `${rounds} rounds, ${count} programs at once: ${times.length} answers of ${helpers} helpers; ${killedStarters} programs and ${killedHelpers} helpers were killed`,
  );
  console.log(
    `from the question to the answer: median ${result.medianMs.toFixed(0)} ms, longest ${result.longestMs.toFixed(0)} ms`,
  );
  console.log(
    `longest time in which programs asked and none was answered: ${result.longestGapMs.toFixed(0)} ms; ${longest.length} rounds above a second`,
  );
  for (const fault of faults.slice(0, 20)) console.log(`FAULT ${fault}`);
  console.log(faults.length === 0 ? 'ok' : `${faults.length} faults`);
}
process.exit(faults.length === 0 ? 0 : 1);

/** Kills the helper at a random instant, or as soon as there is one. */
async function killHelper(isOver) {
  await wait(Math.random() * 200);
  for (; !isOver(); await wait(5)) {
    try {
      // Another process may have the number by now.
      const command = readFileSync(`/proc/${helperPid}/cmdline`, 'latin1');
      if (!command.includes('election-helper') || !command.includes(file)) continue;
      process.kill(helperPid, 'SIGKILL');
      killedHelpers += 1;
      return;
    } catch {
      // it has ended by itself
    }
  }
}

/** The calls that were served, in their order. */
function readServed() {
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  const all = lines.map((line) => line.split(' ')).map(([name, at]) => ({ name, at: BigInt(at) }));
  return all.sort((a, b) => Number(a.at - b.at));
}

/** Helpers whose calls overlap in time: they have served at once. */
function lives(all) {
  const spanOf = new Map();
  for (const { name, at } of all)
    spanOf.set(name, { name, from: spanOf.get(name)?.from ?? at, to: at });
  const sorted = [...spanOf.values()];
  const overlaps = sorted
    .slice(1)
    .map((span, at) => ({ span, before: sorted[at] }))
    .filter(({ span, before }) => span.from < before.to)
    .map(({ span, before }) => {
      const ms = (Number(before.to - span.from) / 1e6).toFixed(0);
      return `helper ${span.name} served ${ms} ms before the last call of helper ${before.name}`;
    });
  return { helpers: sorted.length, overlaps };
}

/** The longest time of a round without a call that was served. */
function longestGapMs({ from, to }, all) {
  const instants = [from, ...all.map(({ at }) => at).filter((at) => at > from && at < to), to];
  const gaps = instants.slice(1).map((at, index) => Number(at - instants[index]) / 1e6);
  return Math.max(...gaps);
}

function progress(round) {
  if (!process.stderr.isTTY) return;
  const left = ((performance.now() - begun) / 1000 / round) * (rounds - round);
  process.stderr.write(`\r[${round}/${rounds}, ${left.toFixed(0)} s left]\x1b[K`);
  if (round === rounds) process.stderr.write('\r\x1b[K');
}
