// A helper whose handlers say on standard output when they begin and when they are about to end.
// A call with -1 lasts for ever; with -2 the helper overwrites the memory of its flight recorder
// with noise, and ends; with -3 it ends.
import { randomBytes } from 'node:crypto';
import { openSync, writeSync } from 'node:fs';
import { parent, service, unary } from '../../../dist/index.js';

const names = ['a', 'b', 'c', 'd', 'e', 'f'];
const Work = service('Work', Object.fromEntries(names.map((name) => [name, unary()])));
const variable = process.env.SIDECALL_RECORDER;
const memory = variable && openSync(`/proc/self/fd/${variable.split(':')[0]}`, 'r+');
const session = await parent();
const handlers = names.map((name) => [
  name,
  async (ms) => {
    writeSync(1, `+${name}\n`);
    if (ms === -1) await new Promise(() => undefined);
    if (ms === -2) writeSync(memory, randomBytes(262_144), 0, 262_144, 0);
    if (ms < -1) process.kill(process.pid, 'SIGKILL');
    if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
    writeSync(1, `-${name}\n`);
    return { variable, left: process.env.SIDECALL_RECORDER };
  },
]);
session.serve(Work, Object.fromEntries(handlers));
