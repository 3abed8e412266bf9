// An application that starts a helper or a relay. Arguments: what it starts, and where.
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { sidecallCommand } from '../../../../dist/adapters/jsonrpc.js';
import { spawnHelper } from '../../../../dist/index.js';

const [moment, place] = isMainThread ? process.argv.slice(2) : workerData;
const pathOf = (name) => new URL(name, import.meta.url).pathname;
const program = new URL('helper.mjs', import.meta.url);
const relay = ['relay', '--framing', 'newline', '--'];
const stubborn = [process.execPath, pathOf('stubborn.mjs')];
const commands = {
  debugger: [program, [], { execArgv: ['--inspect-brk=0'], stderr: 'ignore' }],
  'not Node': ['sleep', ['600']],
  relay: [sidecallCommand, [...relay, ...stubborn]],
  'relay of a wrapper': [sidecallCommand, [...relay, 'sh', '-c', `${stubborn.join(' ')}; true`]],
};
const env = { ...process.env, MOMENT: moment };
if (place === 'worker' && isMainThread) {
  const worker = new Worker(new URL(import.meta.url), { workerData: [moment, place] });
  process.stdin.once('data', () => worker.terminate()); // and the process goes on
} else {
  const [command, args, options] = commands[moment] ?? [program, []];
  const helper = await spawnHelper(command, args, { ...options, env });
  process.once('SIGUSR2', () => helper.stop());
}
