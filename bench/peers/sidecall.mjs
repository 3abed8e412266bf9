// sidecall: a helper, default limits unless messages are longer, with the default identity checks.
import { fileURLToPath } from 'node:url';
import { protobuf } from '../../dist/adapters/protobuf.js';
import {
  bidi,
  bytes,
  clientStream,
  configure,
  connect,
  HealthService,
  leased,
  listen,
  parent,
  serverStream,
  service,
  spawnHelper,
  unary,
} from '../../dist/index.js';
import { messageType } from '../rows.mjs';

const message = protobuf(messageType);
const Echo = service('Echo', {
  echo: unary({ request: bytes, response: bytes }),
  echoBorrowed: unary({ request: bytes.borrowed, response: bytes.borrowed }),
  echoJson: unary(),
  echoProtobuf: unary({ request: message, response: message }),
  drip: serverStream({ response: bytes }),
  pour: clientStream({ request: bytes }),
  pourBorrowed: clientStream({ request: bytes.borrowed }),
  dripBorrowed: serverStream({ response: bytes.borrowed }),
  exchange: bidi({ request: bytes, response: bytes }),
  upload: unary({ request: bytes }),
  uploadBorrowed: unary({ request: bytes.borrowed }),
  lend: unary({ request: leased, response: leased }),
  raise: unary({ request: leased, response: leased }),
  pourLeased: clientStream({ request: leased }),
  dripLeased: serverStream({ response: leased }),
  hang: unary(),
  listen: unary(),
});

const blockAreaBytes = 64 * 1024 * 1024;

export async function open({ lane, pollBudgetUs, size = 0, leases, serverPrefix = [] } = {}) {
  const standardBytes = 4 * 1024 * 1024;
  const messageLimitBytes = Math.max(standardBytes, size);
  if (pollBudgetUs !== undefined) configure({ pollBudgetUs });
  const limits = { receiveMaxBytes: messageLimitBytes };
  const session = { lane, limits, ...(leases && { leases, blockAreaBytes }) };
  const settings = JSON.stringify({ ...session, pollBudgetUs });
  const file = fileURLToPath(import.meta.url);
  const args = [...process.execArgv, file, 'serve', settings];
  const restart = { firstMs: 10, maxMs: 10, maxRestarts: 1000 };
  const [command, ...rest] = [...serverPrefix, process.execPath, ...args];
  const helper = await spawnHelper(command, rest, { ...session, restart });
  const client = helper.client(Echo);
  const health = helper.client(HealthService);
  let path;
  return {
    lane: helper.session.lane,
    serverPid: helper.pid,
    messageLimitBytes,
    echo: (payload) => client.echo(payload),
    echoBorrowed: (payload, into) => client.echoBorrowed(payload, { into }),
    echoJson: (value) => client.echoJson(value),
    echoProtobuf: (value) => client.echoProtobuf(value),
    drip: (request) => client.drip(request),
    openStream: () => {
      const call = client.exchange();
      return {
        exchange: async (payload) => {
          await call.send(payload);
          return (await call.next()).value;
        },
        end: async () => {
          await call.end();
          await call.next(); // the end of the answers
        },
      };
    },
    upload: (payload) => client.upload(payload),
    uploadBorrowed: (payload) => client.uploadBorrowed(payload),
    allocate: (bytes) => helper.session.allocate(bytes),
    lend: (block) => client.lend(block),
    raise: (block) => client.raise(block),
    check: async () => (await health.check({ service: '' })).status,
    dripBorrowed: (request) => client.dripBorrowed(request),
    dripLeased: (request) => client.dripLeased(request),
    openPingPong: async (size) => {
      const metadata = { size: String(size) };
      const channel = helper.session.openChannel(bytes, { name: 'pingpong', metadata });
      return {
        receive: async () => (await channel.next()).value,
        send: (message) => channel.send(message),
        close: () => channel.end(),
      };
    },
    pour: async (payload, seconds, how = 'pour') => {
      const call = client[how]();
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
    connectAgain: async () => {
      path ??= (await client.listen()).path;
      const session = await connect({ path, lane });
      return {
        echo: session.client(Echo).echo,
        close: () => session.close(),
      };
    },
    hang: (options) => client.hang(undefined, options),
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

/** Sends messages filled with their number, the server first, and requires the same back. */
async function servePingPong(session) {
  for await (const channel of session.channels(bytes, { name: 'pingpong' })) {
    const { metadata } = channel;
    const size = Number(metadata.size);
    try {
      for (let count = 0; ; count += 1) {
        const own = Buffer.alloc(size, count & 0xff);
        await channel.send(own);
        const { done, value } = await channel.next();
        if (done) break;
        if (!own.equals(value)) throw new Error('a wrong answer');
      }
      await channel.end();
    } catch {
      // the client has closed
    }
  }
}

async function* drip({ size, milliseconds }) {
  const piece = Buffer.alloc(size, 7);
  const until = performance.now() + milliseconds;
  while (performance.now() < until) yield piece;
}

async function lengthOf(pieces) {
  let received = 0;
  for await (const piece of pieces) received += piece.length;
  return { bytes: received };
}

if (process.argv[2] === 'serve') {
  process.once('SIGTERM', () => process.exit(0)); // so that a profile is written
  const { pollBudgetUs, ...options } = JSON.parse(process.argv[3]);
  if (pollBudgetUs !== undefined) configure({ pollBudgetUs });
  const session = await parent(options);
  const { lane } = options;
  void servePingPong(session);
  let listener;
  const handlers = {
    echo: (payload) => payload,
    echoBorrowed: (payload) => payload,
    echoJson: (value) => value,
    echoProtobuf: (value) => value,
    drip,
    dripBorrowed: drip,
    pour: lengthOf,
    pourBorrowed: lengthOf,
    async *exchange(messages) {
      yield* messages;
    },
    upload: (payload) => ({ bytes: payload.length }),
    uploadBorrowed: (payload) => ({ bytes: payload.length }),
    lend: (lease, ctx) => ctx.allocate(lease.byteLength),
    raise: (lease, ctx) => {
      const block = ctx.allocate(lease.byteLength);
      block.bytes.set(lease.bytes);
      return block;
    },
    async pourLeased(leases) {
      let received = 0;
      for await (const lease of leases) {
        received += lease.byteLength;
        lease.release();
      }
      return { bytes: received };
    },
    async *dripLeased({ size, milliseconds }) {
      const piece = Buffer.alloc(size, 7);
      const until = performance.now() + milliseconds;
      while (performance.now() < until) yield piece;
    },
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
