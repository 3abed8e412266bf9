// Notifications: in order, never dropped, and their handlers may notify back.
import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import { notification, service } from '../../src/rpc/contract/service.ts';
import { defer, turns, until } from '../support/contract.ts';
import { lanes } from '../support/pairs.ts';
import { Random } from '../support/random.ts';

const Line = service('Line', {
  say: notification<string>(),
  heard: notification<string>(),
});

describe.each(lanes)('notifications over the $lane', ({ openPair }) => {
  it('F4 whose handlers notify back come through from both sides', async () => {
    await using pair = await openPair();
    const count = 6000;
    const heard = { near: 0, far: 0 };
    for (const [side, session] of [
      ['near', pair.near],
      ['far', pair.far],
    ] as const) {
      session.serve(Line, {
        say: async (text) => session.client(Line).heard(text),
        heard: () => {
          heard[side] += 1;
        },
      });
    }
    const text = 'x'.repeat(100);
    const sent = [pair.near, pair.far].flatMap((session) =>
      Array.from({ length: count }, () => session.client(Line).say(text)),
    );
    await Promise.all(sent);
    await until(() => heard.near === count && heard.far === count);
    expect(pair.near.stats().waits['notification-window']).toBe(0);
  });

  it('F3 by handlers of notifications wait in the end, and are named', async () => {
    const events: SidecallEvent[] = [];
    await using pair = await openPair({
      far: { streamWindowBytes: 16_384 },
      onFarEvent: (event) => events.push(event),
    });
    const gate = defer();
    pair.near.serve(Line, { say: () => undefined, heard: () => gate.promise });
    let waiting = 0;
    pair.far.serve(Line, {
      say: async () => {
        for (let at = 0; at < 5000; at += 1) {
          waiting += 1;
          await pair.far.client(Line).heard('x');
        }
      },
      heard: () => undefined,
    });
    await pair.near.client(Line).say('go');
    await until(() => pair.far.stats().waits['notification-window'] > 240);
    const before = waiting;
    await turns(10);
    expect(waiting).toBe(before); // the handler waits: what its replies may take is bounded
    gate.resolve();
    await until(() => waiting === 5000);
  });

  it('F9 that were reported as sent are handled, also where the receiver closes', async () => {
    const events: SidecallEvent[] = [];
    const pair = await openPair({ onNearEvent: (event) => events.push(event) });
    let handled = 0;
    pair.far.serve(Line, {
      say: async () => {
        await turns(1);
        handled += 1;
      },
      heard: () => undefined,
    });
    let reported = 0;
    const sending = Array.from({ length: 1580 }, () =>
      pair.near
        .client(Line)
        .say('x'.repeat(500))
        .then(
          () => {
            reported += 1;
          },
          (error) => expect(error).toMatchObject({ delivered: 'no' }),
        ),
    );
    await until(() => handled > 0);
    await Promise.all([pair.far.close({ deadlineMs: 60_000 }), ...sending]);
    expect(reported).toBeGreaterThan(100);
    expect(handled).toBe(reported);
    expect(events).toEqual([]);
    await pair.near.close();
  });

  it('F9 that were reported as sent are handled, whenever either side closes', async () => {
    const random = Random.fromEnvironment();
    console.log(`closes: SIDECALL_SEED=${random.seed}`);
    for (let round = 0; round < 200; round += 1) {
      const { reported, handled } = await closeAtRandom(random, openPair);
      expect(handled, `SIDECALL_SEED=${random.seed}, round ${round}`).toBe(reported);
    }
  });
});

/** One side sends, and one of them closes meanwhile. What was sent, and what came of it. */
async function closeAtRandom(
  random: Random,
  openPair: (typeof lanes)[number]['openPair'],
): Promise<{ reported: number; handled: number }> {
  await using pair = await openPair();
  let handled = 0;
  pair.far.serve(Line, {
    say: async () => {
      if (random.chance(30)) await turns(1);
      handled += 1;
    },
    heard: () => undefined,
  });
  const line = pair.near.client(Line);
  const count = random.next(40);
  const closesAt = random.next(41);
  const text = 'x'.repeat(random.pick([10, 10, 5_000, 70_000]));
  const closing = random.pick([pair.near, pair.far]);
  let reported = 0;
  const sending: Promise<void>[] = [];
  let closed: Promise<void> | undefined;
  for (let at = 0; at < count; at += 1) {
    if (at === closesAt) closed = closing.close({ deadlineMs: 60_000 });
    const sent = line.say(text).then(
      () => {
        reported += 1;
      },
      (error) => expect(error).toMatchObject({ delivered: 'no' }),
    );
    sending.push(sent);
    if (random.chance(30)) await sent;
  }
  await (closed ?? closing.close({ deadlineMs: 60_000 }));
  await Promise.all(sending);
  await Promise.all([pair.near.closed, pair.far.closed]);
  return { reported, handled };
}

it('F3 a reply that waits for half a minute behind others is refused, with words', async () => {
  const [{ openPair }] = lanes as [(typeof lanes)[number]];
  await using pair = await openPair({ far: { streamWindowBytes: 16_384 } });
  const gate = defer();
  pair.near.serve(Line, { say: () => undefined, heard: () => gate.promise });
  const outcome = defer<{ code: string; delivered: string; message: string }>();
  pair.far.serve(Line, {
    say: async () => {
      for (;;) {
        try {
          await pair.far.client(Line).heard('x'.repeat(1_000));
        } catch (error) {
          return outcome.resolve(error as never);
        }
      }
    },
    heard: () => undefined,
  });
  await pair.near.client(Line).say('go');
  expect(await outcome.promise).toMatchObject({
    code: 'ERR_SIDECALL_LIMIT_BYTES',
    delivered: 'no',
    message: expect.stringContaining('both sides may be waiting for each other'),
  });
  gate.resolve();
});
