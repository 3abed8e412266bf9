// A process to look into: its helper is stopped, and does not read the call. Its arguments are
// options of configure(), as JSON, and the file for a copy of the ring.
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { configure, spawnHelper } from '../../../dist/index.js';
import { say } from './demo.mjs';

configure(JSON.parse(process.argv[2]));
const helper = await spawnHelper(new URL('helper.mjs', import.meta.url));
process.kill(helper.pid, 'SIGSTOP');
const stateOf = (pid) => /^State:\s+(\w)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1];
while (stateOf(helper.pid) !== 'T') await pause(1);
void helper.session.call('Demo.add', { a: 1, b: 'secret-of-the-call' }).catch(() => undefined);
const isOpening = ({ frame }) => frame?.startsWith('open') === true;
const hasLeft = () => helper.session.inspect().ring.sent.records.some(isOpening);
while (!hasLeft()) await pause(1);
const file = process.argv[3];
if (file !== undefined) await helper.session.inspect().ring.save(file);
say({ pid: process.pid });
process.stdin.on('end', () => process.exit(0)).resume();
