// Calls a public function with the given numbers of free descriptors, and prints each outcome.
import { closeSync, openSync } from 'node:fs';
import {
  connect,
  connectPool,
  listen,
  sharedHelper,
  spawnHelper,
  spawnPool,
} from '../../../dist/index.js';
import { say } from './demo.mjs';

const [name, path, helper, counts] = process.argv.slice(2);
const program = new URL(`file://${helper}`);
const options = { startTimeoutMs: 20_000 };
const functions = {
  spawnHelper: async () => (await spawnHelper(program, [], options)).stop(),
  spawnPool: async () => (await spawnPool(program, [], { ...options, size: 2 })).stop(),
  listen: async () => (await listen()).close(),
  listenAt: async () => (await listen({ path: `${path}.own` })).close(),
  connect: async () => (await connect({ path })).close(),
  reconnect: async () => (await connect({ path, reconnect: true })).close(),
  connectPool: async () => (await connectPool({ path, size: 2 })).stop(),
  sharedHelper: () => {
    const shared = { name: `test-${process.pid}`, version: '1.0.0', program };
    const limits = { startTimeoutMs: 20_000, idleTimeoutMs: 100 };
    return sharedHelper({ ...shared, ...limits }).then((connection) => connection.close());
  },
};
const run = functions[name];
await run().catch(() => undefined); // loads what is loaded late
for (const free of JSON.parse(counts)) {
  const taken = [];
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'));
  } catch {
    // no descriptor is left
  }
  for (const fd of taken.splice(0, free)) closeSync(fd);
  const outcome = await run().then(
    () => ({ free }),
    (error) => ({ free, name: error.name, code: error.code, message: error.message }),
  );
  for (const fd of taken) closeSync(fd);
  say(outcome);
}
process.exit();
