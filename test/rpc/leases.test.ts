// Blocks out, leases in: the same over every transport, whatever becomes of the memory underneath.
import { describe, expect, it } from 'vitest';
import type { SessionOptions } from '../../src/open/session-options.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { type Lease, leased } from '../../src/rpc/contract/leases.ts';
import { clientStream, notification, service, unary } from '../../src/rpc/contract/service.ts';
import { until } from '../support/contract.ts';
import { lanes, openRingPair, type Pair } from '../support/pairs.ts';
import { fill, sumOf, Vat, vatHandlers } from '../support/vat.ts';

const MiB = 1024 * 1024;
const area: SessionOptions = { blockAreaBytes: 16 * MiB, leases: 'copy' };
const inPlace: SessionOptions = { ...area, leases: 'in-place-trusted' };

interface Ground {
  readonly name: string;
  readonly open: () => Promise<Pair>;
  /** Are blocks in shared memory, and leases where those lie? */
  readonly lends: boolean;
  readonly isInPlace: boolean;
}

const grounds: Ground[] = [
  ...lanes.map(({ lane, openPair }) => ({
    name: lane,
    open: () => openPair(),
    lends: false,
    isInPlace: false,
  })),
  {
    name: 'ring with block areas, copied',
    open: () => openRingPair(area, area),
    lends: true,
    isInPlace: false,
  },
  {
    name: 'ring with block areas, in place',
    open: () => openRingPair(inPlace, inPlace),
    lends: true,
    isInPlace: true,
  },
  {
    name: 'ring with block areas, switched off by the receiver',
    open: () => openRingPair({ ...area, leases: 'off' }, { ...area, leases: 'off' }),
    lends: false,
    isInPlace: false,
  },
];

const sizes = [1, 64, 4095, 4096, 4097, 65_536, 65_537, 300_001, MiB];

/**
 * What a promise rejects with. An error whose stack nobody has read keeps the objects that it went
 * through, and the test runner keeps what `expect().rejects` has seen.
 */
async function failureOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    void (error as Error).stack;
    return error;
  }
  throw new Error('it did not reject');
}

/** All blocks of both sides came back. */
async function expectQuiet(pair: Pair): Promise<void> {
  const used = (): number[] =>
    [pair.near, pair.far].flatMap((one) => {
      const { blocks, leases } = one.stats();
      return [blocks.inUse, leases.held];
    });
  await until(() => used().every((count) => count === 0));
  expect(used()).toEqual([0, 0, 0, 0]);
}

describe.each(grounds)('leases over $name', ({ open, lends, isInPlace }) => {
  it('S1 S2 carry a request and an answer of every size, and come back', async () => {
    await using pair = await open();
    pair.far.serve(Vat, vatHandlers());
    const vat = pair.near.client(Vat);
    for (const size of sizes) {
      const block = pair.near.allocate(size);
      expect(block.inPlace).toBe(lends);
      expect(block.byteLength).toBe(size);
      const sent = Uint8Array.from({ length: size }, (_, at) => (size + at * 3) & 0xff);
      block.bytes.set(sent);
      const view = block.bytes;
      const answering = vat.raise(block);
      if (lends) expect(view.byteLength).toBe(0); // nobody writes from here on
      expect(() => block.bytes).toThrow(/sent or freed/);
      using lease = await answering;
      expect(lease.copied).toBe(!isInPlace);
      expect(lease.byteLength).toBe(size);
      expect(
        Buffer.compare(
          lease.bytes as never,
          sent.map((byte) => byte + 1),
        ),
      ).toBe(0);
    }
    await expectQuiet(pair);
  });

  it('carry plain bytes, too, and reach a method that takes plain bytes', async () => {
    const Plain = service('Plain', {
      plain: unary({ request: bytes, response: bytes }),
      lent: unary({ request: leased, response: leased }),
    });
    const Mixed = service('Plain', {
      plain: unary({ request: leased, response: leased }),
      lent: unary({ request: bytes, response: bytes }),
    });
    await using pair = await open();
    pair.far.serve(Plain, {
      plain: (request) => request,
      lent: (lease) => Uint8Array.from(lease.bytes as never),
    });
    const mixed = pair.near.client(Mixed);
    for (const size of [10, 5000, 200_000]) {
      const block = pair.near.allocate(size);
      const sum = fill(block.bytes, 3);
      using lease = await mixed.plain(block);
      expect(sumOf(lease.bytes)).toBe(sum);
      const payload = new Uint8Array(size);
      fill(payload, 9);
      expect(await mixed.lent(payload)).toEqual(Buffer.from(payload));
    }
    await expectQuiet(pair);
  });

  it('carry metadata beside a block', async () => {
    await using pair = await open();
    const seen: unknown[] = [];
    pair.far.serve(
      Vat,
      vatHandlers({
        take: (lease, { metadata }) => {
          seen.push(metadata);
          return { sum: sumOf(lease.bytes), copied: lease.copied };
        },
      }),
    );
    for (const length of [10, 3000, 7000]) {
      const block = pair.near.allocate(10_000);
      const sum = fill(block.bytes, length);
      const metadata = { trace: 'x'.repeat(length) };
      expect(await pair.near.client(Vat).take(block, { metadata })).toMatchObject({ sum });
      expect(seen.pop()).toEqual(metadata);
    }
    await expectQuiet(pair);
  });

  it('stream in every direction', async () => {
    await using pair = await open();
    pair.far.serve(Vat, vatHandlers());
    const vat = pair.near.client(Vat);
    const messages = 40;
    const bytesEach = 30_000;
    const pouring = vat.pour();
    const dripping = vat.drip({ messages, bytes: bytesEach });
    const stirring = vat.stir();
    let poured = 0;
    const sending = (async () => {
      for (let at = 0; at < messages; at += 1) {
        const block = pair.near.allocate(bytesEach);
        poured = (poured + fill(block.bytes, at)) % 2_147_483_647;
        await pouring.send(block);
        const other = pair.near.allocate(bytesEach);
        fill(other.bytes, at);
        await stirring.send(other);
      }
      await stirring.end();
      return pouring.end();
    })();
    let at = 0;
    for await (const lease of dripping) {
      expect(lease.copied).toBe(!isInPlace);
      expect(sumOf(lease.bytes)).toBe(fill(new Uint8Array(bytesEach), at));
      lease.release();
      at += 1;
    }
    expect(at).toBe(messages);
    at = 0;
    for await (const lease of stirring) {
      expect(sumOf(lease.bytes)).toBe(fill(new Uint8Array(bytesEach), at + 1));
      lease.release();
      at += 1;
    }
    expect(at).toBe(messages);
    expect(await sending).toEqual({ sum: poured });
    await expectQuiet(pair);
  });

  it('are messages of channels and notifications', async () => {
    await using pair = await open();
    const sums: number[] = [];
    pair.far.serve(Vat, vatHandlers({ drop: (lease) => void sums.push(sumOf(lease.bytes)) }));
    const accepted = pair.far.channels(leased, { name: 'vat' });
    const channel = pair.near.openChannel(leased, { name: 'vat' });
    const wanted: number[] = [];
    for (let at = 0; at < 20; at += 1) {
      const block = pair.near.allocate(1000 * (at + 1));
      wanted.push(fill(block.bytes, at));
      await pair.near.client(Vat).drop(block);
      const message = pair.near.allocate(1000 * (at + 1));
      fill(message.bytes, at);
      await channel.send(message);
    }
    const ending = channel.end();
    const { value: far } = (await accepted.next()) as { value: typeof channel };
    const heard: number[] = [];
    for await (const lease of far) {
      heard.push(sumOf(lease.bytes));
      lease.release();
    }
    await far.end();
    await ending;
    await until(() => sums.length === wanted.length);
    expect(sums).toEqual(wanted);
    expect(heard).toEqual(wanted);
    await accepted.return?.();
    await expectQuiet(pair);
  });

  it('row 47 are no longer readable once they were given back', async () => {
    await using pair = await open();
    pair.far.serve(Vat, vatHandlers());
    for (const size of [100, 100_000]) {
      const lease = await pair.near.client(Vat).raise(new Uint8Array(size));
      const view = lease.bytes;
      expect(view[size - 1]).toBe(1);
      lease.release();
      lease.release(); // twice is once
      expect(view.length).toBe(0);
      expect(() => lease.bytes).toThrow(/keep\(\)/);
      expect(lease.byteLength).toBe(size);
    }
    await expectQuiet(pair);
  });

  it('of a handler go back when it has settled, unless it keeps them', async () => {
    await using pair = await open();
    const leases: Lease[] = [];
    let isKeeping = false;
    pair.far.serve(
      Vat,
      vatHandlers({
        take: async (lease) => {
          leases.push(isKeeping ? lease.keep() : lease);
          await new Promise((resolve) => setImmediate(resolve));
          const sum = sumOf(lease.bytes); // still there
          if (sum === 0) throw new Error('as wished');
          return { sum, copied: lease.copied };
        },
      }),
    );
    const { take } = pair.near.client(Vat);
    const block = pair.near.allocate(20_000);
    const sum = fill(block.bytes, 1);
    expect(await take(block)).toMatchObject({ sum });
    expect(() => leases[0]?.bytes).toThrow(
      expect.objectContaining({ code: 'ERR_SIDECALL_LEASE_RELEASED' }),
    );
    expect(await failureOf(take(new Uint8Array(20_000)))).toMatchObject({ status: 'internal' });
    expect(() => leases[1]?.bytes).toThrow();
    isKeeping = true;
    const other = pair.near.allocate(20_000);
    fill(other.bytes, 1);
    expect(await take(other)).toMatchObject({ sum });
    expect(sumOf(leases[2]?.bytes as never)).toBe(sum);
    leases[2]?.release();
    await expectQuiet(pair);
  });

  it('of calls that were given up go back', async () => {
    await using pair = await open();
    const held: Lease[] = [];
    pair.far.serve(
      Vat,
      vatHandlers({
        take: (lease, { signal }) => {
          held.push(lease);
          return new Promise((_resolve, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason));
          });
        },
      }),
    );
    const controller = new AbortController();
    const calls = Array.from({ length: 10 }, () => {
      const block = pair.near.allocate(10_000);
      return pair.near.client(Vat).take(block, { signal: controller.signal });
    });
    const settled = Promise.allSettled(calls);
    await until(() => held.length === 10);
    controller.abort(new Error('enough'));
    await settled;
    await until(() => {
      try {
        return held.every((lease) => lease.bytes === undefined);
      } catch {
        return true;
      }
    });
    await expectQuiet(pair);
  });

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
    pair.far.serve(Vat, vatHandlers({ drop: () => new Promise(() => undefined) }));
    pair.near.serve(
      Vat,
      vatHandlers({
        raise: (lease, ctx) => {
          held.push(lease.keep());
          return ctx.allocate(1);
        },
      }),
    );
    const vat = pair.near.client(Vat);
    for (const size of [5000, 300_000]) {
      (await pair.far.client(Vat).raise(new Uint8Array(size))).release();
      const lease = held.pop() as Lease;
      // Until the stream has credit again the message waits where it was made.
      const pouring = vat.stir();
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
    pair.far.serve(Vat, vatHandlers());
    pair.far.serve(Echo, {
      nothing: () => new Uint8Array(0),
      late: (lease) => {
        const { bytes: view } = lease;
        lease.release();
        return view as unknown as Uint8Array;
      },
    });
    const lease = await pair.near.client(Vat).raise(new Uint8Array(100));
    const view = lease.bytes as unknown as Uint8Array;
    lease.release();
    expect(await failureOf(pair.near.client(Vat).take(view))).toMatchObject({
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
      Vat,
      vatHandlers({
        take: async (lease) => {
          const { buffer } = lease.bytes as unknown as { buffer: ArrayBuffer };
          // As it is from Node 22 on: a second transfer of the same memory throws.
          const again = (): never => {
            throw new TypeError('detached');
          };
          Object.defineProperty(buffer, 'transfer', { value: again });
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
      await pair.near.client(Vat).take(pair.near.allocate(size));
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
      Vat,
      vatHandlers({
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
    expect(await failureOf(pair.near.client(Vat).raise(block(), given))).toMatchObject({
      message: 'enough',
    });
    const intercepted = pair.near.client(Vat, {
      interceptors: [async () => ({ sum: 1, copied: true })],
    });
    expect(await intercepted.take(block())).toEqual({ sum: 1, copied: true });
    const throwing = pair.near.client(Vat, {
      interceptors: [
        () => {
          throw new Error('no');
        },
      ],
    });
    expect(await failureOf(throwing.take(block()))).toMatchObject({ message: 'no' });
    const retrying = pair.near.client(Vat, { retry: true });
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
    pair.far.serve(Vat, vatHandlers());
    const { take } = pair.near.client(Vat);
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
    if (lends) expect(view.byteLength).toBe(0);
    expect(await failureOf(take(freed))).toMatchObject({ code: 'ERR_SIDECALL_LEASE_RELEASED' });
    const twice = pair.near.allocate(100);
    await take(twice);
    expect(await failureOf(take(twice))).toMatchObject({ code: 'ERR_SIDECALL_LEASE_RELEASED' });
    const foreign = pair.far.allocate(100);
    expect(await failureOf(take(foreign))).toMatchObject({ code: 'ERR_SIDECALL_ENCODE' });
    expect(await failureOf(take(5 as never))).toMatchObject({ code: 'ERR_SIDECALL_ENCODE' });
    const lease = await pair.near.client(Vat).raise(new Uint8Array(10));
    expect(await failureOf(take(lease as never))).toMatchObject({
      message: expect.stringContaining('send lease.bytes'),
    });
    lease.release();
    {
      using scoped = pair.near.allocate(100);
      expect(scoped.bytes.byteLength).toBe(100);
    }
    await expectQuiet(pair);
    for (const wrong of [0, -1, 1.5, Number.NaN, 2 ** 31]) {
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
