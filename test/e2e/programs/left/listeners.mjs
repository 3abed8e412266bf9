// A worker with listeners, in private directories and at two paths, which is terminated on a line
// of input. Arguments: the paths; the file at the second one stays.
import { dirname } from 'node:path';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { listen } from '../../../../dist/index.js';
import { say } from '../demo.mjs';

if (isMainThread) {
  const worker = new Worker(new URL(import.meta.url), { workerData: process.argv.slice(2) });
  worker.on('message', say);
  process.stdin.once('data', async () => {
    await worker.terminate();
    say({});
  });
} else {
  const [first, second] = workerData;
  await listen({ path: first });
  await listen({ path: second, unlinkOnClose: false });
  const privates = [await listen(), await listen()];
  await (await listen()).close();
  parentPort.postMessage({ directories: privates.map(({ path }) => dirname(path)) });
}
