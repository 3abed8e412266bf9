// The cases of gRPC's interop suite that apply (grpc/doc/interop-test-descriptions.md), by their
// names, and some that it lists as to be done.
import { describe, expect, it } from 'vitest';
import { RpcError } from '../../src/base/errors.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import type { Handlers } from '../../src/rpc/contract/method-types.ts';
import {
  bidi,
  clientStream,
  serverStream,
  service,
  unary,
} from '../../src/rpc/contract/service.ts';
import { collect, Demo, demoHandlers, until } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

interface Request {
  readonly size: number;
  readonly payload?: Uint8Array;
  readonly status?: { readonly code: 'unknown'; readonly message: string };
}

interface Response {
  readonly payload: Uint8Array;
}

const Test = service('grpc.testing.TestService', {
  emptyCall: unary<void, void>(),
  unaryCall: unary<Request, Response>(),
  streamingOutputCall: serverStream<{ sizes: number[]; pauseMs?: number }, Response>(),
  streamingInputCall: clientStream<Uint8Array, { size: number }>({ request: bytes }),
  fullDuplexCall: bidi<Request, Response>(),
  unimplementedCall: unary<void, void>(),
});

const { unimplementedCall: _, ...served } = Test.methods;
const TestServed = service('grpc.testing.TestService', served);

const handlers: Handlers<typeof served> = {
  emptyCall: () => undefined,
  unaryCall: ({ size, status }, ctx) => {
    echoMetadata(ctx);
    if (status !== undefined) throw new RpcError(status.code, status.message);
    return { payload: new Uint8Array(size) };
  },
  async *streamingOutputCall({ sizes, pauseMs }, { signal }) {
    for (const size of sizes) {
      if (pauseMs !== undefined) await sleepOrAbort(pauseMs, signal);
      yield { payload: new Uint8Array(size) };
    }
  },
  async streamingInputCall(pieces) {
    let size = 0;
    for await (const piece of pieces) size += piece.byteLength;
    return { size };
  },
  async *fullDuplexCall(requests, ctx) {
    echoMetadata(ctx);
    for await (const { size, status } of requests) {
      if (status !== undefined) throw new RpcError(status.code, status.message);
      yield { payload: new Uint8Array(size) };
    }
  },
};

function echoMetadata(ctx: Parameters<(typeof handlers)['unaryCall']>[1]): void {
  const { 'x-grpc-test-echo-initial': initial, 'x-grpc-test-echo-trailing-bin': trailing } =
    ctx.metadata;
  if (initial !== undefined) ctx.sendHeaders({ 'x-grpc-test-echo-initial': initial });
  if (trailing !== undefined) ctx.trailers = { 'x-grpc-test-echo-trailing-bin': trailing };
}

function sleepOrAbort(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

const sizes = [31_415, 9, 2_653, 58_979];
const requestSizes = [27_182, 8, 1_828, 45_904];

describe.each(lanes)("interop over the '$lane'", ({ openPair }) => {
  it('empty_unary', async () => {
    await using pair = await openPair();
    pair.far.serve(TestServed, handlers);
    expect(await pair.near.client(Test).emptyCall()).toBeUndefined();
  });

  it('large_unary', async () => {
    await using pair = await openPair();
    pair.far.serve(TestServed, handlers);
    const payload = new Uint8Array(271_828);
    const answer = await pair.near.client(Test).unaryCall({ size: 314_159, payload });
    expect(answer.payload).toHaveLength(314_159);
    expect(answer.payload.every((byte) => byte === 0)).toBe(true);
  });

  it('client_streaming', async () => {
    await using pair = await openPair();
    pair.far.serve(TestServed, handlers);
    const call = pair.near.client(Test).streamingInputCall();
    for (const size of requestSizes) await call.send(new Uint8Array(size));
    expect(await call.end()).toEqual({ size: 74_922 });
  });

  it('server_streaming', async () => {
    await using pair = await openPair();
    pair.far.serve(TestServed, handlers);
    const answers = await collect(pair.near.client(Test).streamingOutputCall({ sizes }));
    expect(answers.map(({ payload }) => payload.byteLength)).toEqual(sizes);
  });

  it('ping_pong', async () => {
    await using pair = await openPair();
    pair.far.serve(TestServed, handlers);
    const call = pair.near.client(Test).fullDuplexCall();
    for (const [at, size] of sizes.entries()) {
      await call.send({ size, payload: new Uint8Array(requestSizes[at] as number) });
      expect((await call.next()).value?.payload).toHaveLength(size);
    }
    await call.end();
    expect(await collect(call)).toEqual([]);
  });

  it('empty_stream', async () => {
    await using pair = await openPair();
    pair.far.serve(TestServed, handlers);
    const call = pair.near.client(Test).fullDuplexCall();
    await call.end();
    expect(await collect(call)).toEqual([]);
  });

  it('custom_metadata', async () => {
    await using pair = await openPair();
    pair.far.serve(TestServed, handlers);
    const metadata = {
      'x-grpc-test-echo-initial': 'test_initial_metadata_value',
      'x-grpc-test-echo-trailing-bin': new Uint8Array([0xab, 0xab, 0xab]),
    };
    for (const kind of ['unary', 'duplex']) {
      const heard: Record<string, unknown> = {};
      const options = {
        metadata,
        onHeaders: (headers: object) => Object.assign(heard, headers),
        onTrailers: (trailers: object) => Object.assign(heard, trailers),
      };
      const test = pair.near.client(Test);
      if (kind === 'unary') await test.unaryCall({ size: 1 }, options);
      else await collect(test.fullDuplexCall([{ size: 1 }], options));
      expect(heard).toEqual(metadata);
    }
  });

  it('status_code_and_message', async () => {
    await using pair = await openPair();
    pair.far.serve(TestServed, handlers);
    const status = { code: 'unknown', message: 'test status message' } as const;
    const test = pair.near.client(Test);
    await expect(test.unaryCall({ size: 0, status })).rejects.toMatchObject({
      status: 'unknown',
      message: expect.stringContaining('test status message'),
    });
    await expect(collect(test.fullDuplexCall([{ size: 0, status }]))).rejects.toMatchObject({
      status: 'unknown',
      message: expect.stringContaining('test status message'),
    });
  });

  it('special_status_message', async () => {
    await using pair = await openPair();
    pair.far.serve(TestServed, handlers);
    const message = '\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n';
    const call = pair.near
      .client(Test)
      .unaryCall({ size: 0, status: { code: 'unknown', message } });
    await expect(call).rejects.toMatchObject({
      status: 'unknown',
      message: `grpc.testing.TestService.unaryCall: ${message}`,
    });
  });

  it('unimplemented_method', async () => {
    await using pair = await openPair();
    pair.far.serve(TestServed, handlers);
    await expect(pair.near.client(Test).unimplementedCall()).rejects.toMatchObject({
      status: 'unimplemented',
    });
  });

  it('unimplemented_service', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    await expect(pair.near.call('grpc.testing.UnimplementedService.x')).rejects.toMatchObject({
      status: 'unimplemented',
    });
  });

  it('cancel_after_begin', async () => {
    await using pair = await openPair();
    pair.far.serve(TestServed, handlers);
    const call = pair.near.client(Test).streamingInputCall();
    call.cancel();
    await expect(call.end()).rejects.toMatchObject({ status: 'cancelled' });
  });

  it('cancel_after_first_response', async () => {
    await using pair = await openPair();
    pair.far.serve(TestServed, handlers);
    const call = pair.near.client(Test).fullDuplexCall();
    await call.send({ size: 31_415, payload: new Uint8Array(27_182) });
    expect((await call.next()).value?.payload).toHaveLength(31_415);
    call.cancel();
    await expect(call.next()).rejects.toMatchObject({ status: 'cancelled' });
  });

  it('timeout_on_sleeping_server', async () => {
    await using pair = await openPair();
    pair.far.serve(TestServed, handlers);
    const call = pair.near.client(Test).fullDuplexCall({ timeoutMs: 1 });
    await call.send({ size: 1, payload: new Uint8Array(27_182) }).catch(() => undefined);
    const outcome = await (async () => {
      for await (const answer of call) void answer;
    })().catch((error: unknown) => error);
    expect(outcome).toMatchObject({ status: 'deadline_exceeded' });
  });

  it('1,000 large calls at once', async () => {
    await using pair = await openPair();
    pair.far.serve(TestServed, handlers);
    const test = pair.near.client(Test);
    const answers = await Promise.all(
      Array.from({ length: 1000 }, (_, at) =>
        test.unaryCall({ size: 100_000 + at, payload: new Uint8Array(50_000) }),
      ),
    );
    answers.forEach(({ payload }, at) => {
      expect(payload.byteLength).toBe(100_000 + at);
    });
  });

  it('10,000 small calls at once', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const demo = pair.near.client(Demo);
    const answers = await Promise.all(
      Array.from({ length: 10_000 }, (_, a) => demo.add({ a, b: 1 })),
    );
    answers.forEach(({ sum }, a) => {
      expect(sum).toBe(a + 1);
    });
  });

  it('5,000 calls that time out together', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const demo = pair.near.client(Demo);
    const outcomes = await Promise.all(
      Array.from({ length: 5000 }, () =>
        demo.hang(undefined, { timeoutMs: 100 }).catch((error: { code: string }) => error.code),
      ),
    );
    expect(new Set(outcomes)).toEqual(new Set(['ERR_SIDECALL_DEADLINE_EXCEEDED']));
    await until(() => pair.far.stats().handlers.running === 0);
    expect(await demo.add({ a: 1, b: 1 })).toEqual({ sum: 2 });
  });

  it('pushback at both ends', async () => {
    const limits = { streamWindowBytes: 65_536 };
    await using pair = await openPair({ near: limits, far: limits });
    let taken = 0;
    pair.far.serve(TestServed, {
      ...handlers,
      async *fullDuplexCall(requests) {
        for await (const { size } of requests) {
          taken += 1;
          yield { payload: new Uint8Array(size) };
        }
      },
    });
    const call = pair.near.client(Test).fullDuplexCall();
    let sent = 0;
    const sending = (async () => {
      for (let at = 0; at < 200; at += 1) {
        await call.send({ size: 20_000, payload: new Uint8Array(20_000) });
        sent += 1;
      }
      await call.end();
    })();
    await until(() => sent > 4);
    await new Promise((resolve) => setTimeout(resolve, 50));
    // No stream is read: about three windows' worth of 20 kB messages are under way, one per half
    // and hand.
    expect(sent).toBeLessThan(14);
    expect(taken).toBeLessThan(8);
    expect(await collect(call)).toHaveLength(200);
    await sending;
    expect(sent).toBe(200);
  });
});
