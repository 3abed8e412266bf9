// sidecall: a helper, default limits unless messages are longer, identity checked as always.
import { fileURLToPath } from 'node:url';
import {
  bytes,
  clientStream,
  configure,
  connect,
  listen,
  parent,
  serverStream,
  service,
  spawnHelper,
  unary,
} from '../../dist/index.js';
import { protobuf } from '../../dist/protobuf.js';
import { messageType } from '../rows.mjs';

const message = protobuf(messageType);
const Echo = service('Echo', {
  echo: unary({ request: bytes, response: bytes }),
  echoJson: unary(),
  echoProtobuf: unary({ request: message, response: message }),
  drip: serverStream({ response: bytes }),
  pour: clientStream({ request: bytes }),
  upload: unary({ request: bytes }),
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
    echoProtobuf: (value) => client.echoProtobuf(value),
    drip: (request) => client.drip(request),
    upload: (payload) => client.upload(payload),
    pour: async (payload, seconds) => {
      const call = client.pour();
      const begun = performance.now();
      let messages = 0;
      for (let now = begun; now < begun + seconds * 1000; now = performance.now()) {
        messages += 1;
        await call.send(payload);
      }
      const { bytes: received } = await call.end();
      if (received !== messages * payload.length) throw new Error('messages were lost');
      return messages;
    },
    openClients: async (count) => {
      const { path } = await client.listen();
      const sessions = [];
      for (let at = 0; at < count; at += 1) sessions.push(await connect({ path, lane }));
      return {
        echoes: sessions.map((session) => session.client(Echo).echo),
        close: () => Promise.all(sessions.map((each) => each.close())),
      };
    },
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
  const handlers = {
    echo: (payload) => payload,
    echoJson: (value) => value,
    echoProtobuf: (value) => value,
    async *drip({ size, milliseconds }) {
      const piece = Buffer.alloc(size, 7);
      const until = performance.now() + milliseconds;
      while (performance.now() < until) yield piece;
    },
    async pour(pieces) {
      let received = 0;
      for await (const piece of pieces) received += piece.length;
      return { bytes: received };
    },
    upload: (payload) => ({ bytes: payload.length }),
    hang: (_request, { signal }) =>
      new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason)),
      ),
    listen: async () => {
      if (listener === undefined) {
        listener = await listen({ lane });
        listener.serve(Echo, handlers);
        listener.unref();
      }
      return { path: listener.path };
    },
  };
  session.serve(Echo, handlers);
}
