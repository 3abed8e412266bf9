// Blocks out, leases in: the same over every transport.

import { describe, expect, it } from 'vitest';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { type Lease, leased } from '../../src/rpc/contract/leases.ts';
import { service, unary } from '../../src/rpc/contract/service.ts';
import { until } from '../support/contract.ts';
import { fill, LeaseCalls, leaseHandlers, sumOf } from '../support/lease-calls.ts';
import { expectQuiet, failureOf, grounds, MiB } from '../support/lease-grounds.ts';

const sizes = [0, 1, 64, 4095, 4096, 4097, 65_536, 65_537, 300_001, MiB];

describe.each(grounds)('leases over $name', ({ open, lends, isInPlace }) => {
  it('carry a request and an answer of every size, and come back', async () => {
    await using pair = await open();
    pair.far.serve(LeaseCalls, leaseHandlers());
    const leases = pair.near.client(LeaseCalls);
    for (const size of sizes) {
      const block = pair.near.allocate(size);
      expect(block.inPlace).toBe(lends && size > 0);
      expect(block.byteLength).toBe(size);
      const sent = Uint8Array.from({ length: size }, (_, at) => (size + at * 3) & 0xff);
      block.bytes.set(sent);
      const view = block.bytes;
      const answering = leases.raise(block);
      // In place it is the program that is trusted not to write from here on.
      if (lends && size > 0) expect(view.byteLength).toBe(isInPlace ? size : 0);
      expect(() => block.bytes).toThrow(/sent or freed/);
      using lease = await answering;
      expect(lease.copied).toBe(!isInPlace || size === 0);
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
      LeaseCalls,
      leaseHandlers({
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
      expect(await pair.near.client(LeaseCalls).take(block, { metadata })).toMatchObject({ sum });
      expect(seen.pop()).toEqual(metadata);
    }
    await expectQuiet(pair);
  });

  it('stream in every direction', async () => {
    await using pair = await open();
    pair.far.serve(LeaseCalls, leaseHandlers());
    const leases = pair.near.client(LeaseCalls);
    const messages = 40;
    const bytesEach = 30_000;
    const pouring = leases.upload();
    const dripping = leases.download({ messages, bytes: bytesEach });
    const stirring = leases.exchange();
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
    pair.far.serve(
      LeaseCalls,
      leaseHandlers({ drop: (lease) => void sums.push(sumOf(lease.bytes)) }),
    );
    const accepted = pair.far.channels(leased, { name: 'leases' });
    const channel = pair.near.openChannel(leased, { name: 'leases' });
    const wanted: number[] = [];
    for (let at = 0; at < 20; at += 1) {
      const block = pair.near.allocate(1000 * (at + 1));
      wanted.push(fill(block.bytes, at));
      await pair.near.client(LeaseCalls).drop(block);
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

  it('are no longer readable once they were given back', async () => {
    await using pair = await open();
    pair.far.serve(LeaseCalls, leaseHandlers());
    for (const size of [100, 100_000]) {
      const lease = await pair.near.client(LeaseCalls).raise(new Uint8Array(size));
      const view = lease.bytes;
      expect(view[size - 1]).toBe(1);
      lease.release();
      lease.release(); // twice is once
      expect(view.length).toBe(isInPlace ? size : 0);
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
      LeaseCalls,
      leaseHandlers({
        take: async (lease) => {
          leases.push(isKeeping ? lease.keep() : lease);
          await new Promise((resolve) => setImmediate(resolve));
          const sum = sumOf(lease.bytes); // still there
          if (sum === 0) throw new Error('as wished');
          return { sum, copied: lease.copied };
        },
      }),
    );
    const { take } = pair.near.client(LeaseCalls);
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
      LeaseCalls,
      leaseHandlers({
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
      return pair.near.client(LeaseCalls).take(block, { signal: controller.signal });
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
});
