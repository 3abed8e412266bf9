// Calls a helper, and the same program at a path; prints which addon it had. CONSUMER_NODE names
// the program to start, where that is not this very one.
import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { capabilities, connect, spawnHelper } from 'sidecall';
import { createSessionPair } from 'sidecall/testing';
import { Sum } from './contract.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const { addon, addonFile, addonReason } = capabilities();
assert.ok(addon, `no addon: ${addonReason}`);
assert.ok(addonFile.includes(join('node_modules', 'sidecall', 'prebuilds')), addonFile);
const path = join(here, `socket-${process.pid}`);
const node = process.env.CONSUMER_NODE ?? process.execPath;
const helper = await spawnHelper(node, [join(here, 'server.mjs'), path], {
  startTimeoutMs: 60_000,
});
assert.equal((await helper.client(Sum).add({ a: 20, b: 22 })).sum, 42);
assert.equal(helper.session.lane, 'ring');
const session = await connect({ path, timeoutMs: 20_000 });
assert.deepEqual(await session.client(Sum).add({ a: 1, b: 2 }), {
  sum: 3,
  caller: process.pid,
  origin: 'kernel',
});
assert.equal(session.lane, 'ring');
const counted = [];
for await (const number of session.client(Sum).to(3)) counted.push(number);
assert.deepEqual(counted, [1, 2, 3]);
await session.close();
const pair = createSessionPair();
pair.far.serve(Sum, { add: () => ({ sum: 0 }), to: () => [] });
assert.deepEqual(await pair.near.client(Sum).add(), { sum: 0 });
await pair.close();
await helper.stop();
console.log(`${process.version} ${addonFile.split('prebuilds')[1]}`);
