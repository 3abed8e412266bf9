// Leases of the receiver in shared memory, and a peer that lies about blocks.

import { once } from 'node:events';
import { mkdtemp, open as openFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import protobufjs from 'protobufjs';
import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import type { SessionOptions } from '../../src/open/session-options.ts';
import { listen } from '../../src/rendezvous/listen.ts';
import { type Lease, leased } from '../../src/rpc/contract/leases.ts';
import { clientStream, service, unary } from '../../src/rpc/contract/service.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { canary } from '../support/canary.ts';
import { Demo, demoHandlers, until } from '../support/contract.ts';
import { countMaps } from '../support/leaks.ts';
import { fill, LeaseCalls, leaseHandlers, sumOf } from '../support/lease-calls.ts';
import { openRingPair, type Pair } from '../support/pairs.ts';
import { ringPeerProgram, startProgram } from '../support/programs.ts';
import { addonWith, collectUntil, inPlace, KiB, MiB, native } from '../support/ring-leases.ts';
import { rounds } from '../support/rounds.ts';

describe('leases of the receiver', () => {
  const Drain = service('Drain', {
    upload: clientStream<Lease, { messages: number }, ReturnType<Session['allocate']> | Uint8Array>(
      {
        request: leased,
      },
    ),
  });

  it('count in the window of their stream until they go back', async () => {
    const limits = { streamWindowBytes: 64 * KiB };
    await using pair = await openRingPair({ ...inPlace, limits }, { ...inPlace, limits });
    const held: Lease[] = [];
    pair.far.serve(Drain, {
      async upload(leases) {
        let messages = 0;
        for await (const lease of leases) {
          held.push(lease);
          messages += 1;
        }
        return { messages };
      },
    });
    const call = pair.near.client(Drain).upload();
    let sent = 0;
    const sending = (async () => {
      for (let at = 0; at < 12; at += 1) {
        await call.send(pair.near.allocate(32 * KiB));
        sent += 1;
      }
    })();
    await until(() => held.length === 2);
    await sleep(50);
    expect(held).toHaveLength(2); // the window, and what goes beyond it of the last message
    expect(sent).toBe(2);
    for (let at = 0; at < 12; at += 1) {
      await until(() => held.length > at);
      held[at]?.release();
    }
    await sending;
    expect(await call.end()).toEqual({ messages: 12 });
  });

  it('go back when they were collected; a view keeps them', async () => {
    await using pair = await openRingPair(inPlace, inPlace);
    pair.far.serve(LeaseCalls, leaseHandlers());
    const receive = async (): Promise<Lease['bytes']> => {
      const lease = await pair.near.client(LeaseCalls).raise(pair.near.allocate(8192));
      expect(lease.copied).toBe(false);
      return lease.bytes;
    };
    let view: Lease['bytes'] | undefined = await receive();
    const sum = sumOf(view);
    await receive();
    await collectUntil(() => pair.far.stats().blocks.inUse === 1);
    expect(sumOf(view)).toBe(sum);
    view = undefined;
    await collectUntil(() => pair.far.stats().blocks.inUse === 0);
  });

  it('outlive their session, and are unmapped when the last view was collected', async () => {
    const before = countMaps();
    const view = await (async () => {
      await using pair = await openRingPair(inPlace, inPlace);
      pair.far.serve(LeaseCalls, leaseHandlers());
      const block = pair.near.allocate(300_000);
      const kept = pair.near.allocate(5000); // never sent
      fill(block.bytes, 1);
      const lease = await pair.near.client(LeaseCalls).raise(block);
      return { lease, own: kept.bytes };
    })();
    await collectUntil(() => countMaps() - before === 2); // what the other end had goes by itself
    for (let round = 0; round < 3; round += 1) {
      globalThis.gc?.();
      await sleep(5);
    }
    expect(countMaps() - before).toBe(2);
    expect(sumOf(view.lease.bytes)).toBe(fill(new Uint8Array(300_000), 2));
    view.own.fill(1);
    view.lease.release();
    expect(() => view.lease.bytes).toThrow();
    Object.assign(view, { lease: undefined, own: undefined });
    await collectUntil(() => countMaps() === before);
  });

  it('may be written to a file while they are released and the session ends', async () => {
    const path = join(tmpdir(), 'written');
    await writeFile(path, '');
    const file = await openFile(path, 'w');
    for (let round = 0; round < rounds(50, 10); round += 1) {
      await using pair = await openRingPair(inPlace, inPlace);
      pair.far.serve(LeaseCalls, leaseHandlers());
      const lease = await pair.near.client(LeaseCalls).raise(pair.near.allocate(500_000));
      const writing = file.write(lease.bytes as never, 0, 500_000, 0);
      lease.release();
      await pair.near.close();
      globalThis.gc?.();
      expect((await writing).bytesWritten).toBe(500_000);
    }
    await file.close();
    await rm(path);
  });

  it('are copies where the host refuses external buffers, and blocks are ordinary memory', async () => {
    const refusing = addonWith({ ringArea: () => undefined });
    await using pair = await openRingPair(inPlace, inPlace, refusing);
    pair.far.serve(LeaseCalls, leaseHandlers());
    for (let round = 0; round < 30; round += 1) {
      const block = pair.near.allocate(100_000);
      expect(block.inPlace).toBe(false);
      const sum = fill(block.bytes, round);
      const expected = block.bytes.map((byte) => (byte + 1) & 0xff);
      using lease = await pair.near.client(LeaseCalls).raise(block);
      expect(lease.copied).toBe(true);
      expect(sumOf(lease.bytes)).not.toBe(sum);
      expect(Buffer.from(lease.bytes)).toEqual(Buffer.from(expected));
    }
    await until(() => pair.far.stats().blocks.inUse === 0); // each went back as soon as it was copied
  });

  it('that were copies may be written to a file while they are released, however long', async () => {
    const limits = { receiveMaxBytes: 33 * MiB };
    const directory = await mkdtemp(join(tmpdir(), 'copies-'));
    const file = await openFile(join(directory, 'written'), 'w');
    await using pair = await openRingPair({ limits }, { limits });
    pair.far.serve(LeaseCalls, leaseHandlers({ raise: () => new Uint8Array(32 * MiB).fill(3) }));
    const lease = await pair.near.client(LeaseCalls).raise(new Uint8Array(1));
    expect(lease.copied).toBe(true);
    const writing = file.write(lease.bytes as never, 0, 32 * MiB, 0);
    lease.release();
    globalThis.gc?.();
    expect((await writing).bytesWritten).toBe(32 * MiB);
    await file.close();
    await rm(directory, { recursive: true });
  });

  it('a protobuf message is written straight into its block', async () => {
    const Point = new protobufjs.Type('Point').add(new protobufjs.Field('text', 1, 'string'));
    await using pair = await openRingPair(inPlace, inPlace);
    const seen: unknown[] = [];
    pair.far.serve(
      LeaseCalls,
      leaseHandlers({
        take: ({ bytes: view, copied }) => {
          seen.push(Point.decode(Buffer.from(view)).toJSON());
          return { sum: 0, copied };
        },
      }),
    );
    const text = 'é'.repeat(5000);
    const writer = Point.encode({ text });
    const block = pair.near.allocate(writer.len);
    expect(block.inPlace).toBe(true);
    writer.finishInto(block.bytes, 0);
    expect(await pair.near.client(LeaseCalls).take(block)).toEqual({ sum: 0, copied: false });
    expect(seen).toEqual([{ text }]);
  });

  it('of sessions that ended take no ring from those that follow', async () => {
    const options: SessionOptions = { leases: 'copy', blockAreaBytes: 64 * MiB, lane: 'auto' };
    const kept: unknown[] = [];
    for (let round = 0; round < 20; round += 1) {
      await using pair = await openRingPair(options, {});
      expect(pair.near.lane, pair.near.laneReason).toBe('ring');
      pair.far.serve(LeaseCalls, leaseHandlers());
      const block = pair.near.allocate(1000);
      kept.push(block, block.bytes);
      await pair.near.client(LeaseCalls).take(block);
    }
    kept.length = 0;
  });

  it('may be held for long while others go on', async () => {
    await using pair = await openRingPair(inPlace, inPlace);
    pair.far.serve(LeaseCalls, leaseHandlers());
    const held = await pair.near.client(LeaseCalls).raise(pair.near.allocate(4096));
    const sum = sumOf(held.bytes);
    for (let round = 0; round < 2000; round += 1) {
      using lease = await pair.near.client(LeaseCalls).raise(pair.near.allocate(4096));
      expect(lease.copied).toBe(false);
    }
    expect(sumOf(held.bytes)).toBe(sum);
    held.release();
    await until(() => pair.far.stats().blocks.inUse === 0);
  });

  it('a store through a cast is a fault of our own process, and of no other', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'store-'));
    await using program = startProgram('lease-store.mjs', [join(directory, 'socket')]);
    expect(await program.next()).toEqual({ copied: false, byte: 0 });
    expect(await program.exited).toMatchObject({ code: null, signal: 'SIGSEGV' });
    await rm(directory, { recursive: true });
  });

  it('end with their worker', async () => {
    await using listener = await listen(inPlace);
    listener.serve(LeaseCalls, leaseHandlers());
    for (let round = 0; round < rounds(20, 6); round += 1) {
      const worker = new Worker(
        `const { parentPort, workerData } = require('node:worker_threads');
         import(${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)}).then(async (all) => {
           const { connect, leased, service, unary } = all;
           const LeaseCalls = service('LeaseCalls', { raise: unary({ request: leased, response: leased }) });
           const session = await connect({ path: workerData.path, ...workerData.options });
           const kept = [];
           for (;;) {
             kept.push(await session.client(LeaseCalls).raise(session.allocate(5000)));
             if (kept.length === 20) parentPort.postMessage(kept.some((lease) => lease.copied));
           }
         });`,
        { eval: true, workerData: { path: listener.path, options: inPlace } },
      );
      const [isCopied] = await once(worker, 'message');
      expect(isCopied).toBe(false);
      await worker.terminate();
    }
    await until(() => listener.sessionCount === 0);
    await collectUntil(() => native.ringMemoryBytes() === 0);
  });
});

describe('a peer that lies about blocks', () => {
  const Flow = service('Flow', {
    put: unary<Lease, { ok: boolean }, Uint8Array>({ request: leased }),
  });

  interface Scene extends AsyncDisposable {
    readonly events: SidecallEvent[];
    readonly leases: Lease[];
    readonly attack: (act: string) => ReturnType<typeof startProgram>;
    readonly neighbour: Pair;
  }

  async function scene(leases: 'off' | 'copy' | 'in-place-trusted'): Promise<Scene> {
    const events: SidecallEvent[] = [];
    const seen: Lease[] = [];
    const listener = await listen({ leases, onEvent: (event) => events.push(event) });
    listener.serve(Flow, {
      put: (lease) => {
        seen.push(lease.keep());
        return { ok: true };
      },
    });
    const neighbour = await openRingPair(inPlace, inPlace);
    neighbour.far.serve(Demo, demoHandlers());
    return {
      events,
      leases: seen,
      neighbour,
      attack: (act) =>
        startProgram('ring_peer', [listener.path, act], { command: ringPeerProgram }),
      [Symbol.asyncDispose]: async () => {
        await neighbour[Symbol.asyncDispose]();
        await listener.close();
      },
    };
  }

  it.each([
    ['block-outside', 'in-place-trusted'],
    ['block-outside', 'copy'],
    ['block-misaligned', 'in-place-trusted'],
    ['block-id', 'in-place-trusted'],
    ['block-twice', 'in-place-trusted'],
    ['block-release', 'copy'],
    ['block-honest', 'off'],
  ] as const)('%s (leases: %s) is RING_CORRUPT', async (act, mode) => {
    await using at = await scene(mode);
    const watch = canary(at.neighbour.near);
    await using attacker = at.attack(act);
    expect(await attacker.next()).toEqual({ verdict: 0 });
    await until(() => at.events.length > 0);
    expect(at.events).toMatchObject([
      { type: 'session-failed', error: { code: 'ERR_SIDECALL_RING_CORRUPT' } },
    ]);
    await watch.stop();
    expect(at.neighbour.near.state).toBe('open');
    for (const lease of at.leases) lease.release();
  });

  it.each(['block-length', 'block-frame'])('%s is PROTOCOL', async (act) => {
    await using at = await scene('in-place-trusted');
    await using attacker = at.attack(act);
    expect(await attacker.next()).toEqual({ verdict: 0 });
    await until(() => at.events.length > 0);
    expect(at.events).toMatchObject([
      { type: 'session-failed', error: { code: 'ERR_SIDECALL_PROTOCOL' } },
    ]);
    expect(at.leases).toHaveLength(0);
  });

  it('can change what lies in its memory, and nothing that was copied', async () => {
    await using at = await scene('copy');
    await using attacker = at.attack('block-changes');
    await attacker.next();
    await until(() => at.leases.length === 1);
    const [lease] = at.leases as [Lease];
    expect(lease.copied).toBe(true);
    const sum = sumOf(lease.bytes);
    for (let look = 0; look < 20; look += 1) {
      await sleep(10);
      expect(sumOf(lease.bytes)).toBe(sum);
    }
    lease.release();
  });

  it('in place its changes are seen: that is what naming it trusted means', async () => {
    await using at = await scene('in-place-trusted');
    await using attacker = at.attack('block-changes');
    await attacker.next();
    await until(() => at.leases.length === 1);
    const [lease] = at.leases as [Lease];
    expect(lease.copied).toBe(false);
    const first = sumOf(lease.bytes);
    await until(() => sumOf(lease.bytes) !== first);
    lease.release();
  });

  it('its death leaves the lease readable', async () => {
    await using at = await scene('in-place-trusted');
    await using attacker = at.attack('block-dies');
    await attacker.next();
    await attacker.exited;
    await until(() => at.events.length > 0);
    const [lease] = at.leases as [Lease];
    expect(lease.copied).toBe(false);
    expect(lease.byteLength).toBe(128 * KiB);
    expect(lease.bytes.every((byte: number) => byte === 7)).toBe(true);
    lease.release();
    at.leases.length = 0;
  });
});
