// @grpc/grpc-js over a Unix socket: one warm channel, no limit on messages, bytes without a codec.
import * as grpc from '@grpc/grpc-js';
import { servedPath, startServer } from './server.mjs';

const asIs = (bytes) => bytes;
const definition = {
  echo: {
    path: '/bench.Echo/echo',
    requestStream: false,
    responseStream: false,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  },
};
const limits = {
  'grpc.max_receive_message_length': -1,
  'grpc.max_send_message_length': -1,
};

const Client = grpc.makeGenericClientConstructor(definition, 'Echo');

export async function open() {
  const { path, pid, stop } = await startServer(import.meta.url);
  const first = await connected(path);
  return {
    serverPid: pid,
    echo: first.echo,
    connectAgain: () => connected(path, { 'grpc.use_local_subchannel_pool': 1 }),
    close: async () => {
      first.close();
      await stop();
    },
  };
}

async function connected(path, options = {}) {
  const credentials = grpc.credentials.createInsecure();
  const client = new Client(`unix:${path}`, credentials, { ...limits, ...options });
  await new Promise((resolve, reject) =>
    client.waitForReady(Date.now() + 10_000, (error) => (error ? reject(error) : resolve())),
  );
  return {
    echo: (payload) =>
      new Promise((resolve, reject) =>
        client.echo(payload, (error, answer) => (error ? reject(error) : resolve(answer))),
      ),
    close: () => client.close(),
  };
}

const path = servedPath();
if (path !== undefined) {
  const server = new grpc.Server(limits);
  server.addService(definition, { echo: ({ request }, callback) => callback(null, request) });
  server.bindAsync(`unix:${path}`, grpc.ServerCredentials.createInsecure(), (error) => {
    if (error) throw error;
    process.send('ready');
  });
}
