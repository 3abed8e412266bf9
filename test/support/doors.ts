// The ways to one server, each as a test opens it and as a caller reaches it.

import { fileURLToPath } from 'node:url';
import { credentials, ServerCredentials } from '@grpc/grpc-js';
import { grpcTarget, listenGrpc } from '../../src/adapters/grpc/main.ts';
import { spawnHelper } from '../../src/helper/spawn-helper.ts';
import type { Server } from '../../src/open/server.ts';
import { connect } from '../../src/rendezvous/connect.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import type { ClientOptions } from '../../src/rpc/calling/client.ts';
import type { Client, Methods, Service } from '../../src/rpc/contract/method-types.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { localhostCertificate } from './certificates.ts';
import { programPath } from './programs.ts';

/** A caller of a server. */
interface Caller {
  client<M extends Methods>(service: Service<M>, options?: ClientOptions): Client<M>;
  close(): Promise<unknown>;
}

export interface Door {
  readonly name: string;
  /** The origin that handlers see. */
  readonly origin: string;
  /** The handlers run in another process, with a server of its own. */
  readonly isElsewhere?: boolean;
  /** The socket lane's reason, here and in the other process. */
  readonly socketReasons?: readonly [string, string] | undefined;
  open(app: Server): Promise<Caller>;
}

const pathDoor = (lane: 'ring' | 'socket'): Door => ({
  name: `a path, by the ${lane}`,
  origin: 'kernel',
  async open(app) {
    const { path } = await listen({ services: app, lane });
    return connect({ path, lane });
  },
});

const token = (given: unknown): { origin: 'secret' } | undefined =>
  given === 'right' ? { origin: 'secret' } : undefined;

/** Sends the token with every call. */
const withToken: ClientOptions = {
  interceptors: [
    (call, next) =>
      next({
        ...call,
        options: { ...call.options, metadata: { token: 'right', ...call.options?.metadata } },
      }),
  ],
};

const helperProgram = programPath('everything-helper.mjs');

const noMemory = fileURLToPath(new URL('without-memfd.py', import.meta.url));

function helperDoor(
  name: string,
  command: readonly [string, ...string[]],
  socketReasons?: Door['socketReasons'],
  env: NodeJS.ProcessEnv = {},
): Door {
  const [program, ...args] = command;
  return {
    name,
    origin: 'parent',
    isElsewhere: true,
    socketReasons,
    open: () => spawnHelper(program, args, { env: { ...process.env, ...env } }),
  };
}

async function overTcp(app: Server, isEncrypted: boolean): Promise<Caller> {
  const { key, cert } = localhostCertificate;
  const pair = { private_key: Buffer.from(key), cert_chain: Buffer.from(cert) };
  const { port } = await listenGrpc({
    services: app,
    address: '127.0.0.1:0',
    credentials: isEncrypted
      ? ServerCredentials.createSsl(null, [pair])
      : ServerCredentials.createInsecure(),
    authenticate: ({ metadata }) => token(metadata.token),
  });
  const target = grpcTarget(`127.0.0.1:${port}`, {
    credentials: isEncrypted
      ? credentials.createSsl(Buffer.from(cert))
      : credentials.createInsecure(),
    channelOptions: { 'grpc.ssl_target_name_override': 'localhost' },
  });
  return {
    client: (service, options) => target.client(service, { ...withToken, ...options }),
    close: () => target.close(),
  };
}

export const doors: readonly Door[] = [
  {
    name: 'a pair of sessions in a test',
    origin: 'loopback',
    async open(app) {
      const { near } = createSessionPair({ far: { services: app } });
      return near;
    },
  },
  pathDoor('ring'),
  pathDoor('socket'),
  helperDoor('a helper', [process.execPath, helperProgram]),
  helperDoor(
    'a helper that may make no memory',
    ['/usr/bin/python3', noMemory, process.execPath, helperProgram],
    ['the peer declined our shared memory', 'memfd_create: Operation not permitted'],
  ),
  helperDoor(
    'a helper that wants no memory',
    [process.execPath, helperProgram, 'socket'],
    ['the peer offers no shared memory', 'the socket lane was asked for'],
  ),
  helperDoor(
    'a helper without the addon',
    [process.execPath, helperProgram],
    ['the peer offers no shared memory', 'there is no addon: SIDECALL_NATIVE=off'],
    { SIDECALL_NATIVE: 'off' },
  ),
  {
    name: 'gRPC at a path',
    origin: 'kernel',
    async open(app) {
      const { path } = await listenGrpc({ services: app });
      return grpcTarget(`unix:${path}`);
    },
  },
  { name: 'gRPC over TCP', origin: 'secret', open: (app) => overTcp(app, false) },
  { name: 'gRPC over TLS', origin: 'secret', open: (app) => overTcp(app, true) },
];
