import { describe, expect, it } from 'vitest';
import { RpcError } from '../../src/base/errors.ts';
import type { SidecallEvent } from '../../src/base/events.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import {
  Demo,
  defer,
  demoHandlers,
  Flow,
  flowHandlers,
  turns,
  until,
} from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

describe.each(lanes)('a session over the $lane', ({ openPair }) => {
  it('calls in both directions at once, out of order', async () => {
    await using pair = await openPair();
    pair.near.serve(Demo, demoHandlers());
    pair.far.serve(Demo, demoHandlers());
    const sums = async (session: Session, from: number): Promise<number[]> => {
      const demo = session.client(Demo);
      const calls = Array.from({ length: 500 }, (_, a) => demo.add({ a, b: from }));
      return (await Promise.all(calls)).map(({ sum }) => sum);
    };
    const [near, far] = await Promise.all([sums(pair.near, 0), sums(pair.far, 1000)]);
    expect(near).toEqual(Array.from({ length: 500 }, (_, a) => a));
    expect(far).toEqual(Array.from({ length: 500 }, (_, a) => a + 1000));
  });

  it('one slow call does not hold the others', async () => {
    await using pair = await openPair();
    const slow = defer<{ sum: number }>();
    pair.far.serve(Demo, demoHandlers({ add: ({ a }) => (a === 0 ? slow.promise : { sum: a }) }));
    const demo = pair.near.client(Demo);
    const first = demo.add({ a: 0, b: 0 });
    expect(await demo.add({ a: 5, b: 0 })).toEqual({ sum: 5 });
    slow.resolve({ sum: -1 });
    expect(await first).toEqual({ sum: -1 });
  });

  it('carries messages of every size around the fragment, empty ones too', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const demo = pair.near.client(Demo);
    const fragment = 65_536;
    const sizes = [0, 1, 3, fragment - 1, fragment, fragment + 1, 2 * fragment, 1_000_003];
    for (const size of sizes) {
      const payload = Buffer.alloc(size, 1);
      for (let at = 0; at < size; at += 997) payload[at] = at % 251;
      const answer = await demo.echo(payload);
      expect(Buffer.compare(answer, payload), `${size} bytes`).toBe(0);
    }
  });

  it('gives the receiver bytes of its own', async () => {
    await using pair = await openPair();
    const kept: Uint8Array[] = [];
    pair.far.serve(
      Demo,
      demoHandlers({
        echo: (payload) => {
          kept.push(payload);
          return payload;
        },
      }),
    );
    const demo = pair.near.client(Demo);
    for (let value = 0; value < 50; value += 1) await demo.echo(new Uint8Array(100).fill(value));
    kept.forEach((payload, value) => expect(payload.every((byte) => byte === value)).toBe(true));
  });

  it('carries nothing as nothing, and Unicode as it is', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    const demo = pair.near.client(Demo);
    expect(await demo.same(undefined)).toBeUndefined();
    expect(await demo.same(null)).toBeNull();
    const text = 'ü€😀'.repeat(30_000);
    expect(await demo.same({ text })).toEqual({ text });
  });

  it('survives values that cannot be looked at: thrown, given and answered', async () => {
    const revoked = (): object => {
      const { proxy, revoke } = Proxy.revocable({}, {});
      revoke();
      return proxy;
    };
    const hostile = (): object => {
      const fail = (): never => {
        throw new Error('a trap');
      };
      const traps = { get: fail, has: fail, getPrototypeOf: fail, ownKeys: fail };
      return new Proxy({}, traps);
    };
    for (const make of [revoked, hostile]) {
      const events: SidecallEvent[] = [];
      await using pair = await openPair({ onFarEvent: (event) => events.push(event) });
      const fail = (): never => {
        throw make();
      };
      const later = async (): Promise<never> => {
        await turns(1);
        throw make();
      };
      pair.far.serve(
        Demo,
        demoHandlers({ fail: (how) => (how === 'now' ? fail() : later()), same: make, log: fail }),
      );
      pair.far.serve(
        Flow,
        flowHandlers({
          // biome-ignore lint/correctness/useYield: it throws
          async *count() {
            throw make();
          },
          sum: later,
        }),
      );
      const demo = pair.near.client(Demo);
      const flow = pair.near.client(Flow);
      const internal = { status: 'internal' };
      await expect(demo.fail('now')).rejects.toMatchObject(internal);
      await expect(demo.fail('later')).rejects.toMatchObject(internal);
      await expect(flow.count({ to: 1 }).next()).rejects.toMatchObject(internal);
      await expect(flow.sum([1])).rejects.toMatchObject(internal);
      await expect(demo.same(1)).rejects.toMatchObject(internal);
      await demo.log('x');
      const encode = { code: 'ERR_SIDECALL_ENCODE' };
      for (const value of [make(), { inner: make() }, [make()]]) {
        await expect(demo.same(value)).rejects.toMatchObject(encode);
        await expect(demo.log(value as never)).rejects.toMatchObject(encode);
      }
      expect(pair.near.state).toBe('open');
      await until(() => events.filter(({ type }) => type === 'handler-failed').length === 6);
    }
  });

  it('tells the caller what the handler said, and nothing else', async () => {
    const events: SidecallEvent[] = [];
    await using pair = await openPair({ onFarEvent: (event) => events.push(event) });
    const said = new RpcError('not_found', '100 % of "ü" is gone', {
      details: { id: 7 },
      metadata: { hint: 'look elsewhere' },
    });
    const throwers: Record<string, () => unknown> = {
      rpc: () => {
        throw said;
      },
      sync: () => {
        throw new Error('/home/secret/path.ts:1');
      },
      async: () => Promise.reject(new Error('secret')),
      text: () => {
        throw 'secret';
      },
      nothing: () => Promise.reject(undefined),
    };
    pair.far.serve(Demo, demoHandlers({ fail: (how) => throwers[how]?.() as undefined }));
    const demo = pair.near.client(Demo);
    const failure = await demo.fail('rpc').catch((error: unknown) => error);
    expect(RpcError.is(failure)).toBe(true);
    expect(failure).toMatchObject({
      code: 'ERR_SIDECALL_RPC',
      status: 'not_found',
      delivered: 'yes',
      message: 'Demo.fail: 100 % of "ü" is gone',
      details: { id: 7 },
      metadata: { hint: 'look elsewhere' },
    });
    // Faults: this process is one of its own; failure-reply.test.ts has the strangers.
    const texts = { sync: '/home/secret/path.ts:1', async: 'secret', text: 'secret' };
    for (const [how, text] of Object.entries({ ...texts, nothing: 'undefined' })) {
      const error = (await demo.fail(how).catch((reason: unknown) => reason)) as RpcError;
      expect(error).toMatchObject({ status: 'internal', details: undefined, metadata: {} });
      expect(error.message).toBe(`Demo.fail: ${text}`);
    }
    const failed = events.filter(({ type }) => type === 'handler-failed');
    expect(failed).toHaveLength(4);
    expect(String((failed[0]?.error.cause as Error).message)).toContain('secret');
  });

  it('answers unknown methods with unimplemented, whatever their name', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    for (const name of ['toString', 'constructor', '__proto__', 'Demo.none', 'Demo']) {
      await expect(pair.near.call(name, {})).rejects.toMatchObject({
        code: 'ERR_SIDECALL_RPC',
        status: 'unimplemented',
        message: expect.stringContaining(name),
      });
    }
    await expect(pair.near.call('Demo.log', 'x')).rejects.toMatchObject({
      status: 'unimplemented',
    });
  });

  it('serves more while calls are running', async () => {
    await using pair = await openPair();
    pair.far.serve(Demo, demoHandlers());
    await expect(pair.near.call('Late.hello')).rejects.toMatchObject({ status: 'unimplemented' });
    pair.far.serve(service('Late', { hello: unary<void, string>() }), { hello: () => 'hi' });
    expect(await pair.near.call('Late.hello')).toBe('hi');
  });

  it('serves more while a thousand calls are running, and none of them is disturbed', async () => {
    await using pair = await openPair();
    const gate = defer();
    const Slow = service('Slow', { wait: unary<number, number>() });
    pair.far.serve(Slow, {
      wait: async (at) => {
        await gate.promise;
        return at;
      },
    });
    const { wait } = pair.near.client(Slow);
    const running = Promise.all(Array.from({ length: 1_000 }, (_, at) => wait(at)));
    for (let at = 0; at < 100; at += 1) {
      pair.far.serve(service(`Late${at}`, { hello: unary<void, string>() }), { hello: () => 'hi' });
      expect(await pair.near.call(`Late${at}.hello`)).toBe('hi');
      expect(() => pair.far.serve(Slow, { wait: () => -1 })).toThrow('Slow');
    }
    gate.resolve();
    expect(await running).toEqual(Array.from({ length: 1_000 }, (_, at) => at));
  });
});
