// A process to look into: its helper is stopped, and does not read the call. Its argument is the
// option `inspection`, as JSON.
import { setTimeout as pause } from 'node:timers/promises';
import { configure, spawnHelper } from '../../../dist/index.js';
import { say } from './demo.mjs';

configure(JSON.parse(process.argv[2]));
const helper = await spawnHelper(new URL('helper.mjs', import.meta.url));
process.kill(helper.pid, 'SIGSTOP');
await pause(100);
void helper.session.call('Demo.add', { a: 1, b: 'secret-of-the-call' }).catch(() => undefined);
await pause(100); // it has left
const file = process.argv[3];
if (file !== undefined) await helper.session.inspect().ring.save(file);
say({ pid: process.pid });
process.stdin.on('end', () => process.exit(0)).resume();
