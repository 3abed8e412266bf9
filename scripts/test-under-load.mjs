// npm run test:load: `npm test` beside processes that compute without pause, at the usual priority.
// A test that fails here has a bound on time, or shows a fault of the product.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { fail, root } from './lib.mjs';

const usage = `usage: npm run test:load -- [--runs N] [--processes N] [-- arguments of vitest]

  --runs N       how often (default 3)
  --processes N  processes that compute beside each run (default 8)`;

const { values, positionals } = parse();
if (values.help) {
  console.log(usage);
  process.exit();
}
const [runs, count] = [Number(values.runs), Number(values.processes)];
if (!(runs >= 1 && count >= 1)) fail(usage);
// Arguments: one run of some files; without any, all of `npm test`.
const command = positionals.length > 0 ? ['npx', 'vitest', 'run', ...positionals] : ['npm', 'test'];
const computing = Array.from({ length: count }, () =>
  spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
);
process.once('exit', () => {
  for (const child of computing) child.kill('SIGKILL');
});
let tests;
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    process.kill(-tests.pid, signal);
    process.exit(130);
  });
}

let failures = 0;
for (let run = 1; run <= runs; run += 1) {
  const begun = performance.now();
  const [file, ...args] = command;
  // A group of its own, so that nothing of it goes on where this script is ended.
  tests = spawn(file, args, { cwd: root, stdio: 'inherit', detached: true });
  const [status] = await once(tests, 'close');
  const minutes = ((performance.now() - begun) / 60_000).toFixed(1);
  const load = loadavg()[0].toFixed(1);
  console.log(
    `run ${run} of ${runs}: ${status === 0 ? 'passed' : 'FAILED'}, ${minutes} min, load ${load}`,
  );
  if (status !== 0) failures += 1;
}
if (failures > 0) fail(`test:load: ${failures} of ${runs} runs failed beside ${count} processes`);
process.exit();

function parse() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        runs: { type: 'string', default: '3' },
        processes: { type: 'string', default: '8' },
        help: { type: 'boolean' },
      },
    });
  } catch (error) {
    return fail(`${error.message}\n\n${usage}`);
  }
}
