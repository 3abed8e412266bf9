// node examples/extension-host/main.mjs [--folder F] [--run a.b,c.d] [--seconds N] [--json]
import { dirname, join } from 'node:path';
import { emitKeypressEvents } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import logUpdate from 'log-update';
import { ExtensionHost } from './host.mjs';
import { keysOf, render, stateOf } from './tui.mjs';

const usage = `Usage: node main.mjs [options]

  --folder F    Where the extensions are. Default: those beside this file.
  --run a,b     Commands to run at the beginning.
  --seconds N   Ends by itself after so long.
  --json        No screen: prints { results, extensions } as JSON at the end. Ends when the
                commands of --run have settled, or after --seconds; with 1 if one has failed.
  --help        This text.`;

const { values } = parseArgs({
  options: {
    folder: {
      type: 'string',
      default: join(dirname(fileURLToPath(import.meta.url)), 'extensions'),
    },
    run: { type: 'string', default: '' },
    seconds: { type: 'string' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(usage);
  process.exit();
}

const seconds = values.seconds === undefined ? undefined : Number(values.seconds);
if (Number.isNaN(seconds)) {
  console.error(`--seconds must be a number, got '${values.seconds}'\n\n${usage}`);
  process.exit(2);
}
const commands = values.run.split(',').filter(Boolean);
const endsItself = seconds !== undefined || (values.json && commands.length > 0);
if (!process.stdin.isTTY && !endsItself) {
  console.error(
    `There is no terminal to take keys from: say --seconds N, or --json and --run.\n\n${usage}`,
  );
  process.exit(2);
}

const host = new ExtensionHost(values.folder);
const keys = keysOf(host.commands);
let message = `Commands: ${keys.map(({ key, command }) => `${key} ${command}`).join(' · ')}`;

/** The outcomes of the commands of --run, in its order. */
const results = commands.map((command) => ({ command, state: 'running' }));

/** Runs a command. Returns its outcome, and shows it. */
async function run(command) {
  message = `${command} …`;
  try {
    const result = await host.run(command);
    message = `${command}: ${JSON.stringify(result) ?? 'done'}`;
    return { command, state: 'done', result };
  } catch (error) {
    message = `${command}: ${error.message}`;
    const { code, status } = error;
    return { command, state: 'failed', error: { code, status, message: error.message } };
  }
}

const screen = values.json
  ? undefined
  : setInterval(() => {
      logUpdate(render(host.rows, { columns: process.stdout.columns || 100, message }));
    }, 100);

let isQuitting = false;

async function quit() {
  if (isQuitting) return;
  isQuitting = true;
  clearInterval(screen);
  const extensions = host.rows.map((row) => ({ ...row, state: stateOf(row) }));
  const report = { results: [...results], extensions }; // before close() ends what still runs
  await host.close();
  if (values.json) console.log(JSON.stringify(report, undefined, 2));
  else logUpdate.done();
  process.exit(values.json && report.results.some(({ state }) => state === 'failed') ? 1 : 0);
}

process.on('SIGINT', () => void quit());
process.on('SIGTERM', () => void quit());
if (process.stdin.isTTY) {
  emitKeypressEvents(process.stdin);
  process.stdin.setRawMode(true);
  process.stdin.on('keypress', (text, key) => {
    if (text === 'Q' || (key.ctrl && key.name === 'c')) return void quit();
    const busy = host.rows.filter((row) => stateOf(row) === 'busy');
    const disabled = host.rows.filter(({ state }) => state === 'disabled');
    if (text === 'C') for (const { name } of host.rows) host.cancel(name);
    if (text === 'K') for (const { name } of busy) host.kill(name);
    if (text === 'E') for (const { name } of disabled) host.enable(name);
    const chosen = keys.find((each) => each.key === text);
    if (chosen !== undefined) void run(chosen.command);
  });
}
const settled = commands.map(async (command, at) => {
  results[at] = await run(command);
});
if (seconds !== undefined) setTimeout(() => void quit(), 1_000 * seconds);
else if (endsItself) void Promise.all(settled).then(quit);
