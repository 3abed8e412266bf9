// A process that may be looked into, with sessions to itself, open calls and unread messages.
import { Worker } from 'node:worker_threads';
import { configure, connect, listen, serverStream, service, unary } from '../../../dist/index.js';
import { say } from './demo.mjs';

const {
  path,
  sessions = 1,
  inspection,
  identity,
  hasWorker,
  isLeaving,
} = JSON.parse(process.argv[2]);
configure({ inspection });

const Work = service('Work', { hang: unary(), flow: serverStream(), add: unary() });

const listener = await listen({
  path,
  identity,
  sessionsMax: 2_000,
  sessionsPerUidMax: 2_000,
  sessionsPerProcessMax: 2_000,
});
listener.serve(Work, {
  hang: () => new Promise(() => undefined),
  async *flow() {
    for (;;) yield { text: 'secret-of-the-flow'.repeat(3_000) };
  },
  add: ({ a, b }) => ({ sum: a + b }),
});
const all = [];
while (all.length < sessions) all.push(await connect({ path, identity }));
const [first] = all;
if (!isLeaving) {
  first.client(Work).hang({ text: 'secret-of-the-call' }, { timeoutMs: 600_000 });
  first.client(Work).flow();
}
let worker;
if (hasWorker) {
  const text = `import(${JSON.stringify(new URL('../../../dist/index.js', import.meta.url).href)})
    .then(({ connect }) => connect({ path: ${JSON.stringify(path)} }))
    .then(() => require('node:worker_threads').parentPort.postMessage('ready'))`;
  worker = new Worker(text, { eval: true });
  await new Promise((done) => worker.once('message', done));
}
say({ pid: process.pid });
if (isLeaving) {
  await first.close();
  listener.unref();
}
let calls = 0;
process.stdin.on('data', async (data) => {
  const [line] = String(data).split('\n');
  if (line === 'block') for (;;);
  if (line === 'terminate') {
    await worker.terminate();
    say({ terminated: true });
  }
  if (line === 'crowd') {
    for (let at = 0; at < 6_000; at += 1) first.client(Work).hang();
    say({ calls: 6_000 });
  }
  if (line === 'leave') {
    process.stdin.unref();
    await Promise.all(all.map((session) => session.close({ deadlineMs: 0 })));
    await listener.close();
    say({ closed: true });
  }
  if (line === 'work') {
    for (; calls < 20_000; calls += 1) {
      const { sum } = await first.client(Work).add({ a: calls, b: 1 });
      if (sum !== calls + 1) process.exit(4);
    }
    say({ calls });
  }
});
if (isLeaving) process.stdin.unref();
