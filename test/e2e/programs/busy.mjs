// A helper whose event loop blocks for a requested time.
import { notification, parent, service, unary } from '../../../dist/index.js';

const Busy = service('Busy', {
  block: notification(),
  ping: unary(),
  hang: unary(),
  exit: notification(),
});
const session = await parent();
session.serve(Busy, {
  block: (ms) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  },
  ping: () => 'pong',
  hang: () => new Promise(() => undefined),
  exit: (code) => process.exit(code),
});
