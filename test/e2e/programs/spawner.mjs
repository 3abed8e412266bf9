// Spawns a helper, prints its pid, and performs the act of the first argument.
import { spawnHelper } from '../../../dist/index.js';
import { say } from './demo.mjs';

const [what, program, ...args] = process.argv.slice(2);
// A restart that is a long way off.
const restart = what === 'unref-restart' ? { firstMs: 600_000, maxMs: 600_000 } : false;
const helper = await spawnHelper(process.execPath, [program, ...args], { stdout: 'pipe', restart });
say({ pid: helper.pid });
if (what === 'block') {
  await helper.session.notify('Demo.block');
  say({ blocked: true });
  setInterval(() => undefined, 1000);
} else if (what === 'unref') helper.unref();
else if (what === 'unref-restart') {
  helper.unref();
  const keepAlive = setInterval(() => undefined, 1000);
  process.kill(helper.pid, 'SIGKILL');
  for await (const { state } of helper.states()) if (state === 'restarting') break;
  clearInterval(keepAlive);
} else if (what === 'exit') {
  void helper.session.call('Demo.hang');
  setTimeout(() => process.exit(5), 20);
} else if (what === 'throw') {
  void helper.session.call('Demo.hang');
  setTimeout(() => {
    throw new Error('on purpose');
  }, 20);
}
