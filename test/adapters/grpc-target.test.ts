// grpcTarget() beside servers that break our limits, and callers with contexts of their own.
import { AsyncLocalStorage } from 'node:async_hooks';
import { createServer, type ServerHttp2Stream } from 'node:http2';
import {
  type ChannelOptions,
  credentials,
  InterceptingCall,
  type Interceptor,
  Metadata,
  Server,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { type GrpcTargetOptions, grpcTarget } from '../../src/adapters/grpc/main.ts';
import type { RpcError } from '../../src/base/errors.ts';
import type { Metadata as OwnMetadata } from '../../src/base/metadata.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { serverStream, service, unary } from '../../src/rpc/contract/service.ts';
import { overTcp } from '../support/grpc.ts';

const Store = service('Store', {
  get: unary({ request: bytes, response: bytes }),
  list: serverStream({ request: bytes, response: bytes }),
});
const x = Buffer.from('x');
const asIs = (message: Buffer): Buffer => message;
const method = { requestSerialize: asIs, requestDeserialize: asIs, requestStream: false };
const answers = { responseSerialize: asIs, responseDeserialize: asIs };

type Get = (call: ServerUnaryCall<Buffer, Buffer>, answer: sendUnaryData<Buffer>) => void;

interface Served extends AsyncDisposable {
  readonly server: Server;
  readonly target: ReturnType<typeof grpcTarget>;
}

/** A server of grpc-js alone. */
async function served(get: Get, options: GrpcTargetOptions = {}): Promise<Served> {
  const server = new Server();
  const definition = {
    get: { ...method, ...answers, path: '/Store/get', responseStream: false },
    list: { ...method, ...answers, path: '/Store/list', responseStream: true },
  };
  server.addService(definition, {
    get,
    list: (call: { sendMetadata(metadata: Metadata): void; write(message: Buffer): void }) => {
      call.sendMetadata(headersOf(65));
      call.write(x);
    },
  });
  const address = await overTcp(server);
  const target = grpcTarget(address, {
    credentials: credentials.createInsecure(),
    ...options,
  });
  return {
    server,
    target,
    async [Symbol.asyncDispose]() {
      await target.close({ deadlineMs: 0 });
      server.forceShutdown();
    },
  };
}

function headersOf(count: number): Metadata {
  const headers = new Metadata();
  for (let at = 0; at < count; at += 1) headers.set(`key-${at}`, 'value');
  return headers;
}

describe('grpcTarget()', () => {
  it('a call whose headers are too many fails, and the next one does not', async () => {
    let count = 65;
    await using given = await served((call, answer) => {
      call.sendMetadata(headersOf(count));
      answer(null, x);
    });
    const { get, list } = given.target.client(Store);
    const refusal = { code: 'ERR_SIDECALL_DECODE', retryable: false };
    await expect(get(x)).rejects.toMatchObject(refusal);
    const reading = (async () => {
      for await (const _ of list(x)) expect.unreachable();
    })();
    await expect(reading).rejects.toMatchObject(refusal);
    count = 64;
    let seen = 0;
    const onHeaders = (headers: object): void => {
      seen = Object.keys(headers).length;
    };
    expect(await get(x, { onHeaders })).toHaveLength(1);
    expect(seen).toBe(64);
  });

  it('a failure is told also where its metadata cannot be, and its text is bounded', async () => {
    await using given = await served((_, answer) =>
      answer({ code: status.NOT_FOUND, details: 'y'.repeat(9_000), metadata: headersOf(65) }),
    );
    const error = await given.target
      .client(Store)
      .get(x)
      .catch((cause: unknown) => cause);
    expect(error).toMatchObject({ status: 'not_found', metadata: {} });
    expect((error as Error).message).toHaveLength(8_192 + 'Store.get: '.length);
  });

  it('the details of an error are a list of Any, their bytes, or JSON', async () => {
    // google.rpc.Status: code 5, message "gone", one detail: type_url "a/b", value 1 2.
    const status5 = Buffer.from('08051204676f6e651a090a03612f6212020102', 'hex');
    const rows: readonly (readonly [string, Buffer, unknown])[] = [
      ['grpc-status-details-bin', status5, [{ typeUrl: 'a/b', value: new Uint8Array([1, 2]) }]],
      ['grpc-status-details-bin', Buffer.from([0xff]), new Uint8Array([0xff])],
      ['sidecall-details-bin', Buffer.from('{"a":1}'), { a: 1 }],
      ['sidecall-details-bin', Buffer.from('{"a"'), undefined],
    ];
    for (const [key, value, details] of rows) {
      const metadata = new Metadata();
      metadata.set(key, value);
      const failure = { code: status.NOT_FOUND, details: 'gone', metadata };
      await using given = await served((_, answer) => answer(failure));
      const error = await given.target
        .client(Store)
        .get(x)
        .catch((cause: unknown) => cause);
      expect(error).toMatchObject({ status: 'not_found', rawMessage: 'gone' });
      expect((error as RpcError).details).toEqual(details);
      const raw = (error as RpcError).metadata['grpc-status-details-bin'];
      expect(raw).toEqual(key.startsWith('grpc-') ? new Uint8Array(value) : undefined);
    }
  });

  it('several values of one key of bytes arrive all, in both directions', async () => {
    const values = [new Uint8Array([1]), new Uint8Array([2, 3])];
    await using given = await served((call, answer) => {
      call.sendMetadata(call.metadata);
      answer(null, x);
    });
    let seen: unknown;
    const onHeaders = (headers: OwnMetadata): void => {
      seen = headers['many-bin'];
    };
    await given.target.client(Store).get(x, { metadata: { 'many-bin': values }, onHeaders });
    expect(seen).toEqual(values);
  });

  it('a server that says the words of grpc-js is not believed to have seen nothing', async () => {
    await using given = await served((call, answer) => {
      call.sendMetadata(new Metadata());
      answer({ code: status.UNAVAILABLE, details: 'No connection established' });
    });
    const call = given.target.client(Store).get(x);
    await expect(call).rejects.toMatchObject({ status: 'unavailable', delivered: 'yes' });
  });

  it('a call that a server ends by force is lost, not cancelled', async () => {
    let begun: () => void = () => undefined;
    const started = new Promise<void>((resolve) => {
      begun = resolve;
    });
    await using given = await served(() => begun());
    const call = given.target.client(Store).get(x);
    call.catch(() => undefined);
    await started;
    given.server.forceShutdown();
    await expect(call).rejects.toMatchObject({
      code: 'ERR_SIDECALL_PEER_GONE',
      delivered: 'unknown',
    });
  });

  it('each call is made in the context of its caller', async () => {
    const users = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const sayUser: Interceptor = (options, nextCall) =>
      new InterceptingCall(nextCall(options), {
        start: (metadata, listener, next) => {
          seen.push(users.getStore());
          next(metadata, listener);
        },
      });
    const channelOptions = { interceptors: [sayUser] } as unknown as ChannelOptions;
    await using given = await served((_, answer) => answer(null, x), { channelOptions });
    const { get, list } = users.run('alice', () => given.target.client(Store));
    await users.run('bob', () => get(x));
    await users
      .run('carol', async () => {
        for await (const _ of list(x)) break;
      })
      .catch(() => undefined);
    await get(x);
    expect(seen).toEqual(['bob', 'carol', undefined]);
  });

  it('two contracts of one method with different codecs are refused, and the first one stays', async () => {
    await using given = await served((_, answer) => answer(null, x));
    const { get } = given.target.client(Store);
    const Other = service('Store', { get: unary({ request: json(), response: json() }) });
    expect(() => given.target.client(Other)).toThrow("unary with the codec 'bytes'");
    expect(await get(x)).toHaveLength(1);
  });
});

type Reset = (stream: ServerHttp2Stream) => void;
const resets: readonly (readonly [string, Reset, object])[] = [
  ...(
    [
      ['INTERNAL_ERROR', 2],
      ['CANCEL', 8],
      ['ENHANCE_YOUR_CALM', 11],
      ['INADEQUATE_SECURITY', 12],
    ] as const
  ).map(([name, code]): readonly [string, Reset, object] => [
    `a reset with ${name}`,
    (stream) => stream.close(code),
    { code: 'ERR_SIDECALL_PEER_GONE', delivered: 'unknown', retryable: true },
  ]),
  [
    'a reset with REFUSED_STREAM',
    (stream) => stream.close(7),
    { code: 'ERR_SIDECALL_GOING_AWAY', delivered: 'no', retryable: true },
  ],
  [
    'GOAWAY with ENHANCE_YOUR_CALM',
    ({ session }) => {
      session?.goaway(11);
      session?.destroy();
    },
    { code: 'ERR_SIDECALL_PEER_GONE', delivered: 'unknown', retryable: true },
  ],
  [
    'an end of the connection',
    ({ session }) => session?.destroy(),
    { code: 'ERR_SIDECALL_PEER_GONE', delivered: 'unknown', retryable: true },
  ],
  [
    'an end without a status',
    (stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
      stream.end();
    },
    { code: 'ERR_SIDECALL_RPC', status: 'unknown', retryable: false },
  ],
];

describe('a call that a server does not finish', () => {
  it.each(resets)('is told truthfully after %s', async (_what, act, told) => {
    const server = createServer().on('stream', (stream) => act(stream.on('error', () => 0)));
    server.on('sessionError', () => undefined).on('session', (each) => each.on('error', () => 0));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const target = grpcTarget(`127.0.0.1:${port}`, { credentials: credentials.createInsecure() });
    await expect(target.client(Store).get(x)).rejects.toMatchObject(told);
    await target.close({ deadlineMs: 0 });
    await new Promise((resolve) => server.close(resolve));
  });
});
