// A MessagePort to a worker thread: in one process, so a bound for IPC and not an alternative.
// Bytes are cloned both ways.
import { once } from 'node:events';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { correlated } from './correlate.mjs';

export async function open() {
  const worker = new Worker(new URL(import.meta.url));
  await once(worker, 'online');
  const { settle, echo } = correlated((id, payload) => worker.postMessage({ id, payload }));
  worker.on('message', ({ id, payload }) => settle(id, Buffer.from(payload.buffer)));
  return { serverPid: undefined, isSameProcess: true, echo, close: () => worker.terminate() };
}

if (!isMainThread) parentPort.on('message', (message) => parentPort.postMessage(message));
