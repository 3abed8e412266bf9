// Errors tell the caller all that is not private; values arrive unchanged, or are refused.
import { EventEmitter } from 'node:events';
import protobufjs from 'protobufjs';
import { describe, expect, it } from 'vitest';
import { protobuf } from '../../src/adapters/protobuf.ts';
import { RpcError } from '../../src/base/errors.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { json } from '../../src/rpc/contract/json.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { createSessionPair } from '../../src/testing/session-pair.ts';
import { Demo, defer, demoHandlers, turns, until } from '../support/contract.ts';

describe('an RpcError', () => {
  it('keeps its words where its details cannot travel', async () => {
    await using pair = createSessionPair();
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    const details = [circle, 1n, 'x'.repeat(70_000)];
    let at = 0;
    pair.far.serve(
      Demo,
      demoHandlers({
        fail: () => {
          throw new RpcError('not_found', 'no such file', { details: details[at] });
        },
      }),
    );
    for (; at < details.length; at += 1) {
      await expect(pair.near.client(Demo).fail('x')).rejects.toMatchObject({
        status: 'not_found',
        message: 'Demo.fail: no such file',
        details: undefined,
      });
    }
  });

  it('F2 keeps its words and details while earlier answers wait to be read', async () => {
    const limits = {
      receiveMaxBytes: 262_144,
      streamWindowBytes: 16_384,
      sessionWindowBytes: 557_056,
      sendQueueMaxBytes: 65_536,
    };
    const Files = service('Files', {
      read: unary<number, Uint8Array>({ response: bytes }),
      fail: unary<void, void>(),
    });
    await using pair = createSessionPair({ near: { limits }, far: { limits } });
    const failing = defer<void>();
    pair.far.serve(Files, {
      read: async (length) => new Uint8Array(length),
      fail: async () => {
        await failing.promise;
        throw new RpcError('not_found', 'no such file', { details: { name: 'a' } });
      },
    });
    const files = pair.near.client(Files);
    const failed = files.fail().catch((error: unknown) => error);
    await until(() => pair.far.stats().handlers.running === 1);
    const answers = Array.from({ length: 20 }, () => files.read(200_000));
    await until(() => pair.far.stats().waits['answer-window'] > 0);
    failing.resolve();
    expect(await failed).toMatchObject({
      status: 'not_found',
      message: 'Files.fail: no such file',
      details: { name: 'a' },
    });
    expect((await Promise.all(answers)).map(({ byteLength }) => byteLength)).toEqual(
      answers.map(() => 200_000),
    );
  });

  it('of a third process tells our caller its status and words, and no more', async () => {
    await using upstream = createSessionPair();
    await using pair = createSessionPair();
    const secret = { details: { token: 'secret' }, metadata: { token: 'secret' } };
    upstream.far.serve(
      Demo,
      demoHandlers({
        fail: () => {
          throw new RpcError('not_found', 'no such place', secret);
        },
      }),
    );
    pair.far.serve(
      Demo,
      demoHandlers({
        fail: async () => {
          await upstream.near.client(Demo).fail('x');
        },
        same: async () => {
          const error = await upstream.near
            .client(Demo)
            .fail('x')
            .catch((caught) => caught);
          throw new RpcError(error.status, 'in words of my own');
        },
      }),
    );
    const error = await pair.near
      .client(Demo)
      .fail('x')
      .catch((caught) => caught);
    expect(error).toMatchObject({ status: 'not_found', details: undefined, metadata: {} });
    expect(error.message).toBe('Demo.fail: Demo.fail: no such place');
    await expect(pair.near.client(Demo).same(1)).rejects.toMatchObject({
      status: 'not_found',
      message: 'Demo.same: in words of my own',
    });
  });
});

describe('one signal for many', () => {
  it('is no leak, however many calls, retries, waits and sessions share it', async () => {
    const warnings: string[] = [];
    const listener = (warning: Error): void => void warnings.push(warning.name);
    process.on('warning', listener);
    const { signal } = new AbortController();
    const pairs = Array.from({ length: 15 }, () => createSessionPair());
    const waiting: Promise<unknown>[] = [];
    for (const { near, far } of pairs) {
      far.serve(Demo, demoHandlers());
      const retry = { attempts: 2, firstMs: 1, maxMs: 1 };
      const demo = near.client(Demo, { retry, interceptors: [(call, next) => next(call)] });
      waiting.push(demo.add({ a: 1, b: 1 }, { signal }));
      const channel = near.openChannel(json(), { name: 'none', signal });
      for (let at = 0; at < 3; at += 1) waiting.push(channel.next({ signal, timeoutMs: 20 }));
    }
    await Promise.allSettled(waiting);
    for (const { near, far } of pairs) await Promise.all([near.close(), far.close()]);
    await turns(3);
    process.off('warning', listener);
    expect(warnings).toEqual([]);
    expect(new EventEmitter().listenerCount('x')).toBe(0);
  });
});

describe('JSON', () => {
  const carried = (value: unknown): unknown => {
    const encoded = json().encode(value);
    return json().decode(typeof encoded === 'string' ? Buffer.from(encoded) : encoded, false);
  };

  it('is the same whether bytes stand beside it or not', () => {
    const bytes = new Uint8Array([1, 2, 3]);
    const odd = {
      boxed: [new Number(5), new String('s'), new Boolean(false)],
      date: new Date(0),
      gone: undefined,
      nested: { list: [undefined, Number.NaN] },
    };
    const plain = JSON.parse(JSON.stringify(odd));
    expect(carried(odd)).toEqual(plain);
    expect(carried({ ...odd, bytes })).toEqual({ ...plain, bytes });
  });

  it('asks toJSON once, with the key, and takes bytes from it', () => {
    for (const beside of [undefined, new Uint8Array([9])]) {
      const keys: string[] = [];
      const own = {
        toJSON: (key: string) => {
          keys.push(key);
          return { key, bytes: new Uint8Array([7]) };
        },
      };
      const answer = carried({ a: own, list: [own], beside }) as Record<string, unknown>;
      expect(keys).toEqual(['a', '0']);
      expect(answer.a).toEqual({ key: 'a', bytes: new Uint8Array([7]) });
      expect(answer.list).toEqual([{ key: '0', bytes: new Uint8Array([7]) }]);
    }
    const self = { x: 1, toJSON: () => self };
    expect(carried({ self, bytes: new Uint8Array(1) })).toMatchObject({ self: { x: 1 } });
  });
});

describe('protobuf', () => {
  it('refuses a number and an enum name that it would send as 0', () => {
    const { root } = protobufjs.parse(`
      syntax = "proto3";
      enum Color { NONE = 0; RED = 1; }
      message Pixel { int64 at = 1; Color color = 2; }
    `);
    const codec = protobuf<Record<string, unknown>>(root.lookupType('Pixel'));
    expect(() => codec.encode({ at: 5n })).toThrow('at: integer|Long expected');
    expect(() => codec.encode({ color: 'RED' })).toThrow('color: enum value expected');
    expect(codec.encode({ at: 5, color: 1 })).toHaveLength(4);
  });
});
