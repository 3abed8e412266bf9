// listenGrpc(): its end, its limits, and services that are added while it is open.
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { connect as createSocket, type Socket } from 'node:net';
import { Client, credentials, Metadata, ServerCredentials } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import {
  grpcTarget,
  type ListenGrpcPathOptions,
  listenGrpc,
} from '../../src/adapters/grpc/main.ts';
import { server } from '../../src/open/server.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { leased } from '../../src/rpc/contract/leases.ts';
import { notification, service, unary } from '../../src/rpc/contract/service.ts';
import { until } from '../support/contract.ts';
import { rounds } from '../support/rounds.ts';

const Store = service('Store', { get: unary({ request: bytes, response: bytes }) });
const x = Buffer.from('x');
const asIs = (message: Buffer): Buffer => message;

function rawClient(path: string | undefined): Client {
  return new Client(`unix:${path}`, credentials.createInsecure());
}

/** The statuses that a watch of the health service gives, until it ends. */
async function watched(client: Client, onFirst: () => void): Promise<number[]> {
  const path = '/grpc.health.v1.Health/Watch';
  const call = client.makeServerStreamRequest(path, asIs, asIs, Buffer.alloc(0), new Metadata());
  const seen: number[] = [];
  for await (const message of call) {
    seen.push((message as Buffer).at(-1) ?? 0);
    if (seen.length === 1) onFirst();
  }
  return seen;
}

describe('listenGrpc()', () => {
  it.each(['server', 'listener'])('a watch of health ends when the %s closes', async (closed) => {
    await using app = server();
    app.serve(Store, { get: (message) => message });
    const listener = await listenGrpc({ services: app });
    const client = rawClient(listener.path);
    let begun: () => void = () => undefined;
    const first = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const seen = watched(client, begun);
    await first;
    // The deadline is longer than the test may take.
    const close = { deadlineMs: 600_000 };
    await (closed === 'server' ? app.close(close) : listener.close(close));
    expect(await seen).toEqual([1, 2]); // SERVING, NOT_SERVING
    client.close();
  });

  it('a service that gRPC cannot carry is refused where it is added, and not served', async () => {
    await using app = server();
    app.serve(Store, { get: (message) => message });
    const listener = await listenGrpc({ services: app });
    const codecs = { request: leased, response: leased };
    const Leased = service('Leased', { get: unary(codecs) });
    for (let attempt = 0; attempt < 2; attempt += 1) {
      expect(() => app.serve(Leased, { get: () => undefined as never })).toThrow('leased messages');
    }
    const Words = service('Words', { say: unary({ request: bytes, response: bytes }) });
    app.serve(Words, { say: (message) => message });
    await using target = grpcTarget(`unix:${listener.path}`);
    expect(await target.client(Words).say(x)).toHaveLength(1);
  });

  it('two contracts of one service name are served side by side', async () => {
    await using app = server();
    const More = service('Store', { put: unary({ request: bytes, response: bytes }) });
    app.serve(Store, { get: (message) => message });
    const listener = await listenGrpc({ services: app });
    app.serve(More, { put: (message) => message });
    await using target = grpcTarget(`unix:${listener.path}`);
    expect(await target.client(Store).get(x)).toHaveLength(1);
    expect(await target.client(More).put(x)).toHaveLength(1);
  });

  it.each(['127.0.0.1:0', '[::1]:0', '0.0.0.0:0'])(
    'serves nothing at %s without authenticate, or without credentials',
    async (address) => {
      await using app = server();
      app.serve(Store, { get: (message) => message });
      const given = { services: app, address };
      const open = { ...given, credentials: ServerCredentials.createInsecure() };
      await expect(listenGrpc(open as never)).rejects.toThrow('needs options.authenticate');
      const known = { ...given, authenticate: () => ({ origin: 'secret' as const }) };
      await expect(listenGrpc(known as never)).rejects.toThrow('needs credentials');
    },
  );

  it('takes the limits of the server: the size of requests, and calls at once', async () => {
    await using app = server({ limits: { receiveMaxBytes: 8_000_000, streamsMax: 2 } });
    let now = 0;
    let most = 0;
    app.serve(Store, {
      get: async (message) => {
        now += 1;
        most = Math.max(most, now);
        await new Promise((resolve) => setTimeout(resolve, 5));
        now -= 1;
        return message.subarray(0, 1);
      },
    });
    const listener = await listenGrpc({ services: app });
    await using target = grpcTarget(`unix:${listener.path}`);
    const { get } = target.client(Store);
    expect(await get(Buffer.alloc(6_000_000))).toHaveLength(1);
    await Promise.all(Array.from({ length: 20 }, () => get(x)));
    expect(most).toBe(2);
  });

  it('takes more watches of callers that the kernel knows, also where health is anonymous', async () => {
    await using app = server();
    app.serve(Store, { get: (message) => message });
    const listener = await listenGrpc({ services: app, health: 'anonymous' });
    const client = rawClient(listener.path);
    let begun = 0;
    const watches = Array.from({ length: 300 }, () => watched(client, () => void (begun += 1)));
    await until(() => begun === 300);
    await listener.close();
    expect(await Promise.all(watches)).toHaveLength(300);
    client.close();
  });

  it('bounds the watches of callers that are not known', async () => {
    await using app = server();
    app.serve(Store, { get: (message) => message });
    const listener = await listenGrpc({
      services: app,
      address: '127.0.0.1:0',
      credentials: ServerCredentials.createInsecure(),
      authenticate: () => undefined,
      health: 'anonymous',
    });
    const client = new Client(`127.0.0.1:${listener.port}`, credentials.createInsecure());
    let begun = 0;
    const watches = Array.from({ length: 257 }, () => watched(client, () => void (begun += 1)));
    const refused = await Promise.any(
      watches.map((watch) =>
        watch.then(
          () => Promise.reject(new Error('it ended')),
          (e) => e,
        ),
      ),
    );
    expect(refused).toMatchObject({ code: 8 });
    await listener.close();
    const ends = await Promise.allSettled(watches);
    expect(ends.filter(({ status }) => status === 'fulfilled')).toHaveLength(256);
    expect(begun).toBe(256);
    client.close();
  });

  it('bounds the notifications whose handlers run, and takes more when they are done', async () => {
    await using app = server();
    const Log = service('Log', { note: notification({ request: bytes }) });
    let release: () => void = () => undefined;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    let done = 0;
    app.serve(Log, {
      note: async () => {
        await released;
        done += 1;
      },
    });
    const listener = await listenGrpc({ services: app });
    await using target = grpcTarget(`unix:${listener.path}`);
    const { note } = target.client(Log);
    for (let sent = 0; sent < 4_096; sent += 64) {
      await Promise.all(Array.from({ length: 64 }, () => note(x)));
    }
    await expect(note(x)).rejects.toMatchObject({ status: 'resource_exhausted' });
    release();
    await until(() => done === 4_096);
    await note(x);
    await until(() => done === 4_097);
  });

  it('takes thousands of short notifications from an honest program', async () => {
    const count = rounds(10_000, 1_000);
    await using app = server();
    const Log = service('Log', { note: notification({ request: bytes }) });
    let noted = 0;
    app.serve(Log, { note: () => void (noted += 1) });
    const listener = await listenGrpc({ services: app });
    await using target = grpcTarget(`unix:${listener.path}`);
    const { note } = target.client(Log);
    await Promise.all(Array.from({ length: count }, () => note(x)));
    await until(() => noted === count);
  });

  it.each([
    ['text/plain', '415'],
    ['application/json', '415'],
    ['application/grpc', '200'],
    ['application/grpc+proto', '200'],
    ['application/grpc+json', '200'],
  ])('answers a call of the content type %s with the status %s', async (type, status) => {
    await using app = server();
    app.serve(Store, { get: (message) => message });
    const listener = await listenGrpc({ services: app });
    const createConnection = (): Socket => createSocket(listener.path as string);
    const session = connectHttp2('http://localhost', { createConnection });
    const answer = async (contentType: string): Promise<string> => {
      const headers = { ':method': 'POST', ':path': '/Store/get', 'content-type': contentType };
      const request = session.request({ ...headers, te: 'trailers' });
      request.end(Buffer.of(0, 0, 0, 0, 1, 120)); // one message, x
      const [answered] = await once(request, 'response');
      request.resume();
      await once(request, 'close');
      return String(answered[':status']);
    };
    expect(await answer(type)).toBe(status);
    expect(await answer('application/grpc')).toBe('200'); // on the same connection
    session.close();
  });

  it('names its own options where one is unknown', async () => {
    const wrong = { services: [], port: 50_051 } as unknown as ListenGrpcPathOptions;
    await expect(listenGrpc(wrong)).rejects.toThrow(/listenGrpc\(\).*'port'.*address/s);
  });
});
