// The price of being looked at: calls of a process, and its processor time for each, while a
// command looks at it and while none does, by turns. npm run bench:inspected [-- --help]
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { machine } from './machine.mjs';

const cli = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url));
const program = fileURLToPath(new URL('inspected-app.mjs', import.meta.url));
const help = `npm run bench:inspected -- [options]

  --look HOW,…     top (npx sidecall top), page (inspect --web, a tab that asks every second),
                   recording (the same, which records calls), or nothing, whose distance from 1
                   is the error; default: all
  --sessions N,…   sessions of the process, of which four are busy (default: 4,1000)
  --rounds N       times with and without it (default: 12)
  --seconds N      length of each (default: 3)
  --json FILE      write the ratios as JSON
  --smoke          one short round of each: does it run, not how fast`;

const { values } = parseArgs({
  options: {
    look: { type: 'string', default: 'nothing,top,page,recording' },
    sessions: { type: 'string', default: '4,1000' },
    rounds: { type: 'string', default: '12' },
    seconds: { type: 'string', default: '3' },
    json: { type: 'string' },
    smoke: { type: 'boolean' },
    help: { type: 'boolean' },
  },
});
if (values.help) {
  console.log(help);
  process.exit(0);
}
const looks = {
  nothing: async () => async () => undefined,
  top,
  page: (pid) => page(pid, false),
  recording: (pid) => page(pid, true),
};
/** Processes that this command has started. They end with it. */
const started = new Set();
process.on('exit', () => {
  for (const child of started) child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));
const counts = values.smoke ? ['4'] : values.sessions.split(',');
const rounds = values.smoke ? 1 : Number(values.rounds);
const windowMs = values.smoke ? 500 : Number(values.seconds) * 1000;
const settleMs = values.smoke ? 100 : 800;

const rows = [];
console.log('With the command, as a ratio to without: median, least and most.');
for (const sessions of counts) {
  for (const look of values.look.split(',')) {
    const row = await compare(look, sessions);
    rows.push(row);
    const [rate, cpu] = [row.rate, row.cpu].map(
      ({ median, least, most }) => `${text(median)} (${text(least)} to ${text(most)})`,
    );
    console.log(`${look}, ${sessions} sessions: calls a second ${rate}, CPU of a call ${cpu}`);
  }
}
if (values.json) {
  writeFileSync(values.json, `${JSON.stringify({ ...machine(), rows }, null, 2)}\n`);
}

async function compare(look, sessions) {
  const app = start([program, sessions], 'pipe', 'pipe');
  const lines = createInterface({ input: app.stdout })[Symbol.asyncIterator]();
  const next = async () => JSON.parse((await lines.next()).value);
  const count = async () => {
    app.stdin.write('count\n');
    return next();
  };
  const { pid } = await next();
  await sleep(4 * settleMs);
  const ratios = { rate: [], cpu: [] };
  for (let round = 0; round < rounds; round += 1) {
    const seen = {};
    for (const how of round % 2 === 0 ? ['without', 'with'] : ['with', 'without']) {
      const end = how === 'with' ? await looks[look](pid) : undefined;
      await sleep(settleMs);
      const before = await count();
      await sleep(windowMs);
      const after = await count();
      await end?.();
      await sleep(settleMs);
      const calls = after.calls - before.calls;
      seen[how] = { rate: calls / (after.ms - before.ms), cpu: (after.cpu - before.cpu) / calls };
    }
    for (const what of ['rate', 'cpu']) ratios[what].push(seen.with[what] / seen.without[what]);
  }
  app.stdin.end();
  await once(app, 'exit');
  return { look, sessions: Number(sessions), rate: spread(ratios.rate), cpu: spread(ratios.cpu) };
}

function start(args, input, output) {
  const env = { ...process.env, ...(args[0] === program && { SIDECALL_INSPECT: '1' }) };
  const child = spawn(process.execPath, args, { env, stdio: [input, output, 'inherit'] });
  started.add(child);
  child.on('exit', () => started.delete(child));
  return child;
}

async function top(pid) {
  const child = start([cli, 'top', String(pid), '--json'], 'ignore', 'ignore');
  return () => stop(child);
}

/** The command with a page, and a tab that asks as the page does. */
async function page(pid, isRecording) {
  const child = start([cli, 'inspect', '--web', '--json', String(pid)], 'ignore', 'pipe');
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  const { url } = JSON.parse(line);
  const of = `${url}process/${pid}`;
  if (isRecording) await fetch(`${of}/recording?on=1`, { method: 'POST' });
  const closed = new AbortController();
  const tab = look(of, closed.signal);
  return async () => {
    closed.abort();
    await tab;
    await stop(child);
  };
}

async function look(of, signal) {
  let [sample, change] = [0, 0];
  while (!signal.aborted) {
    try {
      const answer = await fetch(`${of}?sample=${sample}&change=${change}&key=1`, { signal });
      const view = await answer.json();
      sample = view.samples.at(-1)?.number ?? sample;
      for (const call of view.recording.calls) change = Math.max(change, call.change);
      await sleep(1000, undefined, { signal });
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}

async function stop(child) {
  child.kill('SIGTERM');
  await once(child, 'exit');
}

function spread(ratios) {
  const sorted = ratios.toSorted((a, b) => a - b);
  return { median: sorted[sorted.length >> 1], least: sorted[0], most: sorted.at(-1) };
}

function text(ratio) {
  return ratio.toFixed(3);
}
