// The memory that messages lie in belongs to those who read it: to codecs that say nothing, to
// handlers that an interceptor did not wait for, and to callers whose call has settled.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { RpcError } from '../../src/base/errors.ts';
import { bytes, type Codec } from '../../src/rpc/contract/codec.ts';
import type { Interceptor } from '../../src/rpc/contract/interceptor.ts';
import { type Lease, leased } from '../../src/rpc/contract/leases.ts';
import { bidi, service, unary } from '../../src/rpc/contract/service.ts';
import { turns } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';

vi.hoisted(() => {
  process.env.SIDECALL_FILL_RETURNED = '1';
});

const { borrowed } = bytes;
const careless: Codec<Uint8Array> = {
  name: 'careless',
  encode: (value) => value,
  decode: (view) => view.subarray(0),
};
const Store = service('Store', {
  careless: unary({ request: careless, response: careless }),
  carelessly: bidi({ request: careless, response: careless }),
  borrowed: unary({ request: borrowed, response: borrowed }),
  borrowedly: bidi({ request: borrowed, response: borrowed }),
  leased: unary<Lease | Uint8Array, number>({ request: leased as never }),
});
const sizes = [10, 1_000, 5_000, 16_384, 70_000, 300_000];
const limits = { near: { receiveMaxBytes: 2_000_000 }, far: { receiveMaxBytes: 2_000_000 } };
const isAll = (view: Uint8Array, value: number): boolean => view.every((byte) => byte === value);
const wholly = (size: number, value: number): Buffer => Buffer.alloc(size, value);

interface Gate {
  readonly opened: Promise<void>;
  open(): void;
}

function gate(): Gate {
  const made = {} as { opened: Promise<void>; open: () => void };
  made.opened = new Promise((resolve) => {
    made.open = resolve;
  });
  return made;
}

async function* same(messages: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const message of messages) yield message;
}

const handlers = {
  careless: (request: Uint8Array) => request,
  carelessly: same,
  borrowed: (request: Uint8Array) => request,
  borrowedly: same,
  leased: ({ byteLength }: Lease | Uint8Array) => byteLength,
};

describe.each(lanes)("messages over the '$lane'", ({ openPair }) => {
  it('of a codec that says nothing of memory stay as they are', async () => {
    await using pair = await openPair(limits);
    const kept: [Uint8Array, number][] = [];
    pair.far.serve(Store, {
      ...handlers,
      careless: (request) => {
        kept.push([request, request[0] as number]);
        return request;
      },
    });
    const client = pair.near.client(Store);
    const stream = client.carelessly();
    for (let value = 1; value < 60; value += 1) {
      const size = sizes[value % sizes.length] as number;
      await stream.send(wholly(size, value));
      const { value: message } = await stream.next();
      kept.push(
        [message as Uint8Array, value],
        [await client.careless(wholly(size, value)), value],
      );
    }
    await stream.end();
    for (const [message, value] of kept) expect(isAll(message, value)).toBe(true);
  });

  it('that are borrowed are no Buffers, so that slice() copies them', async () => {
    await using pair = await openPair(limits);
    const copies: [Uint8Array, number][] = [];
    const note = (message: Uint8Array): void => {
      expect(Buffer.isBuffer(message)).toBe(false);
      copies.push([message.slice(0, 8), message[0] as number]);
    };
    pair.far.serve(Store, {
      ...handlers,
      borrowed: (request) => {
        note(request);
        return request;
      },
    });
    const client = pair.near.client(Store);
    const stream = client.borrowedly();
    for (let value = 1; value < 60; value += 1) {
      const size = sizes[value % sizes.length] as number;
      await stream.send(wholly(size, value));
      const { value: message } = await stream.next();
      note(message as Uint8Array);
      note(await client.borrowed(wholly(size, value)));
    }
    await stream.end();
    for (const [copy, value] of copies) expect(isAll(copy, value)).toBe(true);
  });

  it('are their handler’s until it has settled, though an interceptor answers before that', async () => {
    await using pair = await openPair(limits);
    const { opened, open } = gate();
    const read: boolean[] = [];
    const kept: Uint8Array[] = [];
    const impatient: Interceptor = ({ method, ...call }, next) =>
      Promise.race([
        next({ method, ...call }),
        sleep(5).then(() => Promise.reject(new RpcError('deadline_exceeded', 'slow'))),
      ]);
    const other = service('Other', { same: unary({ request: borrowed, response: bytes }) });
    pair.far.serve(other, { same: (request) => request });
    const interceptors = [impatient];
    pair.far.serve(
      Store,
      {
        ...handlers,
        borrowed: async (request) => {
          kept.push(request);
          await opened;
          read.push(isAll(request, 3));
          return request;
        },
        leased: async (lease) => {
          await opened;
          read.push(isAll((lease as Lease).bytes, 3));
          return 1;
        },
      },
      { interceptors },
    );
    const client = pair.near.client(Store);
    for (const size of [5_000, 300_000]) {
      const failure = { status: 'deadline_exceeded' };
      await expect(client.borrowed(wholly(size, 3))).rejects.toMatchObject(failure);
      await expect(client.leased(wholly(size, 3))).rejects.toMatchObject(failure);
      for (let call = 0; call < 10; call += 1) {
        await pair.near.client(other).same(wholly(size, 4));
      }
    }
    open();
    await turns(3);
    expect(read).toEqual([true, true, true, true]);
    expect(kept.every((request) => isAll(request, 0xa5))).toBe(true); // it has gone back now
  });

  it('are not written into the buffer of a call that has settled before its interceptors', async () => {
    await using pair = await openPair(limits);
    let { opened, open } = gate();
    let begun = 0;
    pair.far.serve(Store, {
      ...handlers,
      borrowed: async (request) => {
        begun += 1;
        if (begun === 1) await opened;
        return request;
      },
    });
    const into = Buffer.alloc(300_000);
    const call = (interceptor: Interceptor): Promise<Uint8Array> => {
      begun = 0;
      ({ opened, open } = gate());
      const client = pair.near.client(Store, { interceptors: [interceptor] });
      return client.borrowed(wholly(300_000, 3), { into });
    };
    const isUntouched = async (): Promise<boolean> => {
      into.fill(7);
      open();
      await pair.near.client(Store).careless(wholly(300_000, 1));
      await sleep(20);
      return isAll(into, 7);
    };
    const late = call((each, next): unknown =>
      Promise.race([next(each), sleep(5).then(() => Promise.reject(new Error('slow')))]),
    );
    await expect(late).rejects.toThrow('slow');
    expect(await isUntouched()).toBe(true);
    const hedged = await call((each, next) => Promise.any([next(each), next(each)]));
    expect(hedged.buffer).not.toBe(into.buffer);
    expect(await isUntouched()).toBe(true);
    expect(isAll(hedged, 3)).toBe(true);
    open();
    const again = await call(async (each, next) => {
      open();
      const aborted = { ...each, options: { ...each.options, signal: AbortSignal.abort() } };
      await (next(aborted) as Promise<unknown>).catch(() => undefined);
      return next(each);
    });
    expect(again.buffer).toBe(into.buffer);
    expect(isAll(again, 3)).toBe(true);
  });

  it('go with metadata that is longer than their pieces, beside small calls', async () => {
    const own = { metadataMaxBytes: 65_536 };
    await using pair = await openPair({ near: own, far: own });
    const lengths = new Set<number>();
    pair.far.serve(Store, {
      ...handlers,
      careless: (request, { metadata }) => {
        lengths.add(metadata.long?.length ?? 0);
        return request;
      },
    });
    const client = pair.near.client(Store);
    const metadata = { long: 'm'.repeat(40_000) };
    const long = Array.from({ length: 20 }, () =>
      client.careless(wholly(300_000, 3), { metadata }),
    );
    const short = Array.from({ length: 200 }, () => client.careless(wholly(100, 4)));
    for (const answer of await Promise.all(long)) expect(isAll(answer, 3)).toBe(true);
    for (const answer of await Promise.all(short)) expect(isAll(answer, 4)).toBe(true);
    expect([...lengths].sort((a, b) => a - b)).toEqual([0, 40_000]);
  });
});

// Over the loopback an answer is there at once.
const slowLanes = lanes.filter(({ lane }) => lane !== 'loopback');

describe.each(slowLanes)("memory for an answer over the '$lane'", ({ openPair }) => {
  it('that is transferred while the answer arrives fails its call alone', async () => {
    await using pair = await openPair(limits);
    pair.far.serve(Store, handlers);
    const client = pair.near.client(Store);
    const into = new Uint8Array(1_500_000);
    const filled = client.borrowed(wholly(1_500_000, 3), { into });
    const outcome = expect(filled).rejects.toMatchObject({ code: 'ERR_SIDECALL_LEASE_RELEASED' });
    while (into[0] === 0) await turns(1);
    expect(into.at(-1)).toBe(0); // the answer is half-way
    structuredClone(into, { transfer: [into.buffer] });
    await outcome;
    expect(isAll(await client.careless(wholly(1_500_000, 5)), 5)).toBe(true);
    expect(pair.near.state).toBe('open');
  });
});
