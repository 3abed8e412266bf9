// A call's deadline is set by its caller: time in transfer counts, and it ends with the call.
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { bytes } from '../../src/rpc/contract/codec.ts';
import { PeerClock, sentNow } from '../../src/rpc/peer-clock.ts';
import { Demo, defer, demoHandlers, turns, until } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';
import { SteeredClock } from '../support/steered-clock.ts';

/** No other code of this thread runs meanwhile: a loop that stands still. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

describe.each(lanes)('deadlines over the $lane', ({ openPair }) => {
  it('F7 of a call do not reach what its handler leaves behind', async () => {
    using clock = new SteeredClock();
    await using pair = await openPair();
    const polled = defer<unknown>();
    const passed = defer();
    const gone = defer();
    pair.near.serve(Demo, demoHandlers({ hang: () => gone.promise }));
    pair.far.serve(
      Demo,
      demoHandlers({
        same: () => {
          // A poller that is begun here lives on.
          void (async () => {
            await passed.promise;
            polled.resolve(await pair.far.client(Demo).add({ a: 1, b: 2 }));
          })().catch(polled.reject);
          return 'started';
        },
      }),
    );
    expect(await pair.near.client(Demo).same('x', { timeoutMs: 60_000 })).toBe('started');
    clock.advance(60_000);
    passed.resolve();
    expect(await polled.promise).toEqual({ sum: 3 });
    gone.resolve();
  });

  it('F7 of a handler end its calls, unless they say that they have none; channels and services never', async () => {
    using clock = new SteeredClock();
    await using pair = await openPair();
    const gate = defer();
    const seen: string[] = [];
    const accepted = pair.near.channels(bytes, { name: 'kept' });
    pair.near.serve(
      Demo,
      demoHandlers({
        same: async (value, ctx) => {
          seen.push(`${value} ${ctx.deadline === undefined ? 'without end' : 'with a deadline'}`);
          return gate.promise;
        },
      }),
    );
    const outcomes = defer<unknown[]>();
    pair.far.serve(
      Demo,
      demoHandlers({
        same: async () => {
          const demo = pair.far.client(Demo);
          const channel = pair.far.openChannel(bytes, { name: 'kept' });
          const bounded = demo.same('bounded', { timeoutMs: 60_000 });
          const free = demo.same('free', { timeoutMs: 'none' });
          const inherited = await bounded.catch((error) => error.code);
          await channel.send(Buffer.from('still open'));
          gate.resolve();
          outcomes.resolve([inherited, String(await free)]);
        },
      }),
    );
    const call = pair.near.client(Demo).same('x', { timeoutMs: 30_000 });
    const rejected = expect(call).rejects.toMatchObject({ code: 'ERR_SIDECALL_DEADLINE_EXCEEDED' });
    await until(() => seen.length === 2);
    clock.advance(30_000);
    await rejected;
    expect(await outcomes.promise).toEqual(['ERR_SIDECALL_DEADLINE_EXCEEDED', 'undefined']);
    expect(seen).toEqual(['bounded with a deadline', 'free without end']);
    const { value: kept } = await accepted.next();
    expect((await kept?.next())?.value).toHaveLength(10);
    await accepted.return?.();
    kept?.cancel();
  });

  it('F7 that passed while the receiver stood still start nothing', async () => {
    await using pair = await openPair();
    let started = 0;
    pair.far.serve(
      Demo,
      demoHandlers({
        add: () => {
          started += 1;
          return { sum: 0 };
        },
      }),
    );
    await pair.near.client(Demo).add({ a: 0, b: 0 });
    started = 0;
    const calls = Array.from({ length: 100 }, () =>
      pair.near.client(Demo).add({ a: 1, b: 1 }, { timeoutMs: 100 }),
    );
    const settled = Promise.allSettled(calls);
    await Promise.resolve(); // what is written in this turn leaves
    process.nextTick(() => block(300));
    for (const outcome of await settled) expect(outcome.status).toBe('rejected');
    await turns(20);
    expect(started).toBe(0);
  });
});

describe("the peer's clock", () => {
  it('counts the time under way, and takes no harm from another time namespace', () => {
    const stopped = { ...systemClock, machineMs: () => 7_000_000 };
    const clock = new PeerClock(stopped);
    expect(clock.underWayMs(sentNow(stopped))).toBe(0); // nothing is known yet
    const ahead = (ms: number): number => (sentNow(stopped) + ms) >>> 0;
    clock.onClock(ahead(1_000_000));
    expect(clock.underWayMs(ahead(1_000_000))).toBe(0);
    expect(clock.underWayMs(ahead(1_000_000 - 700))).toBeGreaterThanOrEqual(700);
    // The first frame itself was late: the least difference counts.
    const late = new PeerClock(stopped);
    late.onClock(ahead(-5_000));
    expect(late.underWayMs(ahead(-4_000))).toBe(0);
    expect(late.underWayMs(ahead(0))).toBe(0);
    expect(late.underWayMs(ahead(-300))).toBeGreaterThanOrEqual(300);
    expect(late.underWayMs(0)).toBe(0);
  });
});

it('F6 a session whose calls expire in the queue stays open', async () => {
  const [{ openPair }] = lanes as [(typeof lanes)[number]];
  await using pair = await openPair();
  pair.far.serve(Demo, demoHandlers());
  const calls = Array.from({ length: 10 }, () =>
    pair.near.client(Demo).hang(undefined, { timeoutMs: 1 }),
  );
  await Promise.allSettled(calls);
  await until(() => pair.near.stats().waits['given-up'] === 0);
  expect(pair.near.state).toBe('open');
});
