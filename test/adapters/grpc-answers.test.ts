// Answers that gRPC cannot carry, or carries otherwise, end their call alone.
import { describe, expect, it } from 'vitest';
import { grpcTarget, listenGrpc } from '../../src/adapters/grpc/main.ts';
import { RpcError } from '../../src/base/errors.ts';
import { server } from '../../src/open/server.ts';
import type { CallContext } from '../../src/rpc/contract/call-context.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';

/** A variable, since a literal `then` looks like a promise. */
const named = 'then';
const Desk = service('Desk', { say: unary(), ok: unary<void, number>(), [named]: unary() });

async function desk(say: (ctx: CallContext) => unknown) {
  const app = server();
  const events: string[] = [];
  app.serve(Desk, {
    say: (_request, ctx) => say(ctx),
    ok: () => 1,
    [named]: (value) => [value],
  });
  const listener = await listenGrpc({ services: app, onEvent: ({ type }) => events.push(type) });
  const target = grpcTarget(`unix:${listener.path}`);
  const close = async (): Promise<void> => {
    await target.close();
    await app.close();
  };
  return { client: target.client(Desk), events, [Symbol.asyncDispose]: close };
}

const long: [string, (ctx: CallContext) => unknown, object][] = [
  [
    'a text of 40 kB',
    () => {
      throw new RpcError('aborted', 'é'.repeat(20_000));
    },
    { status: 'aborted' },
  ],
  [
    'details of 64 kB',
    () => {
      throw new RpcError('aborted', 'x', { details: '\u{1F600}'.repeat(15_000) });
    },
    { status: 'aborted', message: expect.stringMatching(/x$/), details: undefined },
  ],
  [
    'headers of 65 kB',
    (ctx) => {
      ctx.sendHeaders({ 'a-bin': Buffer.alloc(65_000, 0xfb) });
      return 1;
    },
    { status: 'internal' },
  ],
  [
    'trailers of 65 kB',
    (ctx) => {
      ctx.trailers = { 'a-bin': Buffer.alloc(65_000, 0xfb) };
      return 1;
    },
    { status: 'internal' },
  ],
  [
    'trailers with a space in front',
    (ctx) => {
      ctx.trailers = { a: ' x' };
      return 1;
    },
    { status: 'internal' },
  ],
];

describe('an answer over gRPC', () => {
  it.each(long)(
    'with %s fails its call, and no other of the connection',
    async (what, say, end) => {
      await using made = await desk(say);
      expect(await made.client.ok()).toBe(1);
      await expect(made.client.say(1)).rejects.toMatchObject(end);
      expect(await made.client.ok()).toBe(1);
      expect(made.events).toEqual(what.startsWith('a text') ? [] : ['handler-failed']);
    },
  );

  it.each([
    ['internal', 'no transport for order 5'],
    ['unavailable', 'upstream: read ECONNRESET'],
    ['internal', 'Received RST_STREAM with code 2'],
  ] as const)('that fails with %s and %j is what the handler said', async (status, text) => {
    await using made = await desk(() => {
      throw new RpcError(status, text, { details: { a: 1 }, metadata: { k: 'v' } });
    });
    await expect(made.client.say(1)).rejects.toMatchObject({
      code: 'ERR_SIDECALL_RPC',
      status,
      details: { a: 1 },
      metadata: { k: 'v' },
      delivered: 'yes',
    });
  });

  it('comes from a method named then', async () => {
    await using made = await desk(() => 1);
    const { then$ } = made.client as unknown as { then$(value: number): Promise<unknown> };
    expect(await then$(5)).toEqual([5]);
  });
});

it.each([{ a: ' x' }, { a: 'x ' }, { 'a-bin': Buffer.alloc(65_000) }])(
  'a request with metadata that gRPC would drop or hang at is refused before it is sent',
  async (metadata) => {
    await using made = await desk(({ metadata: got }) => Object.keys(got));
    await expect(made.client.say(1, { metadata })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_ENCODE',
      delivered: 'no',
    });
    expect(await made.client.ok()).toBe(1);
  },
);
