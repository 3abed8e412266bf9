// sidecall, socket lane: a helper, the bytes codec, default limits, identity checked as always.
import { fileURLToPath } from 'node:url';
import { bytes, parent, service, spawnHelper, unary } from '../../dist/index.js';

const Echo = service('Echo', { echo: unary({ request: bytes, response: bytes }) });

export async function open() {
  const helper = await spawnHelper(process.execPath, [
    ...process.execArgv,
    fileURLToPath(import.meta.url),
    'serve',
  ]);
  const client = helper.client(Echo);
  return {
    lane: helper.session.lane,
    serverPid: helper.pid,
    messageLimitBytes: 4 * 1024 * 1024,
    echo: (payload) => client.echo(payload),
    close: () => helper.stop(),
  };
}

if (process.argv[2] === 'serve') {
  process.once('SIGTERM', () => process.exit(0)); // so that a profile is written
  const session = await parent();
  session.serve(Echo, { echo: (payload) => payload });
}
