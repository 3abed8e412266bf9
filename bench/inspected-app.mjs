// The process of `inspected.mjs` that is looked at: both ends of its sessions, of which four are
// busy. For each line of input it prints its calls, its processor time and the time.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { connect, listen, service, unary } from '../dist/index.js';

const sessions = Number(process.argv[2]);
const busy = 4;
const Desk = service('Desk', { add: unary() });
const folder = mkdtempSync(join(tmpdir(), 'sidecall-inspected-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const path = join(folder, 'desk.sock');
const most = 2 * sessions;
const limits = { sessionsMax: most, sessionsPerUidMax: most, sessionsPerProcessMax: most };
const listener = await listen({ path, ...limits });
listener.serve(Desk, { add: ({ a, b }) => ({ sum: a + b }) });
const clients = [];
for (let at = 0; at < sessions; at += 1) {
  clients.push((await connect({ path, ringBytes: 65_536 })).client(Desk));
}

let calls = 0;
for (let at = 0; at < busy; at += 1) void work(clients[at % sessions]);
console.log(JSON.stringify({ pid: process.pid }));
for await (const _ of createInterface({ input: process.stdin })) {
  const { user, system } = process.cpuUsage();
  console.log(JSON.stringify({ calls, cpu: user + system, ms: performance.now() }));
}
process.exit();

async function work(client) {
  for (let a = 0; ; a += 1) {
    await client.add({ a, b: 1 });
    calls += 1;
  }
}
