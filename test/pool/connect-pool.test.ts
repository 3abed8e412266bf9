// Pools of connections with one listener.
import { describe, expect, it } from 'vitest';
import { SidecallError } from '../../src/base/errors.ts';
import { connectPool } from '../../src/pool/connect-pool.ts';
import { type ListenOptions, listen } from '../../src/rendezvous/listen.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { until } from '../support/contract.ts';
import { scratchDirectory } from '../support/programs.ts';
import { Work } from '../support/work.ts';

async function serve(path: string, name: string, options: Omit<ListenOptions, 'path'> = {}) {
  const listener = await listen({ path, ...options });
  const seen: number[] = [];
  const peers = new Set<unknown>();
  listener.serve(
    Work,
    {
      take: async ({ id, ms = 0 }, { peer }) => {
        peers.add(peer);
        seen.push(id);
        if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
        return { id, name, pid: process.pid };
      },
    },
    { partial: true },
  );
  return { listener, seen, peers };
}

describe('connectPool()', () => {
  it('opens its sessions, spreads calls, and moves to a listener that follows', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const first = await serve(path, 'first');
    const pool = await connectPool({ path, size: 4 });
    const work = pool.client(Work);
    await Promise.all(Array.from({ length: 400 }, (_, id) => work.take({ id, ms: 1 })));
    for (const { begun } of pool.stats().members) expect(Math.abs(begun - 100)).toBeLessThan(11);
    expect(first.peers.size).toBe(4);
    let isOver = false;
    const made: number[] = [];
    let id = 1_000;
    const callers = Array.from({ length: 8 }, async () => {
      while (!isOver) {
        id += 1;
        const mine = id;
        made.push((await work.take({ id: mine, ms: 1 })).id);
      }
    });
    await until(() => made.length > 50);
    const closing = first.listener.close({ deadlineMs: 600_000 });
    await closing;
    const second = await serve(path, 'second');
    await until(() => pool.state.open === 4);
    const before = made.length;
    await until(() => made.length > before + 50);
    isOver = true;
    await Promise.all(callers);
    const seen = [...first.seen, ...second.seen].filter((item) => item > 1_000);
    expect(seen.toSorted((a, b) => a - b)).toEqual(made.toSorted((a, b) => a - b)); // each once
    await pool.stop();
    await second.listener.close();
  });

  it('gives no call to a member whose session has died, until it has another one', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    let isOpen = true;
    const { listener, peers } = await serve(path, 'only', { authorize: () => isOpen });
    const pool = await connectPool({ path, size: 4, reconnect: { firstMs: 5, maxMs: 10 } });
    const work = pool.client(Work);
    await Promise.all(Array.from({ length: 40 }, (_, id) => work.take({ id, ms: 1 })));
    isOpen = false;
    (pool.session() as Session).terminate(new SidecallError('ERR_SIDECALL_PEER_GONE'));
    await until(() => pool.state.open === 3);
    peers.clear();
    const during = Array.from({ length: 60 }, (_, id) => work.take({ id, ms: 1 }));
    expect(await Promise.all(during)).toHaveLength(60); // none of them fails
    expect(peers.size).toBe(3);
    isOpen = true;
    await until(() => pool.state.open === 4);
    await pool.stop();
    await listener.close();
  });

  it('has options of its own, beside another pool in the same process', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const { listener } = await serve(path, 'only');
    await using small = await connectPool({ path, size: 1, limits: { receiveMaxBytes: 1024 } });
    await using large = await connectPool({ path, size: 3, lane: 'socket' });
    const [ofSmall, ofLarge] = [small.client(Work), large.client(Work)];
    const both = [...Array(50).keys()].flatMap((id) => [
      ofSmall.take({ id }),
      ofLarge.take({ id: id + 100 }),
    ]);
    expect(await Promise.all(both)).toHaveLength(100);
    expect([small.stats().members.length, large.stats().members.length]).toEqual([1, 3]);
    expect([small.session().lane, large.session().lane]).toEqual(['ring', 'socket']);
    await small.stop();
    expect(await ofLarge.take({ id: 7 })).toMatchObject({ id: 7 });
    await large.stop();
    await listener.close();
  });

  it('opens all, or none', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    await expect(connectPool({ path, size: 4 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_NO_LISTENER',
    });
    const { listener } = await serve(path, 'only');
    const few = await listen({ path: directory.file('few'), limits: {}, sessionsPerProcessMax: 2 });
    await expect(connectPool({ path: directory.file('few'), size: 4 })).rejects.toMatchObject({
      retryable: true,
    });
    await few.close();
    await expect(connectPool({ path, size: 0 })).rejects.toThrow(RangeError);
    await expect(connectPool({ path, reconnect: false as never })).rejects.toThrow(TypeError);
    const unset = await connectPool({ path, size: 1, reconnect: undefined });
    expect(await unset.client(Work).take({ id: 1 })).toMatchObject({ name: 'only' });
    await unset.stop();
    await expect(connectPool(path as never)).rejects.toThrow(TypeError);
    await listener.close();
  });

  it('ends when every member has given up', async () => {
    using directory = scratchDirectory();
    const path = directory.file('socket');
    const { listener } = await serve(path, 'only');
    const pool = await connectPool({ path, size: 2, reconnect: { giveUpMs: 100 } });
    await listener.close();
    expect(await pool.ended).toMatchObject({ code: 'ERR_SIDECALL_NO_LISTENER' });
    await expect(pool.client(Work).take({ id: 1 })).rejects.toMatchObject({
      code: 'ERR_SIDECALL_NO_LISTENER',
    });
    expect(() => pool.session()).toThrow('given up');
    await pool.stop();
  });
});
