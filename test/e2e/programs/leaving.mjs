// A helper that sends goaway and never closes, since one of its handlers never ends.
import { parent, service, unary } from '../../../dist/index.js';

const Leaving = service('Leaving', { hang: unary(), leave: unary(), pid: unary() });
const session = await parent();
session.serve(Leaving, {
  hang: () => new Promise(() => undefined),
  leave: () => {
    setImmediate(() => session.close({ deadlineMs: 600_000 }));
  },
  pid: () => process.pid,
});
setInterval(() => undefined, 1000);
