// gRPC servers with callers that the kernel vouches for, and contracts of ours on the wire of gRPC.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import * as grpc from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import {
  attachListener,
  peerOf,
  type ServeGrpcOptions,
  serveGrpc,
} from '../../src/adapters/grpc.ts';
import { GrpcGate } from '../../src/adapters/grpc-gate.ts';
import { protobufService } from '../../src/adapters/protobuf.ts';
import { RpcError } from '../../src/base/errors.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import type { Peer } from '../../src/base/peer.ts';
import { listen, type PlainListenOptions } from '../../src/rendezvous/listen.ts';
import type { CallContext } from '../../src/rpc/contract/call-context.ts';
import type { Handlers } from '../../src/rpc/contract/method-types.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { until } from '../support/contract.ts';
import { scratchDirectory } from '../support/programs.ts';
import { demo } from '../support/proto/demo.js';

const Indexer = protobufService(demo.Indexer, demo);

const encodeQ = (value: demo.IQ): Buffer => Buffer.from(demo.Q.encode(value).finish());
const decodeA = (bytes: Buffer): demo.A => demo.A.decode(bytes);
const encodeA = (value: demo.IA): Buffer => Buffer.from(demo.A.encode(value).finish());
const decodeQ = (bytes: Buffer): demo.Q => demo.Q.decode(bytes);

/** The service as a program without sidecall declares it. */
function method(name: string, requestStream: boolean, responseStream: boolean) {
  return {
    path: `/demo.Indexer/${name}`,
    requestStream,
    responseStream,
    requestSerialize: encodeQ,
    requestDeserialize: decodeQ,
    responseSerialize: encodeA,
    responseDeserialize: decodeA,
  };
}
const definition = {
  addOne: method('AddOne', false, false),
  listAll: method('list_all', false, true),
  upload: method('Upload', true, false),
  chat: method('Chat', true, true),
};
const IndexerClient = grpc.makeClientConstructor(definition, 'demo.Indexer');
type IndexerClient = InstanceType<typeof IndexerClient>;

interface Answer {
  readonly value: demo.A | undefined;
  readonly headers: grpc.Metadata | undefined;
  readonly status: grpc.StatusObject;
}

/** One unary call, with everything that comes back. */
function addOne(
  client: IndexerClient,
  request: demo.IQ,
  {
    metadata = new grpc.Metadata(),
    options = {} as grpc.CallOptions,
    onCall = (_: grpc.ClientUnaryCall) => {},
  } = {},
): Promise<Answer> {
  return new Promise((resolve) => {
    let value: demo.A | undefined;
    let headers: grpc.Metadata | undefined;
    const call: grpc.ClientUnaryCall = client.addOne?.(
      request,
      metadata,
      options,
      (_error: unknown, answer: demo.A | undefined) => {
        value = answer;
      },
    );
    call.on('metadata', (received) => {
      headers = received;
    });
    call.on('status', (status) => setImmediate(() => resolve({ value, headers, status })));
    onCall(call);
  });
}

async function collect(call: AsyncIterable<demo.A>): Promise<number[]> {
  const numbers: number[] = [];
  for await (const { number } of call) numbers.push(number);
  return numbers;
}

function plainServer(seen: (peer: Peer | undefined) => void): grpc.Server {
  const server = new grpc.Server();
  server.addService(definition, {
    addOne(call: grpc.ServerUnaryCall<demo.Q, demo.IA>, callback: grpc.sendUnaryData<demo.IA>) {
      seen(peerOf(call));
      callback(null, { number: call.request.number + 1 });
    },
    async listAll(call: grpc.ServerWritableStream<demo.Q, demo.IA>) {
      seen(peerOf(call));
      for (let number = 0; number < call.request.number; number += 1) call.write({ number });
      call.end();
    },
    upload(
      call: grpc.ServerReadableStream<demo.Q, demo.IA>,
      callback: grpc.sendUnaryData<demo.IA>,
    ) {
      let number = 0;
      call.on('data', (piece: demo.Q) => {
        number += piece.data.byteLength;
      });
      call.on('end', () => {
        seen(peerOf(call));
        callback(null, { number });
      });
    },
    chat(call: grpc.ServerDuplexStream<demo.Q, demo.IA>) {
      seen(peerOf(call));
      call.on('data', ({ number }: demo.Q) => call.write({ number: number * 2 }));
      call.on('end', () => call.end());
    },
  });
  return server;
}

async function attached(
  server: grpc.Server,
  options: Omit<PlainListenOptions, 'protocol'> = {},
): Promise<{ client: IndexerClient; path: string; close: () => Promise<void> }> {
  const listener = await listen({ protocol: 'plain', ...options });
  const serving = attachListener(server, listener);
  const client = new IndexerClient(`unix:${listener.path}`, grpc.credentials.createInsecure());
  const close = async (): Promise<void> => {
    client.close();
    await listener.close();
    await serving;
    server.forceShutdown();
  };
  return { client, path: listener.path, close };
}

async function overTcp(
  server: grpc.Server,
  credentials = grpc.ServerCredentials.createInsecure(),
): Promise<string> {
  return new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', credentials, (error, port) => {
      if (error) reject(error);
      else resolve(`127.0.0.1:${port}`);
    });
  });
}

describe('U2 attachListener()', () => {
  it('an existing service has callers that the kernel vouches for, in all four kinds', async () => {
    const peers: (Peer | undefined)[] = [];
    const { client, close } = await attached(plainServer((peer) => peers.push(peer)));
    expect((await addOne(client, { number: 41 })).value?.number).toBe(42);
    expect(await collect(client.listAll?.({ number: 3 }))).toEqual([0, 1, 2]);
    const sum = await new Promise((resolve) => {
      const call = client.upload?.((_: unknown, answer: demo.A) => resolve(answer.number));
      call.write({ data: Buffer.alloc(100_000) });
      call.end({ data: Buffer.alloc(1) });
    });
    expect(sum).toBe(100_001);
    const chat = client.chat?.();
    chat.write({ number: 4 });
    chat.end({ number: 5 });
    expect(await collect(chat)).toEqual([8, 10]);
    expect(peers).toHaveLength(4);
    for (const peer of peers) {
      expect(peer).toMatchObject({
        origin: 'kernel',
        pid: process.pid,
        uid: process.geteuid?.(),
      });
    }
    await close();
  });

  it('whom the policy refuses reaches no handler', async () => {
    const peers: unknown[] = [];
    const events: SidecallEvent[] = [];
    const { client, close } = await attached(
      plainServer((peer) => peers.push(peer)),
      { authorize: { uid: 12_345 }, onEvent: (event) => void events.push(event) },
    );
    const { status } = await addOne(client, { number: 1 });
    expect(status.code).toBe(grpc.status.UNAVAILABLE);
    expect(peers).toEqual([]);
    expect(events[0]).toMatchObject({
      type: 'refused',
      error: { code: 'ERR_SIDECALL_PEER_DENIED' },
    });
    await close();
  });

  it('tells connections apart, and knows nothing of those of another port', async () => {
    const peers: (Peer | undefined)[] = [];
    const server = plainServer((peer) => peers.push(peer));
    const { path, client, close } = await attached(server);
    const address = await overTcp(server);
    const tcp = new IndexerClient(address, grpc.credentials.createInsecure());
    await addOne(tcp, { number: 1 });
    expect(peers).toEqual([undefined]);
    const script = `
      import * as grpc from '@grpc/grpc-js';
      const pass = (bytes) => bytes;
      const client = new grpc.Client(process.argv[1], grpc.credentials.createInsecure());
      client.makeUnaryRequest('/demo.Indexer/AddOne', pass, pass, Buffer.alloc(0), (error) => {
        if (error) throw error;
        console.log(process.pid);
        client.close();
      });`;
    await addOne(client, { number: 1 });
    const args = ['--input-type=module', '-e', script, `unix:${path}`];
    const { spawn } = await import('node:child_process');
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    let said = '';
    for await (const chunk of child.stdout) said += chunk;
    expect(peers.slice(1).map((peer) => peer?.pid)).toEqual([process.pid, Number(said)]);
    expect(Number(said)).toBe(child.pid);
    tcp.close();
    await close();
  });

  it('calls of many connections at once, and the end of all of them', async () => {
    const { path, close } = await attached(plainServer(() => undefined));
    const clients = Array.from(
      { length: 20 },
      (_, at) =>
        new IndexerClient(`unix:${path}`, grpc.credentials.createInsecure(), {
          'grpc.use_local_subchannel_pool': 1,
          at,
        } as never),
    );
    const answers = await Promise.all(
      clients.flatMap((client) => [1, 2, 3].map((number) => addOne(client, { number }))),
    );
    expect(answers.map(({ value }) => value?.number)).toEqual(clients.flatMap(() => [2, 3, 4]));
    await close();
    for (const client of clients) client.close();
  });

  it('a close of the listener lets calls under way finish', async () => {
    const server = new grpc.Server();
    const slow = async (): Promise<object> => {
      await new Promise((resolve) => setTimeout(resolve, 150));
      return { number: 5 };
    };
    serveGrpc(server, Indexer, { ...handlers, addOne: slow }, { authenticate: () => undefined });
    const { client, close } = await attached(server);
    let isStarted = false;
    const calling = addOne(client, {}, { onCall: () => void (isStarted = true) });
    await until(() => isStarted);
    await new Promise((resolve) => setTimeout(resolve, 50));
    const closing = close();
    expect((await calling).value?.number).toBe(5);
    await closing;
  });

  it('refuses other arguments', async () => {
    await expect(attachListener({} as never, {} as never)).rejects.toThrow(TypeError);
    await using sessions = await listen();
    await expect(attachListener(new grpc.Server(), sessions as never)).rejects.toThrow("'plain'");
  });
});

const secret: ServeGrpcOptions['authenticate'] = ({ metadata }) =>
  metadata.authorization === 'Bearer right' ? { origin: 'secret', name: 'an app' } : undefined;
const right = new grpc.Metadata();
right.set('authorization', 'Bearer right');

const handlers: Handlers<typeof Indexer.methods> = {
  addOne: ({ number, text }) => ({ number: number + 1, text }),
  async *listAll({ number }) {
    for (let at = 0; at < number; at += 1) yield { number: at };
  },
  async upload(pieces) {
    let number = 0;
    for await (const { data } of pieces) number += data.byteLength;
    return { number };
  },
  async *chat(words) {
    for await (const { number } of words) yield { number: number * 2 };
  },
};

interface Served extends AsyncDisposable {
  readonly client: IndexerClient;
  readonly events: SidecallEvent[];
  readonly address: string;
}

async function served(
  special: Partial<typeof handlers> = {},
  options: Partial<ServeGrpcOptions> = {},
): Promise<Served> {
  const server = new grpc.Server();
  const events: SidecallEvent[] = [];
  const onEvent = (event: SidecallEvent): void => void events.push(event);
  serveGrpc(
    server,
    Indexer,
    { ...handlers, ...special },
    { authenticate: secret, onEvent, ...options },
  );
  const address = await overTcp(server);
  const client = new IndexerClient(address, grpc.credentials.createInsecure());
  const close = async (): Promise<void> => {
    client.close();
    server.forceShutdown();
  };
  return { client, events, address, [Symbol.asyncDispose]: close };
}

describe('serveGrpc()', () => {
  it('serves all four kinds with the handlers of a session', async () => {
    await using server = await served();
    const { client } = server;
    const { value } = await addOne(client, { number: 41, text: 'ä€𝄞' }, { metadata: right });
    expect(value).toMatchObject({ number: 42, text: 'ä€𝄞' });
    expect(await collect(client.listAll?.({ number: 500 }, right))).toHaveLength(500);
    const sum = await new Promise((resolve) => {
      const call = client.upload?.(right, (_: unknown, answer: demo.A) => resolve(answer.number));
      call.write({ data: Buffer.alloc(3_000_000) });
      call.end({ data: Buffer.alloc(1) });
    });
    expect(sum).toBe(3_000_001);
    const chat = client.chat?.(right);
    chat.write({ number: 4 });
    chat.end({ number: 5 });
    expect(await collect(chat)).toEqual([8, 10]);
  });

  it('the handler knows who calls, without a uid', async () => {
    const peers: Peer[] = [];
    await using server = await served({
      addOne: (_, { peer }) => {
        peers.push(peer);
        return {};
      },
    });
    await addOne(server.client, {}, { metadata: right });
    expect(peers).toEqual([
      {
        origin: 'secret',
        capturedAt: 'connect',
        pid: undefined,
        pidIsHint: false,
        uid: undefined,
        gid: undefined,
        groups: undefined,
        name: 'an app',
      },
    ]);
  });

  it('callers that came by a plain listener are known already', async () => {
    const server = new grpc.Server();
    const peers: Peer[] = [];
    const note = (_: unknown, { peer }: CallContext): object => {
      peers.push(peer);
      return {};
    };
    serveGrpc(server, Indexer, { ...handlers, addOne: note }, { authenticate: () => undefined });
    const { client, close } = await attached(server);
    expect((await addOne(client, {})).status.code).toBe(grpc.status.OK);
    expect(peers[0]).toMatchObject({ origin: 'kernel', pid: process.pid });
    await close();
  });

  it('metadata, headers, trailers and the deadline travel', async () => {
    const seen: CallContext[] = [];
    await using server = await served({
      addOne: (_, ctx) => {
        seen.push(ctx);
        ctx.sendHeaders({ early: 'yes', 'early-bin': new Uint8Array([1, 2]) });
        ctx.trailers = { late: 'too' };
        return { number: 7 };
      },
    });
    const metadata = right.clone();
    metadata.add('list', 'a');
    metadata.add('list', 'b');
    metadata.set('trace-bin', Buffer.from([0, 255]));
    const deadline = Date.now() + 60_000;
    const options = { deadline };
    const { value, headers, status } = await addOne(server.client, {}, { metadata, options });
    expect(value?.number).toBe(7);
    expect(headers?.get('early')).toEqual(['yes']);
    expect(headers?.get('early-bin')).toEqual([Buffer.from([1, 2])]);
    expect(status.metadata.get('late')).toEqual(['too']);
    expect(seen[0]?.metadata.list).toBe('a, b');
    expect([...(seen[0]?.metadata['trace-bin'] as Uint8Array)]).toEqual([0, 255]);
    const leftMs = (seen[0]?.deadline as number) - performance.now();
    expect(leftMs).toBeGreaterThan(0);
    expect(leftMs).toBeLessThanOrEqual(60_000);
  });

  it('what a handler says is what the caller hears, and what it throws is not', async () => {
    await using server = await served({
      addOne: ({ number }) => {
        if (number === 1) {
          throw new RpcError('not_found', 'no such page', {
            details: { page: 1 },
            metadata: { hint: 'two' },
          });
        }
        throw new Error('/etc/secret is missing');
      },
      async *listAll() {
        yield { number: 1 };
        throw new RpcError('aborted', 'enough');
      },
    });
    const said = await addOne(server.client, { number: 1 }, { metadata: right });
    expect(said.status).toMatchObject({ code: grpc.status.NOT_FOUND, details: 'no such page' });
    expect(said.status.metadata.get('hint')).toEqual(['two']);
    const [details] = said.status.metadata.get('sidecall-details-bin');
    expect(JSON.parse(String(details))).toEqual({ page: 1 });
    const thrown = await addOne(server.client, { number: 2 }, { metadata: right });
    expect(thrown.status.code).toBe(grpc.status.INTERNAL);
    expect(thrown.status.details).not.toContain('secret');
    expect(server.events).toMatchObject([{ type: 'handler-failed' }]);
    expect(server.events[0]?.error.message).toContain('/etc/secret');
    const stream = server.client.listAll?.({}, right);
    await expect(collect(stream)).rejects.toMatchObject({
      code: grpc.status.ABORTED,
      details: 'enough',
    });
  });

  it('bytes that are no message are an invalid argument', async () => {
    await using server = await served();
    const raw = new grpc.Client(server.address, grpc.credentials.createInsecure());
    const pass = (bytes: Buffer): Buffer => bytes;
    const error = await new Promise<grpc.ServiceError | null>((resolve) => {
      raw.makeUnaryRequest(
        '/demo.Indexer/AddOne',
        pass,
        pass,
        Buffer.from([255]),
        right,
        (failed) => resolve(failed),
      );
    });
    expect(error?.code).toBe(grpc.status.INVALID_ARGUMENT);
    raw.close();
  });

  it('what gRPC cannot carry fails its call, and nothing else', async () => {
    const uncaught: unknown[] = [];
    const note = (error: unknown): void => void uncaught.push(error);
    process.on('unhandledRejection', note);
    const says: Record<string, (ctx: CallContext) => unknown> = {
      'metadata of an error': () => {
        throw new RpcError('not_found', 'x', { metadata: { page: 'é' } });
      },
      trailers: (ctx) => {
        ctx.trailers = { note: 'é' };
      },
      headers: (ctx) => ctx.sendHeaders({ note: 'a\nb' }),
      'a header of HTTP': (ctx) => ctx.sendHeaders({ connection: 'close' }),
      'a status of its own': (ctx) => {
        ctx.trailers = { 'grpc-status': '5', 'grpc-message': 'a lie' };
      },
    };
    await using server = await served({
      addOne: ({ text }, ctx) => {
        says[text]?.(ctx);
        return {};
      },
    });
    for (const text of Object.keys(says)) {
      const { status } = await addOne(server.client, { text }, { metadata: right });
      expect(status.code, text).toBe(grpc.status.INTERNAL);
    }
    expect(server.events.map(({ type }) => type)).toEqual(Array(5).fill('handler-failed'));
    expect((await addOne(server.client, { text: '' }, { metadata: right })).status.code).toBe(0);
    const half = await served(
      {},
      {
        authenticate: () => {
          throw new RpcError('aborted', 'half \ud800', { details: { n: 1n } });
        },
      },
    );
    expect((await addOne(half.client, {})).status.code).toBe(grpc.status.INTERNAL);
    await half[Symbol.asyncDispose]();
    const long = right.clone();
    long.set('x'.repeat(300), 'y');
    const refused = await addOne(server.client, { text: '' }, { metadata: long });
    expect(refused.status.code).toBe(grpc.status.INVALID_ARGUMENT);
    process.off('unhandledRejection', note);
    expect(uncaught).toEqual([]);
  });

  it('a handler of both streams that fails early is heard, though the caller goes on', async () => {
    await using server = await served({
      async *chat(words) {
        for await (const { number } of words) {
          yield { number };
          throw new RpcError('not_found', 'enough');
        }
      },
    });
    const chat = server.client.chat?.(right);
    const failed = new Promise<grpc.ServiceError>((resolve) => chat.on('error', resolve));
    chat.on('data', () => undefined);
    chat.write({ number: 1 });
    expect(await failed).toMatchObject({ code: grpc.status.NOT_FOUND, details: 'enough' });
  });

  it('half an upload does not look whole', async () => {
    const seen: string[] = [];
    await using server = await served({
      async upload(pieces) {
        try {
          for await (const { number } of pieces) seen.push(`piece ${number}`);
          seen.push('whole');
        } catch {
          seen.push('lost');
        }
        return {};
      },
    });
    for (let round = 0; round < 20; round += 1) {
      const client = new IndexerClient(server.address, grpc.credentials.createInsecure());
      const call = client.upload?.(right, () => undefined);
      call.on('error', () => undefined);
      call.write({ number: 1 });
      await until(() => seen.includes('piece 1'));
      call.cancel();
      await until(() => seen.length === 2);
      expect(seen.splice(0)).toEqual(['piece 1', 'lost']);
      client.close();
    }
    const whole = new IndexerClient(server.address, grpc.credentials.createInsecure());
    const answered = new Promise((resolve) => {
      const call = whole.upload?.(right, resolve);
      call.write({ number: 1 });
      call.end();
    });
    await answered;
    expect(seen).toEqual(['piece 1', 'whole']);
    whole.close();
  });

  it('a deadline and a cancel reach the handler', async () => {
    const reasons: string[] = [];
    const hang = (_: unknown, { signal }: CallContext): Promise<demo.IA> =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          reasons.push((signal.reason as { code: string }).code);
          resolve({});
        });
      });
    await using server = await served({ addOne: hang });
    const options = { deadline: Date.now() + 50 };
    const late = await addOne(server.client, {}, { metadata: right, options });
    expect(late.status.code).toBe(grpc.status.DEADLINE_EXCEEDED);
    await until(() => reasons.length === 1);
    const onCall = (call: grpc.ClientUnaryCall): void => void setTimeout(() => call.cancel(), 50);
    const given = await addOne(server.client, {}, { metadata: right, onCall });
    expect(given.status.code).toBe(grpc.status.CANCELLED);
    await until(() => reasons.length === 2);
    expect(reasons.every((code) => /CANCELLED|DEADLINE_EXCEEDED/.test(code))).toBe(true);
  });

  it('a reader that stands still holds the handler back', async () => {
    let made = 0;
    let isOver = false;
    await using server = await served({
      async *listAll() {
        try {
          for (;;) {
            made += 1;
            yield { data: new Uint8Array(10_000) };
          }
        } finally {
          isOver = true;
        }
      },
    });
    const stream = server.client.listAll?.({}, right);
    stream.once('data', () => stream.pause()); // grpc-js takes all there is before the first
    stream.on('error', () => undefined);
    let before = -1;
    await until(async () => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      const isStill = made > 0 && made === before;
      before = made;
      return isStill;
    });
    expect(made).toBeLessThan(2_000); // 20 MB; it would go on for ever
    stream.cancel();
    await until(() => isOver);
  });

  it('a handler that has heard enough answers', async () => {
    await using server = await served({
      async upload(pieces) {
        for await (const { number } of pieces) return { number };
        return {};
      },
    });
    const answer = await new Promise<demo.A>((resolve, reject) => {
      const call = server.client.upload?.(right, (error: unknown, value: demo.A) =>
        error ? reject(error) : resolve(value),
      );
      call.on('error', () => undefined);
      call.write({ number: 9 });
    });
    expect(answer.number).toBe(9);
  });

  it('interceptors are around it', async () => {
    const seen: string[] = [];
    const interceptors: ServeGrpcOptions['interceptors'] = [
      (call, next) => {
        seen.push(`${call.side} ${call.method}`);
        return next(call);
      },
    ];
    await using server = await served({}, { interceptors });
    await addOne(server.client, {}, { metadata: right });
    expect(seen).toEqual(['handler demo.Indexer/AddOne']);
  });

  it('needs authenticate, handlers, and names of gRPC', () => {
    const server = new grpc.Server();
    const authenticate = secret;
    expect(() => serveGrpc(server, Indexer, handlers, {} as never)).toThrow('authenticate');
    expect(() => serveGrpc(server, Indexer, handlers, undefined as never)).toThrow('authenticate');
    expect(() => serveGrpc(server, Indexer, {} as never, { authenticate })).toThrow('no handler');
    expect(() => serveGrpc({} as never, Indexer, handlers, { authenticate })).toThrow(
      'grpc.Server',
    );
    expect(() =>
      serveGrpc(server, service('Desk', { add: unary() }), { add: () => 1 }, { authenticate }),
    ).toThrow('protobufService');
    expect(() => serveGrpc(server, Indexer, handlers, { authenticate, peers: 1 } as never)).toThrow(
      TypeError,
    );
  });
});

describe('authenticate', () => {
  it.each([
    ['knows nobody', () => undefined, 'knows no such caller'],
    ['throws', () => Promise.reject(new Error('the directory is down')), 'directory is down'],
    [
      'claims a certificate that nobody showed',
      () => ({ origin: 'tls' as const }),
      'no certificate',
    ],
    ['claims the kernel', () => ({ origin: 'kernel' }) as never, "origin 'kernel'"],
    ['gives a strange name', () => ({ origin: 'secret', name: 7 }) as never, 'no string'],
  ])('that %s lets nobody in, and the caller learns nothing', async (_what, authenticate, why) => {
    let isReached = false;
    const addOneHandler = (): object => {
      isReached = true;
      return {};
    };
    await using server = await served({ addOne: addOneHandler }, { authenticate });
    const { status } = await addOne(server.client, {}, { metadata: right });
    expect(status).toMatchObject({ code: grpc.status.UNAUTHENTICATED, details: 'who are you?' });
    expect(isReached).toBe(false);
    expect(server.events).toMatchObject([
      { type: 'refused', error: { code: 'ERR_SIDECALL_PEER_DENIED' } },
    ]);
    expect(server.events[0]?.error.message).toContain(why);
  });

  it('that never answers holds no call that was given up', async () => {
    const signals: AbortSignal[] = [];
    await using server = await served(
      {},
      {
        authenticate: ({ signal }) => {
          signals.push(signal);
          return new Promise(() => undefined);
        },
      },
    );
    const options = { deadline: Date.now() + 50 };
    const { status } = await addOne(server.client, {}, { options });
    expect(status.code).toBe(grpc.status.DEADLINE_EXCEEDED);
    await until(() => signals[0]?.aborted === true);
  });

  it('may say what the caller hears', async () => {
    const authenticate = (): never => {
      throw new RpcError('permission_denied', 'the trial is over');
    };
    await using server = await served({}, { authenticate });
    const { status } = await addOne(server.client, {});
    expect(status).toMatchObject({
      code: grpc.status.PERMISSION_DENIED,
      details: 'the trial is over',
    });
  });

  it('is told of encryption where the application vouches for it', async () => {
    const told: boolean[] = [];
    for (const isEncrypted of [undefined, true]) {
      const authenticate: ServeGrpcOptions['authenticate'] = (caller) => {
        told.push(caller.isEncrypted);
        return { origin: 'secret' };
      };
      await using server = await served({}, { authenticate, isEncrypted });
      await addOne(server.client, {});
    }
    expect(told).toEqual([false, true]);
  });

  it('G2 a secret counts where others cannot have read it', async () => {
    const gate = new GrpcGate(() => ({ origin: 'secret' }), undefined);
    const caller = { method: '/x', metadata: {}, certificate: undefined };
    const admit = (address: string, isEncrypted: boolean): Promise<Peer> =>
      gate.admit({ ...caller, address, isEncrypted }, new AbortController().signal);
    for (const address of ['127.0.0.1:5000', '127.9.9.9:1', '::1:5000', '::ffff:127.0.0.1:80']) {
      expect((await admit(address, false)).origin).toBe('secret');
    }
    expect((await admit('192.168.1.5:4000', true)).origin).toBe('secret');
    for (const address of [
      '192.168.1.5:4000',
      '10.127.0.1:80',
      '::1f:80',
      'unknown',
      '127.0.0.1',
    ]) {
      await expect(admit(address, false)).rejects.toMatchObject({ status: 'unauthenticated' });
    }
  });

  it('sees a certificate that TLS has verified', async () => {
    using scratch = scratchDirectory();
    const openssl = (...args: string[]): void =>
      void execFileSync('openssl', args, { cwd: scratch.path, stdio: 'pipe' });
    const subject = ['-nodes', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'];
    openssl('req', '-x509', ...subject, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=ca');
    for (const name of ['localhost', 'app']) {
      openssl('req', ...subject, '-keyout', `${name}.key`, '-out', 'csr', '-subj', `/CN=${name}`);
      const signing = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial'];
      openssl('x509', '-req', '-in', 'csr', ...signing, '-out', `${name}.pem`);
    }
    const read = (name: string): Buffer => readFileSync(scratch.file(name));
    const pair = (name: string) => ({
      private_key: read(`${name}.key`),
      cert_chain: read(`${name}.pem`),
    });
    const server = new grpc.Server();
    const peers: Peer[] = [];
    const note = (_: unknown, { peer }: CallContext): object => {
      peers.push(peer);
      return {};
    };
    serveGrpc(
      server,
      Indexer,
      { ...handlers, addOne: note },
      {
        authenticate: ({ certificate, isEncrypted }) => {
          expect(isEncrypted).toBe(true);
          return { origin: 'tls', name: String(certificate?.subject.CN) };
        },
      },
    );
    const credentials = grpc.ServerCredentials.createSsl(read('ca.pem'), [pair('localhost')], true);
    const address = await overTcp(server, credentials);
    const override = { 'grpc.ssl_target_name_override': 'localhost' };
    const key = pair('app');
    const known = grpc.credentials.createSsl(read('ca.pem'), key.private_key, key.cert_chain);
    const client = new IndexerClient(address, known, override);
    expect((await addOne(client, {})).status.code).toBe(grpc.status.OK);
    expect(peers).toMatchObject([{ origin: 'tls', name: 'app', uid: undefined }]);
    client.close();
    server.forceShutdown();
  });
});
