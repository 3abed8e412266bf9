// The public functions that take options, with the options of each, by their kinds.
import { PassThrough } from 'node:stream';
import { credentials, Server, ServerCredentials } from '@grpc/grpc-js';
import { exposeToRenderer } from '../../src/adapters/electron/main.ts';
import { connectMain } from '../../src/adapters/electron/renderer.ts';
import {
  chunkStream,
  connectGolib,
  listenGolib,
  protoStream,
} from '../../src/adapters/golib/main.ts';
import { grpcTarget, listenGrpc, serveGrpc } from '../../src/adapters/grpc/main.ts';
import { jsonrpcTransport, relayStdio, stdioTransport } from '../../src/adapters/jsonrpc.ts';
import { observeSessions, openTelemetry } from '../../src/adapters/otel.ts';
import { protobufService } from '../../src/adapters/protobuf.ts';
import { parent } from '../../src/helper/parent.ts';
import { type Helper, spawnHelper } from '../../src/helper/spawn-helper.ts';
import { configure } from '../../src/open/configure.ts';
import { server } from '../../src/open/server.ts';
import { connectPool } from '../../src/pool/connect-pool.ts';
import { spawnPool } from '../../src/pool/spawn-pool.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import type { PlainConnection } from '../../src/rendezvous/plain-listener.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { traceContext } from '../../src/rpc/contract/trace-context.ts';
import { listenShared } from '../../src/shared/listen-shared.ts';
import { sharedHelper } from '../../src/shared/shared-helper.ts';
import { connectShmipc, listenShmipc } from '../../src/shmipc/main.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { simulate } from '../../src/testing/simulation/simulate.ts';
import { scratchDirectory } from './programs.ts';

export type Options = Record<string, unknown>;

export interface Target {
  /** Calls the function with these options beside those that it needs. */
  readonly call: (options: Options, subject: never) => unknown;
  /** The object whose method it is, where that takes long to make: one for all of its tests. */
  readonly open?: () => Promise<AsyncDisposable>;
  readonly numbers: readonly string[];
  readonly others: readonly string[];
  /** It takes any object with these properties, such as an instance of a class. */
  readonly takesMore?: boolean;
}

const scratch = scratchDirectory();
const path = scratch.file('nobody-listens');
const Store = service('Store', { same: unary({ request: bytes, response: bytes }) });

const session = {
  numbers: [
    'ringBytes',
    'socketBufferBytes',
    'blockAreaBytes',
    'pollBudgetUs',
    'idleTimeoutMs',
    'stalledAfterMs',
    'stallTimeoutMs',
  ],
  others: [
    'limits',
    'lane',
    'leases',
    'introspection',
    'services',
    'keepAlive',
    'monitor',
    'onEvent',
  ],
};
const connecting = {
  numbers: ['timeoutMs'],
  others: ['path', 'expect', 'signal', 'unsafeDirectory', 'identity'],
};
const listening = {
  numbers: [
    'owner',
    'gid',
    'backlog',
    'helloTimeoutMs',
    'hellosMax',
    'sessionsMax',
    'sessionsPerUidMax',
    'sessionsPerProcessMax',
  ],
  others: ['path', 'authorize', 'mode', 'unlinkOnClose', 'unsafeDirectory', 'identity', 'onEvent'],
};
const spawning = {
  numbers: ['uid', 'gid', 'startTimeoutMs'],
  others: ['cwd', 'execArgv', 'env', 'stdout', 'stderr', 'ownProcessGroup', 'recorder', 'signal'],
};
const pool = { numbers: ['size', 'callsPerMember'], others: [] };
const frames = { numbers: ['receiveMaxBytes', 'frameTimeoutMs'], others: [] };
const limits = [
  'receiveMaxBytes',
  'metadataMaxBytes',
  'streamsMax',
  'streamWindowBytes',
  'sessionWindowBytes',
  'sendQueueMaxBytes',
];

function target(
  call: Target['call'],
  ...sets: readonly { numbers: readonly string[]; others: readonly string[] }[]
): Target {
  const all = (name: 'numbers' | 'others') => [...new Set(sets.flatMap((set) => set[name]))];
  return { call, numbers: all('numbers'), others: all('others') };
}

/** A function of a session, at a pair that ends with the call. */
async function withPair(call: (near: ReturnType<typeof createSessionPair>['near']) => unknown) {
  const { near, far } = createSessionPair();
  far.serve(Store, { same: (message) => message });
  try {
    return await call(near);
  } finally {
    await near.close();
  }
}

/** A function of a connection without a protocol. */
async function withPlain(call: (near: PlainConnection) => unknown) {
  await using listener = await listen({ protocol: 'plain' });
  const near = await connect({ path: listener.path, protocol: 'plain' });
  const { value: far } = await listener[Symbol.asyncIterator]().next();
  try {
    return await call(near);
  } finally {
    near.destroy();
    far?.destroy();
  }
}

type Pool = Awaited<ReturnType<typeof spawnPool>>;
const aHelper = { open: () => spawnHelper(helperFile) };
const aPool = { open: () => spawnPool(helperFile, [], { size: 1 }) };

const ignore = (): undefined => undefined;
const pages = { ipc: { on: ignore, off: ignore }, on: ignore } as never;
const program = { stdin: new PassThrough(), stdout: new PassThrough() } as never;
const none: never[] = [];
const helperFile = new URL('../e2e/programs/helper.mjs', import.meta.url);

export const targets: Record<string, Target> = {
  'connect()': target((given) => connect({ path, ...given } as never), session, connecting, {
    numbers: none,
    others: ['protocol', 'reconnect'],
  }),
  'connect({ protocol: plain })': target(
    (given) => connect({ path, protocol: 'plain', ...given } as never),
    connecting,
  ),
  reconnect: target((given) => connect({ path, reconnect: given } as never), {
    numbers: ['firstMs', 'maxMs', 'giveUpMs'],
    others: none,
  }),
  'listen()': target((given) => listen({ path, ...given } as never), session, listening, {
    numbers: none,
    others: ['protocol', 'takeOver'],
  }),
  'listen({ protocol: plain })': target(
    (given) => listen({ path, protocol: 'plain', ...given } as never),
    listening,
  ),
  takeOver: target((given) => listen({ path, takeOver: given } as never), {
    numbers: ['timeoutMs'],
    others: ['ready', 'metadata', 'from'],
  }),
  keepAlive: target((given) => listen({ path, keepAlive: given } as never), {
    numbers: ['intervalMs', 'timeoutMs'],
    others: none,
  }),
  monitor: target((given) => listen({ path, monitor: given } as never), {
    numbers: ['intervalMs'],
    others: ['report', 'flush'],
  }),
  limits: target((given) => listen({ path, limits: given } as never), {
    numbers: limits,
    others: none,
  }),
  'inspect()': target((given) => withPair(async (near) => near.inspect(given as never)), {
    numbers: ['unreadMaxBytes', 'payloadMaxBytes'],
    others: none,
  }),
  'handOver()': target(
    async (given) => {
      await using listener = await listen();
      return await listener.handOver(given as never);
    },
    { numbers: ['waitMs', 'deadlineMs'], others: ['to', 'refuse', 'signal'] },
  ),
  'spawnHelper()': target(
    (given) => spawnHelper(helperFile, [], given as never),
    session,
    spawning,
    { numbers: none, others: ['restart'] },
  ),
  restart: target((given) => spawnHelper(helperFile, [], { restart: given } as never), {
    numbers: ['firstMs', 'maxMs', 'maxRestarts', 'windowMs'],
    others: ['onSuccess'],
  }),
  'spawnPool()': target(
    (given) => spawnPool(helperFile, [], given as never),
    session,
    spawning,
    pool,
    { numbers: none, others: ['restart', 'recycle'] },
  ),
  recycle: target((given) => spawnPool(helperFile, [], { recycle: given } as never), {
    numbers: ['calls', 'ageMs', 'memoryBytes'],
    others: none,
  }),
  'connectPool()': target(
    (given) => connectPool({ path, ...given } as never),
    session,
    connecting,
    pool,
    { numbers: none, others: ['reconnect'] },
  ),
  'sharedHelper()': target(
    (given) =>
      sharedHelper({ name: 'never', version: '1.0.0', program: helperFile, ...given } as never),
    { numbers: session.numbers, others: session.others },
    {
      numbers: ['startTimeoutMs'],
      others: ['name', 'key', 'version', 'program', 'args', 'env', 'onOlder', 'onNewer'],
    },
    { numbers: none, others: ['reconnect', 'signal'] },
  ),
  'listenShared()': target((given) => listenShared(given as never), {
    numbers: none,
    others: ['ready'],
  }),
  'server()': target((given) => server(given as never), {
    numbers: none,
    others: ['services', 'interceptors', 'limits'],
  }),
  'configure()': target((given) => configure(given as never), {
    numbers: ['pollBudgetUs', 'ringMemoryMaxBytes'],
    others: ['inspection'],
  }),
  'json()': target((given) => json(given as never), { numbers: ['depthMax'], others: none }),
  'client()': target((given) => withPair((near) => near.client(Store, given as never)), {
    numbers: ['timeoutMs'],
    others: ['interceptors', 'retry'],
  }),
  retry: target((given) => withPair((near) => near.client(Store, { retry: given } as never)), {
    numbers: ['attempts', 'firstMs', 'maxMs', 'budget'],
    others: none,
  }),
  'a call': target(
    (given) => withPair((near) => near.client(Store).same(Buffer.from('x'), given as never)),
    {
      numbers: ['timeoutMs', 'windowBytes'],
      others: ['signal', 'metadata', 'into', 'onHeaders', 'onTrailers', 'resubscribe'],
    },
  ),
  'openChannel()': target(
    (given) => withPair((near) => near.openChannel(bytes, { name: 'x', ...given } as never)),
    {
      numbers: ['timeoutMs', 'windowBytes', 'idleTimeoutMs'],
      others: ['name', 'priority', 'signal', 'metadata'],
    },
  ),
  'openDuplex()': target(
    (given) => withPair((near) => near.openDuplex({ name: 'x', ...given } as never)),
    {
      numbers: ['timeoutMs', 'windowBytes', 'idleTimeoutMs'],
      others: ['name', 'priority', 'signal', 'metadata', 'allowHalfOpen'],
    },
  ),
  'session.close()': target((given) => withPair((near) => near.close(given as never)), {
    numbers: ['deadlineMs'],
    others: none,
  }),
  'session.ping()': target((given) => withPair((near) => near.ping(given as never)), {
    numbers: ['timeoutMs'],
    others: ['signal'],
  }),
  'connectGolib()': target(
    (given) => connectGolib({ path, ...given } as never),
    connecting,
    frames,
    {
      numbers: ['callTimeoutMs'],
      others: ['methodName', 'oneCallPerConnection', 'onEvent'],
    },
  ),
  'listenGolib()': target(
    (given) => listenGolib({ services: [], ...given } as never),
    listening,
    frames,
    { numbers: ['callsPerConnection', 'answerMaxBytes'], others: ['services', 'wireName'] },
  ),
  'grpcTarget()': target(
    (given) =>
      grpcTarget('127.0.0.1:1', { credentials: credentials.createInsecure(), ...given } as never),
    { numbers: ['receiveMaxBytes'], others: ['credentials', 'channelOptions'] },
  ),
  'listenGrpc()': target((given) => listenGrpc({ services: [], ...given } as never), listening, {
    numbers: none,
    others: ['services', 'health', 'introspection'],
  }),
  'connectShmipc()': target(
    (given) => connectShmipc({ path, trustsPeerMemory: true, ...given } as never),
    {
      numbers: connecting.numbers,
      others: connecting.others.filter((name) => name !== 'identity'),
    },
    {
      numbers: ['bufferBytes', 'queueCapacity', 'streamsMax', 'unreadMaxBytes', 'stallTimeoutMs'],
      others: ['trustsPeerMemory', 'onEvent'],
    },
  ),
  'listenShmipc()': target(
    (given) => listenShmipc({ path, trustsPeerMemory: true, ...given } as never),
    { numbers: listening.numbers, others: listening.others.filter((name) => name !== 'identity') },
    {
      numbers: ['memoryMaxBytes', 'streamsMax', 'unreadMaxBytes', 'stallTimeoutMs'],
      others: ['trustsPeerMemory', 'directory'],
    },
  ),
  'listenGrpc() at an address': target(
    (given) =>
      listenGrpc({
        services: [],
        address: '127.0.0.1:0',
        credentials: ServerCredentials.createInsecure(),
        authenticate: () => undefined,
        ...given,
      } as never),
    {
      numbers: none,
      others: ['address', 'authenticate', 'serverOptions', 'health', 'introspection', 'onEvent'],
    },
  ),
  'serveGrpc()': target(
    (given) => serveGrpc(new Server(), [], { authenticate: () => undefined, ...given } as never),
    {
      numbers: none,
      others: ['authenticate', 'isEncrypted', 'health', 'introspection', 'onEvent'],
    },
  ),
  'chunkStream()': target(
    (given) => withPlain((near) => chunkStream(near, bytes as never, given as never)),
    frames,
  ),
  'protoStream()': target(
    (given) => withPlain((near) => protoStream(near, bytes as never, given as never)),
    frames,
    { numbers: none, others: ['closeLast'] },
  ),
  'serve()': target(
    (given) =>
      withPair((near) =>
        near.serve(Store, { same: (x: Uint8Array) => x } as never, given as never),
      ),
    { numbers: none, others: ['interceptors', 'partial'] },
  ),
  'a method': target((given) => unary(given as never), {
    numbers: none,
    others: ['request', 'response', 'priority', 'idempotent'],
  }),
  'acceptChannels()': target(
    (given) => withPair((near) => near.channels(bytes, { name: 'x', ...given } as never)),
    { numbers: ['idleTimeoutMs'], others: ['name', 'priority'] },
  ),
  'channel.send()': target(
    (given) =>
      withPair((near) =>
        near.openChannel(bytes, { name: 'x' }).send(new Uint8Array(1), given as never),
      ),
    { numbers: ['timeoutMs'], others: ['signal'] },
  ),
  'channel.subscribe()': {
    ...target(
      (given) =>
        withPair((near) =>
          near.openChannel(bytes, { name: 'x' }).subscribe({ message: ignore, ...given } as never),
        ),
      { numbers: none, others: ['message', 'end', 'error'] },
    ),
    takesMore: true,
  },
  'helper.stop()': {
    ...aHelper,
    ...target((given, helper: Helper) => helper.stop(given as never), {
      numbers: ['deadlineMs', 'killGraceMs'],
      others: none,
    }),
  },
  'helper.replace()': {
    ...aHelper,
    ...target((given, helper: Helper) => helper.replace(given as never), {
      numbers: ['deadlineMs', 'killGraceMs'],
      others: ['program', 'args'],
    }),
  },
  'pool.stop()': {
    ...aPool,
    ...target((given, members: Pool) => members.stop(given as never), {
      numbers: ['deadlineMs'],
      others: none,
    }),
  },
  'pool.map()': {
    ...aPool,
    ...target((given, members: Pool) => members.map([1], async () => 1, given as never).next(), {
      numbers: ['concurrency'],
      others: ['ordered', 'signal'],
    }),
  },
  'parent()': target((given) => parent(given as never), session, {
    numbers: ['timeoutMs'],
    others: ['expect'],
  }),
  'createSessionPair()': target((given) => createSessionPair(given as never), {
    numbers: none,
    others: ['near', 'far'],
  }),
  'a side of createSessionPair()': target((given) => createSessionPair({ near: given } as never), {
    numbers: none,
    others: ['limits', 'peer', 'introspection', 'services', 'onEvent'],
  }),
  'simulate()': target((given) => simulate({ run: ignore, ...given } as never), {
    numbers: ['seed', 'limitMs'],
    others: ['lane', 'faults', 'onTrace', 'run'],
  }),
  'exposeToRenderer()': target(
    (given) =>
      withPair((near) =>
        exposeToRenderer(pages, near, {
          MessageChannelMain: class {},
          allow: [Store],
          ...given,
        } as never),
      ),
    {
      numbers: ['maxInFlight'],
      others: ['MessageChannelMain', 'allow', 'origins', 'name', 'onEvent'],
    },
  ),
  'jsonrpcTransport()': target(
    (given) => withPair((near) => jsonrpcTransport(near, { opens: true, ...given } as never)),
    { numbers: ['timeoutMs'], others: ['name', 'opens'] },
  ),
  'protobufService()': target(
    (given) => protobufService(class {} as never, {} as never, given as never),
    { numbers: none, others: ['descriptor'] },
  ),
  'openTelemetry()': target((given) => openTelemetry(given as never), {
    numbers: none,
    others: ['tracerProvider', 'meterProvider'],
  }),
  'observeSessions()': target((given) => observeSessions(given as never), {
    numbers: none,
    others: ['meterProvider'],
  }),
  'traceContext()': target((given) => traceContext(given as never), {
    numbers: none,
    others: ['api'],
  }),
  'relayStdio()': target(
    (given) => withPair((near) => relayStdio(near, program, { opens: true, ...given } as never)),
    { numbers: ['killGraceMs', 'timeoutMs'], others: ['framing', 'name', 'onError', 'opens'] },
  ),
  'stdioTransport()': target((given) => stdioTransport(program, given as never), {
    numbers: none,
    others: ['framing'],
  }),
  'connectMain()': target((given) => connectMain(given as never), {
    numbers: ['timeoutMs'],
    others: ['name'],
  }),
};
