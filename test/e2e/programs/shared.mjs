// A shared helper. Arguments: how it behaves.
import { listenShared, SidecallError, service, unary } from '../../../dist/index.js';

const Clock = service('Clock', { where: unary(), block: unary(), wait: unary() });
const [manner = '', ms = '0'] = process.argv.slice(2);
if (manner === 'crashes') {
  console.error('no such database');
  process.exit(9);
}
const startedAt = Date.now();
await listenShared({
  ...(manner === 'full' ? { sessionsMax: 1 } : {}),
  ready: async (listener) => {
    if (manner === 'loads') await new Promise((resolve) => setTimeout(resolve, Number(ms)));
    if (manner === 'fails')
      throw new SidecallError('ERR_SIDECALL_PATH_IN_USE', 'another path is taken');
    listener.serve(Clock, {
      where: () => ({
        pid: process.pid,
        manner,
        startedAt,
        env: process.env,
        cwd: process.cwd(),
      }),
      block: (ms) => {
        for (const until = Date.now() + ms; Date.now() < until; );
      },
      wait: (ms) => new Promise((resolve) => setTimeout(resolve, ms, process.pid)),
    });
  },
});
