// A helper that can be kept busy: its event loop stands still for as long as it is told.
import { notification, parent, service, unary } from '../../../dist/index.js';

const Busy = service('Busy', { block: notification(), ping: unary(), exit: notification() });
const session = await parent();
session.serve(Busy, {
  block: (ms) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  },
  ping: () => 'pong',
  exit: (code) => process.exit(code),
});
