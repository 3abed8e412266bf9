// sidecall: a helper, default limits unless messages are longer, identity checked as always.
import { fileURLToPath } from 'node:url';
import {
  bytes,
  configure,
  connect,
  listen,
  parent,
  service,
  spawnHelper,
  unary,
} from '../../dist/index.js';

const Echo = service('Echo', {
  echo: unary({ request: bytes, response: bytes }),
  echoJson: unary(),
  hang: unary(),
  listen: unary(),
});

export async function open({ lane, pollBudgetUs, size = 0 } = {}) {
  const standardBytes = 4 * 1024 * 1024;
  const messageLimitBytes = Math.max(standardBytes, size);
  if (pollBudgetUs !== undefined) configure({ pollBudgetUs });
  const session = { lane, limits: { receiveMaxBytes: messageLimitBytes } };
  const settings = JSON.stringify({ ...session, pollBudgetUs });
  const file = fileURLToPath(import.meta.url);
  const args = [...process.execArgv, file, 'serve', settings];
  const restart = { firstMs: 10, maxMs: 10, maxRestarts: 1000 };
  const helper = await spawnHelper(process.execPath, args, { ...session, restart });
  const client = helper.client(Echo);
  return {
    lane: helper.session.lane,
    serverPid: helper.pid,
    messageLimitBytes,
    echo: (payload) => client.echo(payload),
    echoJson: (value) => client.echoJson(value),
    hang: () => client.hang(),
    currentPid: () => helper.pid,
    untilAnswered: async (payload) => {
      for (;;) {
        try {
          return await client.echo(payload);
        } catch {
          await new Promise((resolve) => setTimeout(resolve, 1));
        }
      }
    },
    openIdle: async (count) => {
      const { path } = await client.listen();
      const sessions = [];
      for (let at = 0; at < count; at += 1) sessions.push(await connect({ path, lane }));
      return () => Promise.all(sessions.map((each) => each.close()));
    },
    close: () => helper.stop(),
  };
}

if (process.argv[2] === 'serve') {
  process.once('SIGTERM', () => process.exit(0)); // so that a profile is written
  const { lane, limits, pollBudgetUs } = JSON.parse(process.argv[3]);
  if (pollBudgetUs !== undefined) configure({ pollBudgetUs });
  const session = await parent({ lane, limits });
  let listener;
  session.serve(Echo, {
    echo: (payload) => payload,
    echoJson: (value) => value,
    hang: (_request, { signal }) =>
      new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason)),
      ),
    listen: async () => {
      listener ??= await listen({ lane });
      if (listener.sessionCount === 0) void keepSessions(listener);
      return { path: listener.path };
    },
  });
}

/** They are only held. */
async function keepSessions(listener) {
  for await (const session of listener) session.unref();
}
