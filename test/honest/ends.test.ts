// Sessions and waits end by a stated time.
import { describe, expect, it } from 'vitest';
import { checkLimits } from '../../src/base/limits/option-limits.ts';
import { Session } from '../../src/rpc/session/session.ts';
import { FrameType } from '../../src/wire/frame-header.ts';
import { loopbackPair } from '../../src/wire/loopback-transport.ts';
import { Demo, demoHandlers, turns, until } from '../support/contract.ts';
import { hostilePeer } from '../support/hostile.ts';
import { openLoopback } from '../support/pairs.ts';
import { SteeredClock } from '../support/steered-clock.ts';

describe('a session', () => {
  it('F3 whose peer says goaway and never closes is closed by us', async () => {
    const peer = hostilePeer();
    peer.session.serve(Demo, demoHandlers());
    peer.send(peer.write.goaway(0));
    await until(() => peer.session.state === 'draining');
    expect(await peer.session.closed).toBeUndefined();
    expect(peer.heard.filter(({ type }) => type === FrameType.goaway)).toHaveLength(2);
  });

  it('F3 is idle although a request stopped arriving half-way', async () => {
    const [ours, raw] = loopbackPair();
    const limits = checkLimits(undefined);
    const session = new Session({
      transport: ours,
      peer: openLoopback().near.peer,
      own: limits,
      remote: limits,
      laneReason: 'a test',
      idleTimeoutMs: 50,
    });
    session.serve(Demo, demoHandlers());
    raw.start({
      onFrame: () => undefined,
      placeFor: () => undefined,
      takeAhead: () => false,
      onRoom: () => undefined,
      onEnd: () => undefined,
    });
    const { write } = hostilePeer();
    raw.trySend(write.method(0), 'Demo.same', false);
    const open = { kind: 1, slot: 0, generation: 1, method: 0, timeoutMs: 0xffff_ffff };
    const sizes = { metadataBytes: 0, messageBytes: 1000, windowBytes: 0, sentAt: 0 };
    raw.trySend(write.open({ ...open, ...sizes }), '[', false);
    await turns(3);
    await until(() => session.state !== 'open');
    raw.destroy();
    await session.closed;
  });
});

describe('F3 what waits without any progress', () => {
  it('is named, and told once', async () => {
    const told: unknown[] = [];
    const limits = { near: { streamsMax: 2 }, far: { streamsMax: 2 } };
    const pair = openLoopback({
      ...limits,
      stalledAfterMs: 40,
      onNearEvent: (event) => {
        if (event.type === 'stalled') told.push([event.reason, event.waiting]);
      },
    });
    pair.far.serve(Demo, demoHandlers());
    const stop = new AbortController();
    const calls = [1, 2, 3, 4].map(() =>
      pair.near.client(Demo).hang(undefined, { signal: stop.signal }),
    );
    await turns(2);
    expect(pair.near.stats().waits).toMatchObject({ slot: 2, 'send-queue': 0 });
    await until(() => told.length > 0);
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect(told).toEqual([['slot', 2]]);
    stop.abort(new Error('enough'));
    await Promise.allSettled(calls);
    await Promise.all([pair.near.close(), pair.far.close()]);
  });

  it('is not named for the time in which this process stood still', async () => {
    using clock = new SteeredClock();
    const told: number[] = [];
    const stalledAfterMs = 10_000;
    await using pair = openLoopback({
      far: { streamsMax: 1 },
      stalledAfterMs,
      onNearEvent: (event) => {
        if (event.type === 'stalled') told.push(event.waitedMs);
      },
    });
    pair.far.serve(Demo, demoHandlers());
    const stop = new AbortController();
    const calls = [1, 2].map(() => pair.near.client(Demo).hang(undefined, { signal: stop.signal }));
    await until(() => pair.near.stats().waits.slot === 1);
    clock.advance(3_600_000); // one hour at once: no check was made meanwhile
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(told).toEqual([]);
    while (told.length === 0) {
      clock.advance(stalledAfterMs / 4); // a check each time
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(told[0]).toBeGreaterThanOrEqual(stalledAfterMs);
    expect(told[0]).toBeLessThan(3_600_000);
    stop.abort(new Error('enough'));
    await Promise.allSettled(calls);
  });

  it.each([4, checkLimits(undefined).streamsMax])(
    'is told of calls within calls that wait for each other, at %i streams',
    async (streamsMax) => {
      const told: string[] = [];
      const pair = openLoopback({
        near: { streamsMax },
        far: { streamsMax },
        stalledAfterMs: 40,
        onNearEvent: (event) => {
          if (event.type === 'stalled') told.push(event.reason);
        },
      });
      // Each handler of one side calls the other: as many as may run wait for one more.
      pair.near.serve(
        Demo,
        demoHandlers({
          same: (_, { signal }) => pair.near.client(Demo).add({ a: 1, b: 1 }, { signal }),
        }),
      );
      pair.far.serve(
        Demo,
        demoHandlers({ same: (_, { signal }) => pair.far.client(Demo).same(1, { signal }) }),
      );
      const stop = new AbortController();
      const calls = Array.from({ length: streamsMax }, () =>
        pair.near.client(Demo).same(1, { signal: stop.signal }),
      );
      // A busy machine may take so long for 4,096 of them that other waits are told, too.
      await until(() => told.includes('slot'));
      stop.abort(new Error('enough'));
      for (const { status } of await Promise.allSettled(calls)) expect(status).toBe('rejected');
      await until(() => pair.near.stats().waits['given-up'] === 0);
      await Promise.all([pair.near.close(), pair.far.close()]);
    },
  );
});
