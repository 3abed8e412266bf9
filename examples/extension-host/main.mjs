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
  --json        Prints what there is at the end as JSON, and no screen.
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

if (!process.stdin.isTTY && values.seconds === undefined) {
  console.error(`There is no terminal to be asked from: say --seconds N.\n\n${usage}`);
  process.exit(2);
}

const host = new ExtensionHost(values.folder);
const keys = keysOf(host.commands);
let message = `Commands: ${keys.map(({ key, command }) => `${key} ${command}`).join(' · ')}`;

async function run(command) {
  message = `${command} …`;
  try {
    message = `${command}: ${JSON.stringify(await host.run(command)) ?? 'done'}`;
  } catch (error) {
    message = `${command}: ${error.message}`;
  }
}

const screen = values.json
  ? undefined
  : setInterval(() => {
      logUpdate(render(host.rows, { columns: process.stdout.columns ?? 100, message }));
    }, 100);

async function quit() {
  clearInterval(screen);
  const rows = host.rows.map((row) => ({ ...row, state: stateOf(row) }));
  await host.close();
  if (values.json) console.log(JSON.stringify(rows, undefined, 2));
  else logUpdate.done();
  process.exit();
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
    if (text === 'K') for (const { name } of busy) host.kill(name);
    if (text === 'E') for (const { name } of disabled) host.enable(name);
    const chosen = keys.find((each) => each.key === text);
    if (chosen !== undefined) void run(chosen.command);
  });
}
for (const command of values.run.split(',').filter(Boolean)) void run(command);
if (values.seconds !== undefined) setTimeout(() => void quit(), 1_000 * Number(values.seconds));
