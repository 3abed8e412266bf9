// The sessions within this process over which calls of gRPC are made again: one for each caller.
import * as grpc from '@grpc/grpc-js';
import { expect, it, onTestFinished } from 'vitest';
import { CallerSessions } from '../../src/adapters/grpc/caller-sessions.ts';
import { listenGrpc } from '../../src/adapters/grpc/main.ts';
import { systemClock, type Timer } from '../../src/base/clock.ts';
import type { Peer } from '../../src/base/peer.ts';
import { server } from '../../src/open/server.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { implement } from '../../src/rpc/serving/implementation.ts';
import { Registry } from '../../src/rpc/serving/registry.ts';
import { addOne, served } from '../support/grpc.ts';

const Desk = service('Desk', { ask: unary({ request: bytes, response: bytes }) });
const x = Buffer.from('x');
const caller: Peer = Object.freeze({
  origin: 'kernel',
  capturedAt: 'connect',
  pid: 1,
  pidIsHint: false,
  uid: 0,
  gid: 0,
  groups: [],
});

/** A client with a connection of its own. */
function clientOf(path: string): () => Promise<Buffer> {
  const client = new grpc.Client(`unix:${path}`, grpc.credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
  });
  onTestFinished(() => client.close());
  const pass = (value: Buffer): Buffer => value;
  return () =>
    new Promise((resolve, reject) => {
      client.makeUnaryRequest('/Desk/ask', pass, pass, x, (error, value) =>
        error === null ? resolve(value as Buffer) : reject(error),
      );
    });
}

it('each connection has a session, and says who calls', async () => {
  await using app = server();
  const peers: Peer[] = [];
  app.serve(Desk, {
    ask: (message, { peer }) => {
      peers.push(peer);
      return message;
    },
  });
  await using listener = await listenGrpc({ services: app });
  const [one, other] = [clientOf(listener.path as string), clientOf(listener.path as string)];
  for (let round = 0; round < 5; round += 1) await Promise.all([one(), other(), one()]);
  expect(peers).toHaveLength(15);
  expect(new Set(peers).size).toBe(2);
  expect(peers.every(({ origin, pid }) => origin === 'kernel' && pid === process.pid)).toBe(true);
});

it('callers that authenticate tells apart are told apart in each call', async () => {
  const names: string[] = [];
  await using grpcServer = await served(
    {
      addOne: (_question, { peer, metadata }) => {
        names.push(`${metadata.id} ${peer.name}`);
        return {};
      },
    },
    {
      authenticate: ({ metadata }) => ({ origin: 'secret', name: String(metadata.user) }),
    },
  );
  const calls = Array.from({ length: 60 }, (_, id) => {
    const metadata = new grpc.Metadata();
    metadata.set('user', `user-${id % 3}`);
    metadata.set('id', String(id));
    return addOne(grpcServer.client, {}, { metadata });
  });
  await Promise.all(calls);
  expect(names.sort()).toEqual(
    Array.from({ length: 60 }, (_, id) => `${id} user-${id % 3}`).sort(),
  );
});

it('starts all handlers of a caller at once: they may wait for the last one', async () => {
  await using app = server();
  const count = 100; // grpc-js takes no more of one connection at once
  let started = 0;
  let open: () => void = () => undefined;
  const all = new Promise<void>((resolve) => {
    open = resolve;
  });
  app.serve(Desk, {
    ask: async (message) => {
      started += 1;
      if (started === count) open();
      await all;
      return message;
    },
  });
  await using listener = await listenGrpc({ services: app });
  const ask = clientOf(listener.path as string);
  // No pause ends: what waits for one does not start.
  const { setTimeout } = systemClock;
  systemClock.setTimeout = (then, _ms, ...args) => setTimeout(then, 100_000, ...args);
  onTestFinished(() => {
    systemClock.setTimeout = setTimeout;
  });
  await Promise.all(Array.from({ length: count }, ask));
  systemClock.setTimeout = setTimeout;
  expect(started).toBe(count);
});

it('a session is kept while it has calls, and closed at the second look without one', async () => {
  const looks: (() => void)[] = [];
  const registry = new Registry();
  registry.addAll([implement(Desk, { ask: (message) => message })]);
  const clock = {
    ...systemClock,
    setTimeout: (look: () => void): Timer => {
      looks.push(look);
      return { ref: () => undefined, unref: () => undefined };
    },
  };
  const sessions = new CallerSessions(registry, undefined, clock as typeof systemClock);
  const first = sessions.enter(caller);
  const client = first.client(Desk as never) as unknown as { ask(value: Buffer): Promise<Buffer> };
  const look = (): void => looks.shift()?.();
  for (let round = 0; round < 5; round += 1) look();
  expect(sessions.enter(caller)).toBe(first);
  sessions.leave(first);
  expect(String(await client.ask(x))).toBe('x');
  sessions.leave(first);
  look();
  expect(sessions.enter(caller)).toBe(first);
  sessions.leave(first);
  look();
  look();
  await expect(client.ask(x)).rejects.toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
  expect(looks).toEqual([]);
  const second = sessions.enter(caller);
  expect(second).not.toBe(first);
  sessions.leave(second);
  look();
  look();
});
