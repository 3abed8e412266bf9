// Random honest programs on both sides of a session: all acts settle, no message is refused, lost
// or cut off, and with all acts settled every counter has its initial value. A run
// prints its seed; SIDECALL_SEED=… replays it.
import { describe, expect, it } from 'vitest';
import type { SidecallEvent } from '../../src/base/events.ts';
import { checkLimits, type SessionLimits } from '../../src/base/limits/option-limits.ts';
import type { Session } from '../../src/rpc/session/session.ts';
import { turns, until } from '../support/contract.ts';
import { HonestSide } from '../support/honest.ts';
import { lanes, openRingPair, type PairOptions } from '../support/pairs.ts';
import { Random } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';

const seconds = rounds(30, 1);

const narrow = {
  receiveMaxBytes: 262_144,
  streamWindowBytes: 16_384,
  sessionWindowBytes: 557_056,
  sendQueueMaxBytes: 65_536,
};

/** Limits of a session, and whether handlers may call back with them. */
function limitsOf(random: Random): { limits: Partial<SessionLimits>; mayRelay: boolean } {
  const manner = random.next(4);
  if (manner === 0) return { limits: {}, mayRelay: true };
  if (manner === 1) return { limits: narrow, mayRelay: true };
  if (manner === 2)
    return { limits: { streamsMax: 16, sendQueueMaxBytes: 65_536 }, mayRelay: false };
  return { limits: { ...narrow, streamsMax: 1 + random.next(4) }, mayRelay: false };
}

const smallRings = {
  lane: 'ring of 64 KiB',
  openPair: ({ near, far, onNearEvent, onFarEvent }: PairOptions = {}) => {
    const small = { ringBytes: 65_536, blockAreaBytes: 1_048_576 };
    return openRingPair(
      { ...small, limits: near, onEvent: onNearEvent },
      { ...small, limits: far, onEvent: onFarEvent },
    );
  },
};

function isAtRest(session: Session): boolean {
  const { calls, handlers, queuedBytes, blocks, leases, waits, windows } = session.stats();
  const counts = [
    calls.open,
    calls.waiting,
    handlers.running,
    queuedBytes,
    blocks.inUse,
    leases.held,
  ];
  const held = Object.values(windows).map((window) => window.held);
  return [...counts, ...held, ...Object.values(waits)].every((count) => count === 0);
}

/**
 * Credit comes back: what the other side owes is less than a quarter of a window, until it is
 * granted.
 */
function hasCredit(session: Session, limits: Partial<SessionLimits>): boolean {
  const { sessionWindowBytes, streamWindowBytes } = checkLimits(limits);
  return Object.entries(session.stats().windows).every(([name, { left }]) => {
    const size = name === 'notifications' ? streamWindowBytes : sessionWindowBytes;
    return left <= size && left > (size * 3) / 4 - 1;
  });
}

describe.each([...lanes, smallRings])('honest programs over the $lane', ({ lane, openPair }) => {
  it.each([false, true])(
    'harm nobody and are not harmed (closed in the middle: %s)',
    async (closes) => {
      const first = Random.fromEnvironment();
      console.log(`SIDECALL_SEED=${first.seed} (${lane})`);
      const end = performance.now() + seconds * 1000;
      let made = 0;
      do {
        await round(new Random(first.seed + made), closes, openPair);
        made += 1;
      } while (performance.now() < end && !process.env.SIDECALL_SEED);
      console.log(`${made} rounds`);
    },
    (seconds + 600) * 1000,
  );
});

async function round(
  random: Random,
  closes: boolean,
  openPair: (typeof lanes)[number]['openPair'],
): Promise<void> {
  const { limits, mayRelay } = limitsOf(random);
  const bad: string[] = [];
  let lateNotes = 0;
  const onEvent = (event: SidecallEvent): void => {
    // A notification whose own time has passed was not handled, and says so.
    if (event.type === 'notification-failed' && event.error.code.endsWith('DEADLINE_EXCEEDED')) {
      lateNotes += 1;
    } else bad.push(`${event.type} ${event.error.message}`);
  };
  const pair = await openPair({
    near: limits,
    far: limits,
    onNearEvent: onEvent,
    onFarEvent: onEvent,
  });
  // A handler that calls back while its session is closed is refused, and fails its own caller.
  const relays = mayRelay && !closes;
  const sides = [pair.near, pair.far].map((each) => new HonestSide(random, each, relays));
  const [near, far] = sides as [HonestSide, HonestSide];
  const atOnce = 1 + random.next(40);
  const words = `seed ${random.seed}`;
  for (let act = 50 + random.next(150); act > 0; act -= 1) {
    random.pick(sides).act();
    await until(() => near.running.size + far.running.size < atOnce);
    if (random.chance(20)) await turns(random.next(3));
  }
  if (closes) {
    near.isClosing = true;
    far.isClosing = true;
    const both = random.pick([[pair.near], [pair.far], [pair.near, pair.far]]);
    // Long enough for whatever was begun: an orderly close cuts nothing off.
    await Promise.all(both.map((session) => session.close({ deadlineMs: 60_000 })));
    await Promise.all([pair.near.closed, pair.far.closed]);
  }
  await until(() => near.running.size + far.running.size === 0);
  await until(() => isAtRest(pair.near) && isAtRest(pair.far));
  if (!closes) {
    expect([pair.near.state, pair.far.state], words).toEqual(['open', 'open']);
    // Frames of credit may be under way.
    await until(() => hasCredit(pair.near, limits) && hasCredit(pair.far, limits));
  }
  expect([...near.surprises, ...far.surprises, ...bad], words).toEqual([]);
  const lost =
    near.notes.sent - far.notes.handled + far.notes.sent - near.notes.handled - lateNotes;
  expect(lost, `${words}: notifications that were reported as sent`).toBeLessThanOrEqual(0);
  await Promise.all([pair.near.close({ deadlineMs: 2000 }), pair.far.close({ deadlineMs: 2000 })]);
}
