// A worker thread starts a helper, and ends as the first argument says. The helper is busy, or has
// a timer.
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { spawnHelper } from '../../../dist/index.js';
import { say } from './demo.mjs';

if (isMainThread) {
  const [how, helper] = process.argv.slice(2);
  const worker = new Worker(new URL(import.meta.url), { workerData: { how, helper } });
  worker.on('error', () => undefined);
  worker.once('message', (pid) => {
    say({ pid });
    if (how === 'terminate') void worker.terminate();
  });
  setInterval(() => undefined, 1000);
} else {
  const { how, helper } = workerData;
  const started = await spawnHelper(process.execPath, [helper]);
  void started.session.notify('Demo.block').catch(() => undefined);
  await started.session.call('Demo.add', { a: 1, b: 1 }, { timeoutMs: 50 }).catch(() => undefined);
  parentPort.postMessage(started.pid);
  if (how === 'exit') process.exit(0);
  if (how === 'throw') throw new Error('on purpose');
}
