import * as grpc from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { type ServeGrpcServiceOptions, serveGrpc } from '../../src/adapters/grpc/main.ts';
import { RpcError } from '../../src/base/errors.ts';
import type { Peer } from '../../src/base/peer.ts';
import type { CallContext } from '../../src/rpc/contract/call-context.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { until } from '../support/contract.ts';
import {
  addOne,
  attached,
  collect,
  handlers,
  Indexer,
  IndexerClient,
  right,
  secret,
  served,
} from '../support/grpc.ts';
import type { demo } from '../support/proto/demo.js';

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

  it('details that are a list of Any, and those of a handler, are the status of gRPC', async () => {
    const typeUrl = 'type.googleapis.com/a.B';
    const own = new Uint8Array([8, 5]);
    await using server = await served({
      addOne: ({ number }) => {
        const value = new Uint8Array([1, 2]);
        if (number === 1)
          throw new RpcError('not_found', 'gone', { details: [{ typeUrl, value }] });
        const metadata = { 'grpc-status-details-bin': own };
        throw new RpcError('not_found', 'gone', { metadata, details: [{ typeUrl, value }] });
      },
    });
    const encoded = async (number: number): Promise<unknown> => {
      const { status } = await addOne(server.client, { number }, { metadata: right });
      expect(status).toMatchObject({ code: grpc.status.NOT_FOUND, details: 'gone' });
      expect(status.metadata.get('sidecall-details-bin')).toEqual([]);
      return status.metadata.get('grpc-status-details-bin');
    };
    const any = `0a${typeUrl.length.toString(16)}${Buffer.from(typeUrl).toString('hex')}12020102`;
    const length = (any.length / 2).toString(16);
    expect(await encoded(1)).toEqual([Buffer.from(`08051204676f6e651a${length}${any}`, 'hex')]);
    expect(await encoded(2)).toEqual([Buffer.from(own)]);
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
    let begun = 0;
    const hang = (_: unknown, { signal }: CallContext): Promise<demo.IA> =>
      new Promise((resolve) => {
        begun += 1;
        signal.addEventListener('abort', () => {
          reasons.push((signal.reason as { code: string }).code);
          resolve({});
        });
      });
    await using server = await served({ addOne: hang });
    await new Promise<void>((done, fail) =>
      server.client.waitForReady(Date.now() + 300_000, (error) => (error ? fail(error) : done())),
    );
    const options = { deadline: Date.now() + 2_000 };
    const late = await addOne(server.client, {}, { metadata: right, options });
    expect(late.status.code).toBe(grpc.status.DEADLINE_EXCEEDED);
    await until(() => reasons.length === 1);
    const onCall = (call: grpc.ClientUnaryCall): void =>
      void until(() => begun === 2).then(() => call.cancel());
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
    const interceptors: ServeGrpcServiceOptions['interceptors'] = [
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
      serveGrpc(server, service('Démo', { add: unary() }), { add: () => 1 }, { authenticate }),
    ).toThrow('no name for gRPC');
    expect(() => serveGrpc(server, Indexer, handlers, { authenticate, peers: 1 } as never)).toThrow(
      TypeError,
    );
  });
});
