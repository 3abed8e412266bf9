// A parent: starts a helper in the runtime that the arguments name, or in its own.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { spawnHelper } from 'sidecall';
import { Runtime } from './contract.mjs';

const [command, ...args] = process.argv.slice(2);
const program = new URL('helper.mjs', import.meta.url);
const helper = await (command === undefined
  ? spawnHelper(program)
  : spawnHelper(command, [...args, program.pathname]));
assert.equal(helper.session.lane, 'ring');
const runtime = helper.client(Runtime);
for (let at = 0; at < 100; at += 1) await runtime.name();
await sleep(100); // the ring sleeps by then
console.log(`a helper in ${await runtime.name()}`);
await helper.stop();
