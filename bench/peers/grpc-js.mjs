// @grpc/grpc-js over a Unix socket: one warm channel, no limit on messages, bytes without a codec.
import { once } from 'node:events';
import * as grpc from '@grpc/grpc-js';
import { servedPath, startServer } from './server.mjs';

const asIs = (bytes) => bytes;
const raw = {
  requestSerialize: asIs,
  requestDeserialize: asIs,
  responseSerialize: asIs,
  responseDeserialize: asIs,
};
const definition = {
  echo: { path: '/bench.Echo/echo', requestStream: false, responseStream: false, ...raw },
  upload: { path: '/bench.Echo/upload', requestStream: false, responseStream: false, ...raw },
  pour: { path: '/bench.Echo/pour', requestStream: true, responseStream: false, ...raw },
  exchange: { path: '/bench.Echo/exchange', requestStream: true, responseStream: true, ...raw },
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
    upload: first.upload,
    pour: first.pour,
    openStream: first.openStream,
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
    upload: (payload) =>
      new Promise((resolve, reject) =>
        client.upload(payload, (error, answer) =>
          error ? reject(error) : resolve(answer.readUInt32LE()),
        ),
      ),
    /** Writes as far as the flow control of HTTP/2 lets it. */
    pour: async (payload, seconds) => {
      let answered;
      const received = new Promise((resolve, reject) => {
        answered = (error, answer) => (error ? reject(error) : resolve(answer.readDoubleLE()));
      });
      const call = client.pour(answered);
      const until = performance.now() + seconds * 1000;
      let messages = 0;
      while (performance.now() < until) {
        messages += 1;
        if (!call.write(payload)) await once(call, 'drain');
      }
      call.end();
      if ((await received) !== messages * payload.length) throw new Error('messages were lost');
      return messages;
    },
    openStream: () => {
      const call = client.exchange();
      return {
        exchange: async (payload) => {
          call.write(payload);
          const [answer] = await once(call, 'data');
          return answer;
        },
        end: async () => {
          call.end();
          await once(call, 'end');
        },
      };
    },
    close: () => client.close(),
  };
}

const path = servedPath();
if (path !== undefined) {
  const server = new grpc.Server(limits);
  server.addService(definition, {
    echo: ({ request }, callback) => callback(null, request),
    upload: ({ request }, callback) =>
      callback(null, Buffer.from(Uint32Array.of(request.length).buffer)),
    pour: (call, callback) => {
      let received = 0;
      call
        .on('data', (message) => {
          received += message.length;
        })
        .on('end', () => callback(null, Buffer.from(Float64Array.of(received).buffer)));
    },
    exchange: (call) =>
      call.on('data', (message) => call.write(message)).on('end', () => call.end()),
  });
  server.bindAsync(`unix:${path}`, grpc.ServerCredentials.createInsecure(), (error) => {
    if (error) throw error;
    process.send('ready');
  });
}
