// A CommonJS program: require() of ESM.
const assert = require('node:assert/strict');
const { join } = require('node:path');
const { capabilities, service, spawnHelper, unary } = require('sidecall');

const Sum = service('Sum', { add: unary() });

async function main() {
  assert.ok(capabilities().addon, capabilities().addonReason);
  assert.equal((await import('sidecall')).spawnHelper, spawnHelper);
  for (const part of ['electron', 'testing']) assert.ok(require(`sidecall/${part}`));
  assert.match(require.resolve('sidecall/electron/preload'), /preload\.cjs$/);
  const server = join(__dirname, '..', 'esm', 'server.mjs');
  const helper = await spawnHelper(process.execPath, [
    server,
    join(__dirname, `socket-${process.pid}`),
  ]);
  assert.equal((await helper.client(Sum).add({ a: 1, b: 1 })).sum, 2);
  await helper.stop();
  console.log(process.version);
}

main();
