// A peer that stands still ends the session by `stallTimeoutMs`; one that is slow does not. In
// virtual time, so that minutes of standing still are exact.
import { describe, expect, it } from 'vitest';
import type { SidecallError } from '../../../src/base/errors.ts';
import { bytes } from '../../../src/rpc/contract/codec.ts';
import { clientStream, notification, service, unary } from '../../../src/rpc/contract/service.ts';
import { type StallParts, StallTimeout } from '../../../src/rpc/session/stall-timeout.ts';
import { simulate } from '../../../src/testing/simulation/simulate.ts';
import type { Simulation } from '../../../src/testing/simulation/simulation-types.ts';
import { rounds } from '../../support/rounds.ts';

const Work = service('Work', {
  echo: unary({ request: bytes, response: bytes }),
  note: notification({ request: bytes }),
  put: clientStream({ request: bytes }),
});
const stallTimeoutMs = 4_000;
const lanes = ['ring', 'socket'] as const;
const seeds = Array.from({ length: rounds(25, 8) }, (_, at) => at + 1);

const Slow = service('Slow', { work: unary({ request: bytes, response: bytes }) });

/** A session whose near end watches the far one, which reads a stream at its own pace. */
function connected(simulation: Simulation, readPauseMs = 0, isMutual = false) {
  const [app, helper] = [simulation.process('app'), simulation.process('helper')];
  const { near, far } = simulation.connect(app, helper, {
    near: { stallTimeoutMs },
    ...(isMutual ? { far: { stallTimeoutMs } } : {}),
  });
  far.serve(Work, {
    echo: (request) => request,
    note: () => undefined,
    async put(messages) {
      let count = 0;
      for await (const _ of messages) {
        count += 1;
        await helper.sleep(readPauseMs);
      }
      return { count };
    },
  });
  return { app, helper, near, far, client: near.client(Work) };
}

const runsOver = <T>(lane: 'ring' | 'socket', run: (simulation: Simulation) => Promise<T>) =>
  Promise.all(seeds.map((seed) => simulate({ seed, lane, run })));

describe.each(lanes)('stallTimeoutMs over the %s', (lane) => {
  const runs = <T>(run: (simulation: Simulation) => Promise<T>) => runsOver(lane, run);

  it.each([
    ['a call', 100],
    ['more than the lane holds', 4_000_000],
  ])('ends the session where the peer is stopped before %s', async (_, size) => {
    await runs(async (simulation) => {
      const { app, helper, near, client } = connected(simulation);
      await client.echo(new Uint8Array(1));
      await app.sleep(simulation.nowMs + (near.peer.pid ?? 0) * 37);
      helper.stop();
      const since = simulation.nowMs;
      const failure = client.echo(new Uint8Array(size)).catch((error: SidecallError) => error);
      expect(await failure).toMatchObject({
        code: 'ERR_SIDECALL_PEER_UNRESPONSIVE',
        delivered: 'unknown',
        retryable: true,
        message: expect.stringContaining('stallTimeoutMs'),
      });
      const tookMs = simulation.nowMs - since;
      expect(tookMs).toBeGreaterThanOrEqual(stallTimeoutMs);
      expect(tookMs).toBeLessThanOrEqual(1.25 * stallTimeoutMs + 1_100);
    });
  });

  it.each([
    ['while nothing that was sent is untaken', false, 3],
    ['for the answers to pings, where both ends watch', true, 6],
  ])('sends no ping %s', async (_when, isMutual, times) => {
    for (const seed of seeds) {
      const pings: number[] = [];
      await simulate({
        seed,
        lane,
        onTrace: (line) => {
          if (/sends ping/.test(line)) pings.push(Number.parseFloat(line));
        },
        async run(simulation) {
          const { app, client, near } = connected(simulation, 0, isMutual);
          await client.echo(new Uint8Array(1));
          await app.sleep(600_000);
          expect(near.state).toBe('open');
        },
      });
      expect(pings.length).toBeGreaterThan(0);
      expect(Math.max(...pings)).toBeLessThan(times * stallTimeoutMs);
    }
  });

  it('never ends the session of a peer that works off a burst, a call at a time', async () => {
    await runs(async (simulation) => {
      const { helper, near, far, client } = connected(simulation);
      let turn = 0;
      let computedMs = 0;
      far.serve(Slow, {
        work: (request) => {
          // Calls of one turn compute one after the other.
          computedMs = simulation.nowMs === turn ? computedMs + 10 : 10;
          turn = simulation.nowMs;
          helper.block(computedMs);
          return request;
        },
      });
      await client.echo(new Uint8Array(1));
      const calls = Array.from({ length: 1_500 }, (_, at) => new Uint8Array(at % 99));
      const { work } = near.client(Slow);
      expect(await Promise.all(calls.map((request) => work(request)))).toHaveLength(1_500);
      expect(near.state).toBe('open');
    });
  });

  it('goes on where an idle peer is stopped, until something is sent', async () => {
    await runs(async (simulation) => {
      const { app, helper, near, client } = connected(simulation);
      await client.echo(new Uint8Array(1));
      await app.sleep(20_000);
      helper.stop();
      await app.sleep(60_000);
      expect(near.state).toBe('open');
      await expect(client.echo(new Uint8Array(1))).rejects.toThrow('taken nothing');
    });
  });

  it('never ends the session of a peer that computes for less, again and again', async () => {
    await runs(async (simulation) => {
      const { app, helper, near, client } = connected(simulation);
      for (let round = 0; round < 40; round += 1) {
        helper.block(stallTimeoutMs * 0.95);
        const size = round % 4 === 0 ? 1_000_000 : 100;
        await Promise.all([client.echo(new Uint8Array(size)), client.note(new Uint8Array(64))]);
        await app.sleep(round * 7);
      }
      expect(near.state).toBe('open');
    });
  });

  it('never ends a session while the answer waits to be read by a busy process', async () => {
    await runs(async (simulation) => {
      const { app, helper, near, client } = connected(simulation);
      for (let round = 0; round < 60; round += 1) {
        helper.block(0.97 * stallTimeoutMs);
        const answer = client.echo(new Uint8Array(100));
        await app.sleep(0.8 * stallTimeoutMs + round * 11);
        app.block(950);
        await answer;
      }
      expect(near.state).toBe('open');
    });
  });

  it('never ends a session because its own process was stopped or computed', async () => {
    await runs(async (simulation) => {
      const { app, helper, near, far, client } = connected(simulation);
      near.serve(Work, {
        echo: (request) => request,
        note: () => undefined,
        put: async () => ({}),
      });
      const feed = async (): Promise<void> => {
        for (let sent = 0; sent < 40; sent += 1) {
          await far.client(Work).echo(new Uint8Array(100_000));
          await helper.sleep(300);
        }
      };
      const fed = feed();
      for (let round = 0; round < 6; round += 1) {
        const answer = client.echo(new Uint8Array(100));
        app.stop();
        simulation.fault({ kind: 'sleep', atMs: 1, forMs: 7 * stallTimeoutMs });
        await helper.sleep(3 * stallTimeoutMs);
        app.resume();
        await answer;
        app.block(2.5 * stallTimeoutMs);
        await app.sleep(500);
      }
      await fed;
      expect(near.state).toBe('open');
    });
  });

  it('never ends the session of a reader that takes a message in a minute', async () => {
    await runs(async (simulation) => {
      const { near, client } = connected(simulation, 60_000);
      const call = client.put({ windowBytes: 1 });
      for (let sent = 0; sent < 12; sent += 1) await call.send(new Uint8Array(64_000));
      expect(await call.end()).toEqual({ count: 12 });
      expect(near.state).toBe('open');
    });
  });
});

describe('stallTimeoutMs', () => {
  it('never ends the session of a peer that computes in each turn of its loop', async () => {
    await runsOver('ring', async (simulation) => {
      const { helper, near, client } = connected(simulation);
      let isSent = false;
      const computing = async (): Promise<void> => {
        while (!isSent) {
          helper.block(0.45 * stallTimeoutMs);
          await helper.sleep(1);
        }
      };
      const computed = computing();
      await client.echo(new Uint8Array(3_000_000));
      isSent = true;
      await computed;
      expect(near.state).toBe('open');
    });
  });

  it.each([
    ['a ping', { outSince: undefined, unfinishedSince: undefined }],
    ['the rest of a frame', { outSince: undefined, unfinishedSince: undefined }],
    ['what waits for a turn of ours', { isBehind: true }],
  ])('spares a peer of which %s is read in the turn in which its time is over', (what, read) => {
    const since = what === 'the rest of a frame' ? { unfinishedSince: 0 } : { outSince: 0 };
    expect(failuresOf(since, read)).toEqual([]);
  });

  it.each([
    ['has taken nothing of what was sent to it', { outSince: 0 }],
    ['has not finished a frame that it began', { unfinishedSince: 0 }],
  ])('names a peer that %s', (text, since) => {
    expect(failuresOf(since, {})).toEqual([expect.stringContaining(text)]);
  });
});

interface Seen {
  readonly outSince?: number | undefined;
  readonly unfinishedSince?: number | undefined;
  readonly isBehind?: boolean;
}

/**
 * The ends of a session whose peer stands still from the beginning on; `read`: what is read in the
 * turn in which its time is over.
 */
function failuresOf(standing: Seen, read: Seen): string[] {
  const due: (() => void)[] = [];
  const failures: string[] = [];
  const { outSince } = standing;
  const pings = { outSince, answeredPosition: 0, taken: 0, begin: () => undefined };
  const transport = { sentPosition: 0, unfinishedSince: standing.unfinishedSince };
  let nowMs = 0;
  let isDecided = false;
  const clock = {
    nowMs: () => nowMs,
    setTimeout: (then: (...args: unknown[]) => void, ms: number, ...args: unknown[]) => {
      due.push(() => {
        nowMs += ms;
        then(...args);
      });
      return { unref: () => undefined };
    },
    setImmediate: (then: () => void) => {
      if ('outSince' in read) Object.assign(pings, { outSince: read.outSince });
      if ('unfinishedSince' in read || 'isBehind' in read) Object.assign(transport, read);
      then();
      isDecided = true;
    },
  };
  const sendQueue = { departed: { count: 0 }, isEmpty: true, isHeld: false };
  const shared = { clock, transport, sendQueue, isClosed: false };
  const closed = new Promise(() => undefined);
  const fail = (error: SidecallError): unknown => failures.push(error.message);
  new StallTimeout(stallTimeoutMs, { shared, pings, closed, fail } as unknown as StallParts);
  for (let turn = 0; turn < 10 && !isDecided; turn += 1) due.shift()?.();
  expect(nowMs).toBe(stallTimeoutMs);
  return failures;
}
