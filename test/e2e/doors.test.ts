// One server, reached in every way: what a caller sees is the same.
import { describe, expect, it } from 'vitest';
import { SidecallError } from '../../src/base/errors.ts';
import { Helper } from '../../src/helper/spawn-helper.ts';
import { type Server, server } from '../../src/open/server.ts';
import type { Client } from '../../src/rpc/contract/method-types.ts';
import { until } from '../support/contract.ts';
import { type Door, doors } from '../support/doors.ts';
import { Everything, handlers, type Kinds } from './programs/everything.mjs';

async function withDoor(
  door: Door,
  body: (client: Client<Kinds>, app: Server) => Promise<void>,
): Promise<void> {
  await using app = server();
  app.serve(Everything, handlers());
  const caller = await door.open(app);
  try {
    await body(caller.client(Everything), app);
  } finally {
    await caller.close();
  }
}

async function collected<T>(values: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const value of values) all.push(value);
  return all;
}

describe.each(doors)('a server at $name', (door) => {
  it('answers calls of all kinds', async () => {
    await withDoor(door, async (client) => {
      expect(await client.add({ a: 1, b: 2 })).toEqual({ sum: 3 });
      expect(await client.who()).toEqual({ origin: door.origin, hasDeadline: false });
      const large = Buffer.alloc(1_000_000, 'abc');
      expect(Buffer.from(await client.bytes(large)).equals(large)).toBe(true);
      expect(await client.bytes(new Uint8Array(0))).toHaveLength(0);
      expect(await collected(client.count(500))).toEqual(
        Array.from({ length: 500 }, (_, at) => at),
      );
      expect(await client.sum([1, 2, 3])).toBe(6);
      const sum = client.sum();
      await sum.send(20);
      await sum.send(22);
      expect(await sum.end()).toBe(42);
      expect(await collected(client.shout(['a', 'ä']))).toEqual(['A', 'Ä']);
      const shout = client.shout();
      await shout.send('one');
      expect(await shout.next()).toEqual({ done: false, value: 'ONE' });
      await shout.send('two');
      await shout.end();
      expect(await collected(shout)).toEqual(['TWO']);
      await client.tell('a word');
      await until(async () => (await client.told()).told.length === 1);
      expect((await client.told()).told).toEqual(['a word']);
    });
  });

  it('answers in a buffer of the caller, from a request that is borrowed', async () => {
    await withDoor(door, async (client) => {
      const into = Buffer.alloc(500_000);
      for (const size of [0, 10, 5_000, 300_000]) {
        const sent = Buffer.alloc(size, 'borrowed');
        const answer = await client.borrowed(sent, { into });
        expect(Buffer.compare(answer, sent)).toBe(0);
        expect(answer.buffer).toBe(into.buffer);
      }
    });
  });

  it('a hundred calls at once are answered, each with its own', async () => {
    await withDoor(door, async (client) => {
      const calls = Array.from({ length: 100 }, (_, a) => client.add({ a, b: 1 }));
      const sums = (await Promise.all(calls)).map(({ sum }) => sum);
      expect(sums).toEqual(Array.from({ length: 100 }, (_, a) => a + 1));
    });
  });

  it('metadata, headers and trailers travel', async () => {
    await withDoor(door, async (client) => {
      const seen: unknown[] = [];
      const metadata = { token: 'right', 'trace-bin': new Uint8Array([0, 255]) };
      await client.add(
        { a: 1, b: 2 },
        {
          metadata,
          onHeaders: (headers) => seen.push({ ...headers }),
          onTrailers: (trailers) => seen.push({ ...trailers }),
        },
      );
      const [headers, trailers] = seen as Record<string, unknown>[];
      expect(Object.keys(headers as object).sort()).toEqual(['early', 'early-bin']);
      expect([...(headers?.['early-bin'] as Uint8Array)]).toEqual([1, 2]);
      expect(trailers).toEqual({ late: 'right' });
    });
  });

  it('what a handler says is what the caller hears', async () => {
    await withDoor(door, async (client) => {
      for (const status of ['not_found', 'unavailable', 'internal', 'cancelled'] as const) {
        await expect(client.fail(status)).rejects.toMatchObject({
          code: 'ERR_SIDECALL_RPC',
          status,
          message: `test.Everything.fail: said ${status}, ä€`,
          rawMessage: `said ${status}, ä€`,
          details: { status },
          metadata: { hint: 'two' },
          delivered: 'yes',
        });
      }
      await expect(client.fail(undefined)).rejects.toMatchObject({
        code: 'ERR_SIDECALL_RPC',
        status: 'internal',
      });
    });
  });

  it('a deadline and a cancel reach the handler, and each call settles once', async () => {
    await withDoor(door, async (client) => {
      await expect(client.wait('late', { timeoutMs: 200 })).rejects.toMatchObject({
        code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
      });
      const reason = new Error('no longer');
      const controller = new AbortController();
      const call = client.wait('cancelled', { signal: controller.signal });
      await until(async () => (await client.told()).started.includes('cancelled'));
      controller.abort(reason);
      await expect(call).rejects.toBe(reason);
      for await (const at of client.endless('left')) if (at === 1_000) break;
      const stopping = new AbortController();
      const stopped = async (): Promise<void> => {
        const stream = client.endless('stopped', { signal: stopping.signal });
        for await (const at of stream) if (at === 1_000) stopping.abort(reason);
      };
      await expect(stopped()).rejects.toBe(reason);
      // A deadline may pass before its handler starts: such a handler never does.
      const { started } = await client.told();
      expect(started).toEqual(expect.arrayContaining(['cancelled', 'left', 'stopped']));
      await until(async () => (await client.told()).ended.length === started.length);
      expect((await client.told()).ended.sort()).toEqual(started.sort());
    });
  });

  it('what cannot be encoded, and what is not served, fail alone', async () => {
    await withDoor(door, async (client) => {
      await expect(client.add(10n as never)).rejects.toMatchObject({
        code: 'ERR_SIDECALL_ENCODE',
        delivered: 'no',
      });
      await expect(client.add({ a: 1, b: 1 }, { timeoutMs: 0 })).rejects.toMatchObject({
        code: 'ERR_SIDECALL_DEADLINE_EXCEEDED',
        delivered: 'no',
      });
    });
  });
});

const withoutMemory = doors.filter(({ socketReasons }) => socketReasons !== undefined);

describe.each(withoutMemory)('a session with $name', ({ open, socketReasons = [] }) => {
  it('is on the socket lane, and each side says why', async () => {
    const helper = await open(server());
    try {
      if (!(helper instanceof Helper)) throw new Error('this is no helper');
      const reasons = [helper.session.laneReason, await helper.session.call('test.Lane.reason')];
      expect(helper.session.lane).toBe('socket');
      expect(reasons).toEqual(socketReasons.map((reason) => expect.stringContaining(reason)));
    } finally {
      await helper.close();
    }
  });
});

const here = doors.filter(({ isElsewhere }) => isElsewhere !== true);

describe.each(here)('the server at $name', (door) => {
  it('serves at once what is served later, and no more what is not', async () => {
    await withDoor(door, async (client, app) => {
      app.unserve(Everything);
      await expect(client.add({ a: 1, b: 2 })).rejects.toMatchObject({ status: 'unimplemented' });
      app.serve(Everything, handlers());
      expect(await client.add({ a: 1, b: 2 })).toEqual({ sum: 3 });
    });
  });

  it('one close ends it: calls under way are answered, new ones refused', async () => {
    const app = server();
    let started = 0;
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const add = async ({ a, b }: { a: number; b: number }): Promise<{ sum: number }> => {
      started += 1;
      await released;
      return { sum: a + b };
    };
    app.serve(Everything, { ...handlers(), add });
    const caller = await door.open(app);
    const client = caller.client(Everything);
    expect(app.openCount).toBe(1);
    const running = Array.from({ length: 20 }, (_, a) => client.add({ a, b: 1 }));
    await until(() => started === 20);
    const closing = app.close();
    release();
    expect((await Promise.all(running)).map(({ sum }) => sum)).toHaveLength(20);
    await closing;
    await app.closed;
    expect(app.openCount).toBe(0);
    const refused: unknown = await client.add({ a: 1, b: 1 }).catch((error: unknown) => error);
    expect(SidecallError.is(refused) && refused.retryable, String(refused)).toBe(true);
    expect((refused as SidecallError).delivered).toBe('no');
    await caller.close();
  });
});
