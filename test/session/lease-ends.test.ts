// Ends of calls with blocks and leases: the memory goes back, over every transport.

import { describe, expect, it } from 'vitest';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { type Lease, leased } from '../../src/rpc/contract/leases.ts';
import { clientStream, notification, service, unary } from '../../src/rpc/contract/service.ts';
import { fill, LeaseCalls, leaseHandlers, sumOf } from '../support/lease-calls.ts';
import { expectQuiet, failureOf, grounds, MiB } from '../support/lease-grounds.ts';

describe.each(grounds)('the end of leases over $name', ({ open, lends, isInPlace }) => {
  it('an answer may be made of the request', async () => {
    await using pair = await open();
    const Echo = service('Echo', { echo: unary({ request: leased, response: leased }) });
    pair.far.serve(Echo, { echo: async (lease) => lease.bytes as unknown as Uint8Array });
    const { echo } = pair.near.client(Echo);
    await Promise.all(
      [10, 5000, 70_000, 2 * MiB, 3 * MiB].map(async (size) => {
        const block = pair.near.allocate(size);
        const sum = fill(block.bytes, size);
        using lease = await echo(block);
        expect(lease.byteLength).toBe(size);
        expect(sumOf(lease.bytes)).toBe(sum);
      }),
    );
    await expectQuiet(pair);
  });

  it('bytes that are released while their message waits fail that message, and nothing else', async () => {
    await using pair = await open();
    const held: Lease[] = [];
    pair.far.serve(LeaseCalls, leaseHandlers({ drop: () => new Promise(() => undefined) }));
    pair.near.serve(
      LeaseCalls,
      leaseHandlers({
        raise: (lease, ctx) => {
          held.push(lease.keep());
          return ctx.allocate(1);
        },
      }),
    );
    const leases = pair.near.client(LeaseCalls);
    for (const size of [5000, 300_000]) {
      (await pair.far.client(LeaseCalls).raise(new Uint8Array(size))).release();
      const lease = held.pop() as Lease;
      // Until the stream has credit again the message waits where it was made.
      const pouring = leases.exchange();
      const filler = pair.near.allocate(400_000);
      await pouring.send(filler);
      const waiting = pouring.send(lease.bytes as unknown as Uint8Array);
      const after = pouring.send(new Uint8Array([7]));
      lease.release();
      const first = await pouring.next();
      first.value?.release();
      expect(await failureOf(waiting)).toMatchObject({ code: 'ERR_SIDECALL_LEASE_RELEASED' });
      await after;
      const second = await pouring.next();
      expect(second.value?.bytes[0]).toBe(8);
      second.value?.release();
      await pouring.end();
      expect(pair.near.state).toBe('open');
    }
    await expectQuiet(pair);
  });

  it('bytes of a released lease are no empty message', async () => {
    await using pair = await open();
    const both = { request: leased, response: leased };
    const Echo = service('Echo', { late: unary(both), nothing: unary(both) });
    pair.far.serve(LeaseCalls, leaseHandlers());
    pair.far.serve(Echo, {
      nothing: () => new Uint8Array(0),
      late: (lease) => {
        const { bytes: view } = lease;
        lease.release();
        return view as unknown as Uint8Array;
      },
    });
    const lease = await pair.near.client(LeaseCalls).raise(new Uint8Array(100));
    const view = lease.bytes as unknown as Uint8Array;
    lease.release();
    expect(await failureOf(pair.near.client(LeaseCalls).take(view))).toMatchObject({
      code: 'ERR_SIDECALL_LEASE_RELEASED',
    });
    expect(await failureOf(pair.near.client(Echo).late(new Uint8Array(50)))).toMatchObject({
      status: 'internal',
    });
    using empty = await pair.near.client(Echo).nothing(new Uint8Array(0));
    expect(empty.byteLength).toBe(0);
    await expectQuiet(pair);
  });

  it('a request whose memory was transferred is nobody else’s trouble', async () => {
    await using pair = await open();
    pair.far.serve(
      LeaseCalls,
      leaseHandlers({
        take: async (lease) => {
          const { buffer } = lease.bytes as unknown as { buffer: ArrayBuffer };
          // As it is from Node 22 on: a second transfer of the same memory throws.
          const again = (): never => {
            throw new TypeError('detached');
          };
          Object.defineProperty(buffer, 'transfer', { value: again, configurable: true });
          try {
            structuredClone(buffer, { transfer: [buffer] });
          } catch {
            // what lies in the peer's memory is not to be transferred
          }
          return { sum: 0, copied: lease.copied };
        },
      }),
    );
    for (const size of [10, 100_000]) {
      await pair.near.client(LeaseCalls).take(pair.near.allocate(size));
    }
    await expectQuiet(pair);
  });

  it('blocks and leases of calls that end otherwise go back', async () => {
    await using pair = await open();
    const K = service('K', {
      json: unary<unknown, unknown>(),
      trailers: unary({ request: leased, response: leased }),
      foreign: unary({ request: leased, response: leased }),
      wrong: unary({ request: bytes, response: bytes }),
      note: notification({ request: leased }),
      read: clientStream<Lease, number, Uint8Array | ReturnType<typeof pair.near.allocate>>({
        request: leased,
      }),
    });
    pair.far.serve(K, {
      json: (_request, ctx) => ctx.allocate(100),
      trailers: (_lease, ctx) => {
        ctx.trailers = { long: 'x'.repeat(100_000) };
        return ctx.allocate(100);
      },
      foreign: () => pair.near.allocate(100),
      wrong: (_request, ctx) => ctx.allocate(100) as never,
      note: (_lease, ctx) => ctx.allocate(100) as never,
      read: () => 1,
    });
    pair.far.serve(
      LeaseCalls,
      leaseHandlers({
        raise: (lease, ctx) => {
          ctx.trailers = { some: 'thing' };
          return ctx.allocate(lease.byteLength);
        },
      }),
    );
    const k = pair.near.client(K);
    const block = (): ReturnType<typeof pair.near.allocate> => pair.near.allocate(100);
    expect(await failureOf(k.json(block()))).toMatchObject({ code: 'ERR_SIDECALL_ENCODE' });
    expect(await failureOf(k.json(1))).toMatchObject({ status: 'internal' });
    for (const method of ['trailers', 'foreign'] as const) {
      expect(await failureOf(k[method](block()))).toMatchObject({ status: 'internal' });
    }
    expect(await failureOf(k.wrong(new Uint8Array(1)))).toMatchObject({ status: 'internal' });
    await k.note(block());
    const controller = new AbortController();
    const given = {
      signal: controller.signal,
      onTrailers: () => controller.abort(new Error('enough')),
    };
    expect(await failureOf(pair.near.client(LeaseCalls).raise(block(), given))).toMatchObject({
      message: 'enough',
    });
    const intercepted = pair.near.client(LeaseCalls, {
      interceptors: [async () => ({ sum: 1, copied: true })],
    });
    expect(await intercepted.take(block())).toEqual({ sum: 1, copied: true });
    const throwing = pair.near.client(LeaseCalls, {
      interceptors: [
        () => {
          throw new Error('no');
        },
      ],
    });
    expect(await failureOf(throwing.take(block()))).toMatchObject({ message: 'no' });
    const retrying = pair.near.client(LeaseCalls, { retry: true });
    expect(await failureOf(retrying.take(block(), { wrong: 1 } as never))).toBeInstanceOf(
      TypeError,
    );
    let release: () => void = () => undefined;
    async function* late(): AsyncGenerator<ReturnType<typeof block>> {
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      yield block();
    }
    expect(await k.read(late())).toBe(1);
    release();
    await new Promise((resolve) => setTimeout(resolve, 20)); // it is made only now
    await expectQuiet(pair);
  });

  it('a block that is not sent is freed: misuse, cancel, deadline, a session that closes', async () => {
    await using pair = await open();
    pair.far.serve(LeaseCalls, leaseHandlers());
    const { take } = pair.near.client(LeaseCalls);
    const aborted = AbortSignal.abort(new Error('before'));
    expect(await failureOf(take(pair.near.allocate(100), { signal: aborted }))).toMatchObject({
      message: 'before',
    });
    expect(await failureOf(take(pair.near.allocate(100), { timeoutMs: 0 }))).toMatchObject({
      code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
    });
    const freed = pair.near.allocate(100);
    const view = freed.bytes;
    freed.free();
    freed.free();
    if (lends) expect(view.byteLength).toBe(isInPlace ? 100 : 0);
    expect(await failureOf(take(freed))).toMatchObject({ code: 'ERR_SIDECALL_LEASE_RELEASED' });
    const twice = pair.near.allocate(100);
    await take(twice);
    expect(await failureOf(take(twice))).toMatchObject({ code: 'ERR_SIDECALL_LEASE_RELEASED' });
    const foreign = pair.far.allocate(100);
    expect(await failureOf(take(foreign))).toMatchObject({ code: 'ERR_SIDECALL_ENCODE' });
    expect(await failureOf(take(5 as never))).toMatchObject({ code: 'ERR_SIDECALL_ENCODE' });
    const lease = await pair.near.client(LeaseCalls).raise(new Uint8Array(10));
    expect(await failureOf(take(lease as never))).toMatchObject({
      message: expect.stringContaining('send lease.bytes'),
    });
    lease.release();
    {
      using scoped = pair.near.allocate(100);
      expect(scoped.bytes.byteLength).toBe(100);
    }
    await expectQuiet(pair);
    for (const wrong of [-1, 1.5, Number.NaN, 2 ** 31]) {
      expect(() => pair.near.allocate(wrong)).toThrow(RangeError);
    }
    expect(() => pair.near.allocate(5 * MiB)).toThrow(
      expect.objectContaining({ code: 'ERR_SIDECALL_MESSAGE_TOO_LARGE' }),
    );
    const late = pair.near.allocate(100);
    await pair.near.close();
    expect(await failureOf(take(late))).toMatchObject({ code: 'ERR_SIDECALL_CLOSED' });
  });
});
