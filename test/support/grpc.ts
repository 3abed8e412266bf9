import * as grpc from '@grpc/grpc-js';
import {
  attachListener,
  type ServeGrpcServiceOptions,
  serveGrpc,
} from '../../src/adapters/grpc/main.ts';
import { protobufService } from '../../src/adapters/protobuf.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { listen, type PlainListenOptions } from '../../src/rendezvous/listen.ts';
import type { Handlers } from '../../src/rpc/contract/method-types.ts';
import { demo } from './proto/demo.js';

export const Indexer = protobufService(demo.Indexer, demo);

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

export const definition = {
  addOne: method('AddOne', false, false),
  listAll: method('list_all', false, true),
  upload: method('Upload', true, false),
  chat: method('Chat', true, true),
};

export const IndexerClient = grpc.makeClientConstructor(definition, 'demo.Indexer');

export type IndexerClient = InstanceType<typeof IndexerClient>;

export interface Answer {
  readonly value: demo.A | undefined;
  readonly headers: grpc.Metadata | undefined;
  readonly status: grpc.StatusObject;
}

/** Makes one unary call and returns its complete outcome. */
export function addOne(
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

export async function collect(call: AsyncIterable<demo.A>): Promise<number[]> {
  const numbers: number[] = [];
  for await (const { number } of call) numbers.push(number);
  return numbers;
}

export async function attached(
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

export async function overTcp(
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

export const secret: ServeGrpcServiceOptions['authenticate'] = ({ metadata }) =>
  metadata.authorization === 'Bearer right' ? { origin: 'secret', name: 'an app' } : undefined;
export const right = new grpc.Metadata();
right.set('authorization', 'Bearer right');

export const handlers: Handlers<typeof Indexer.methods> = {
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

export interface Served extends AsyncDisposable {
  readonly client: IndexerClient;
  readonly events: SidecallEvent[];
  readonly address: string;
}

export async function served(
  special: Partial<typeof handlers> = {},
  options: Partial<ServeGrpcServiceOptions> = {},
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
