// A helper whose handlers are slow and ignore their signals.
import { setTimeout as sleep } from 'node:timers/promises';
import { notification, parent, service, unary } from '../../../dist/index.js';

const Slow = service('Slow', {
  work: unary(),
  count: unary(),
  started: unary(),
  block: notification(),
});
let started = 0;
const session = await parent();
session.serve(Slow, {
  work: async (ms) => {
    await sleep(ms);
    return process.pid;
  },
  count: () => {
    started += 1;
  },
  started: () => started,
  block: (ms) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  },
});
