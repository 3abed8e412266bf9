// Bundled with everything in it; the helper is the bundle itself.
import assert from 'node:assert/strict';
import { capabilities, parent, service, spawnHelper, unary } from 'sidecall';

const Sum = service('Sum', { add: unary() });

async function main() {
  if (process.env.SIDECALL_FD !== undefined) {
    const session = await parent();
    session.serve(Sum, { add: ({ a, b }) => a + b });
    return;
  }
  if (process.argv[2] === 'lost') {
    const helper = await spawnHelper(process.execPath, [process.argv[1]]);
    assert.equal(await helper.client(Sum).add({ a: 1, b: 1 }), 2);
    return helper.stop();
  }
  const { addon, addonFile, addonReason } = capabilities();
  assert.ok(addon, `no addon: ${addonReason}`);
  const helper = await spawnHelper(process.execPath, [process.argv[1]]);
  assert.equal(await helper.client(Sum).add({ a: 1, b: 1 }), 2);
  assert.equal(helper.session.lane, 'ring');
  await helper.stop();
  console.log(addonFile);
}

main();
