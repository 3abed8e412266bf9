// Sends one message of 256 MiB to a helper and takes it back, and prints what memory both
// processes have before it, right after it, and ten seconds later. Runs with --expose-gc.
import { readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { bytes, service, spawnHelper, unary } from '../../../dist/index.js';
import { say } from './demo.mjs';

const Large = service('Large', {
  collect: unary(),
  echo: unary({ request: bytes, response: bytes }),
});
const mebibyte = 1024 * 1024;
const [lane] = process.argv.slice(2);
const helperFile = new URL('large-helper.mjs', import.meta.url);
const limits = { receiveMaxBytes: 512 * mebibyte };
const helper = await spawnHelper(helperFile, [], { lane, limits });

function residentMiB() {
  const of = (pid) =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024;
  return { parent: of(process.pid), helper: of(helper.pid) };
}

async function sendLarge() {
  const client = helper.client(Large);
  const message = Buffer.alloc(256 * mebibyte, 7);
  const answer = await client.echo(message);
  return { bytes: answer.byteLength, last: answer.at(-1), during: residentMiB() };
}

// The code is compiled, and the pools are filled, by messages of a usual size.
for (let round = 0; round < 20; round += 1) await helper.client(Large).echo(Buffer.alloc(mebibyte));
const before = residentMiB();
const outcome = await sendLarge();
// The messages belong to the programs now, and their garbage is collected when V8 wants to: here at
// once, so that what is seen later is what the package keeps.
globalThis.gc();
await helper.client(Large).collect();
await wait(10_000);
let after = residentMiB();
// A busy machine fires the timers that give memory back when it can.
const isKept = () => ['parent', 'helper'].some((who) => after[who] > before[who] + 60);
for (let look = 0; look < 60 && isKept(); look += 1) {
  await wait(2_000);
  after = residentMiB();
}
say({ ...outcome, before, after, lane: helper.session.lane });
await helper.stop();
