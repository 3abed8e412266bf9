// The instants of calls: shared between two looks at the clock on a lane that tells of its looks,
// and a look for each on other lanes.
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { MethodCounters } from '../../../src/rpc/counting/method-counters.ts';
import { Moments } from '../../../src/rpc/counting/moments.ts';
import { Random } from '../../support/random.ts';

function timed(isTold: boolean) {
  const time = { ms: 100, looks: 0 };
  const nowMs = (): number => {
    time.looks += 1;
    return time.ms;
  };
  const lane = { tellsTime: isTold, lookSoon: () => undefined };
  const moments = new Moments({ ...systemClock, nowMs }, lane);
  time.looks = 0;
  return { moments, time, counters: new MethodCounters('A.a', 1, true) };
}

describe('the instants of calls', () => {
  it('are those of the next look on a lane that tells, and the clock is not looked at', () => {
    const { moments, time, counters } = timed(true);
    const [first, second] = [moments.begin(), moments.begin()];
    expect(moments.needsLook(true)).toBe(true);
    moments.reach(110);
    expect(moments.needsLook(false)).toBe(false);
    moments.reach(115);
    moments.end(counters, first);
    expect(counters.latency.percentiles().count).toBe(0); // not known before the next look
    expect(moments.needsLook(true)).toBe(false); // the next turn will do
    expect(moments.needsLook(false)).toBe(true); // no turn is certain to come
    moments.reach(142);
    expect(counters.latency.percentiles()).toMatchObject({ count: 1, max: 32 });
    moments.reach(150);
    moments.end(counters, second);
    moments.reach(170);
    expect(counters.latency.percentiles()).toMatchObject({ count: 2, max: 60 });
    expect(time.looks).toBe(0);
  });

  it('of what arrives are those of the look before, which later looks do not move', () => {
    const { moments, counters } = timed(true);
    moments.reach(200);
    moments.reach(210);
    const begun = moments.arrive();
    moments.reach(220);
    const later = moments.arrive();
    moments.reach(230);
    moments.end(counters, later);
    moments.reach(231);
    expect(counters.latency.percentiles().max).toBe(11);
    moments.end(counters, begun);
    moments.reach(260);
    expect(counters.latency.percentiles()).toMatchObject({ count: 2, max: 50 });
  });

  it('of what is sent stay what they are when something arrives behind them', () => {
    const { moments, counters } = timed(true);
    const sent = moments.begin();
    moments.reach(120);
    const arrived = moments.arrive();
    expect(arrived).toBe(sent); // one instant, one place
    moments.end(counters, arrived);
    moments.reach(150);
    moments.reach(160);
    moments.end(counters, sent);
    moments.reach(161);
    expect(counters.latency.percentiles()).toMatchObject({ count: 2, max: 41 });
  });

  it('are looked at one by one on a lane that does not tell', () => {
    const { moments, time, counters } = timed(false);
    const begun = moments.begin();
    time.ms = 105;
    const arrived = moments.arrive();
    time.ms = 107;
    moments.end(counters, begun);
    expect(counters.latency.percentiles()).toMatchObject({ count: 1, max: 7 });
    moments.end(counters, arrived);
    expect(counters.latency.percentiles()).toMatchObject({ count: 2, max: 7 });
    expect(moments.needsLook(false)).toBe(false);
    expect(time.looks).toBe(4);
  });

  it('are looked at before the event loop goes on, by the lane or in its place', async () => {
    const time = { ms: 100, looks: 0 };
    const nowMs = (): number => {
      time.looks += 1;
      return time.ms;
    };
    const counters = new MethodCounters('A.a', 1, true);
    const own = new Moments({ ...systemClock, nowMs }, { tellsTime: true });
    const [first, second] = [own.begin(), own.begin()];
    time.ms = 105;
    await new Promise<void>((resolve) => process.nextTick(resolve));
    time.ms = 150; // what runs meanwhile counts
    for (const place of [first, second]) own.end(counters, place);
    await new Promise<void>((resolve) => process.nextTick(resolve));
    time.ms = 900;
    own.settle();
    expect(counters.latency.percentiles()).toMatchObject({ count: 2, max: 45 });
    expect(time.looks).toBe(3); // the first is its constructor's

    let asked = 0;
    const lookSoon = (): void => {
      asked += 1;
    };
    const told = new Moments({ ...systemClock, nowMs }, { tellsTime: true, lookSoon });
    const places = [told.begin(), told.begin()];
    expect(asked).toBe(1);
    told.reach(901);
    for (const place of places) told.end(counters, place);
    expect(asked).toBe(2);
  });

  it('of a call that ends before the next look: the clock is looked at', () => {
    const { moments, time, counters } = timed(true);
    const begun = moments.begin();
    time.ms = 104;
    moments.end(counters, begun);
    expect(time.looks).toBe(1);
    moments.reach(106);
    expect(counters.latency.percentiles()).toMatchObject({ count: 1, max: 2 });
  });

  it('are all counted: thousands that end between two looks, and those of settle()', () => {
    const { moments, time, counters } = timed(true);
    const other = new MethodCounters('A.b', 1, true);
    const begun = Array.from({ length: 10_001 }, () => moments.begin());
    const others = Array.from({ length: 10_000 }, () => moments.begin());
    moments.reach(101);
    time.ms = 103;
    for (const place of begun.splice(0, 5_000)) {
      moments.end(counters, place);
      moments.end(other, others.pop() as number); // by turns: each end is a run of its own
    }
    moments.reach(103);
    for (const place of begun.splice(0, 5_000)) moments.end(counters, place);
    moments.reach(103);
    expect(counters.latency.percentiles()).toMatchObject({ count: 10_000, max: 2 });
    expect(other.latency.percentiles()).toMatchObject({ count: 5_000, max: 2 });
    const { looks } = time;
    moments.end(counters, begun[0] as number);
    time.ms = 111;
    moments.settle();
    expect(counters.latency.percentiles()).toMatchObject({ count: 10_001, max: 10 });
    moments.settle();
    expect(time.looks).toBe(looks + 1);
  });

  it.each([1, 2, 3])('are right whatever the order, on either lane, with seed %i', (seed) => {
    const random = new Random(seed);
    for (const isTold of [true, false]) {
      const { moments, time, counters } = timed(isTold);
      const open: { place: number; since: number; isSent: boolean }[] = [];
      let expected = 0;
      for (let step = 0; step < 20_000; step += 1) {
        time.ms += random.next(5);
        const choice = random.next(4);
        if (choice === 0) moments.reach(time.ms);
        else if (choice === 1) {
          moments.reach(time.ms);
          open.push({ place: moments.arrive(), since: time.ms, isSent: false });
        } else if (choice === 2) {
          open.push({ place: moments.begin(), since: time.ms, isSent: true });
          moments.reach(time.ms);
        } else if (open.length > 0) {
          const [call] = open.splice(random.next(open.length), 1);
          const before = counters.latency.percentiles();
          moments.end(counters, call?.place as number);
          moments.reach(time.ms);
          const ms = time.ms - (call?.since as number);
          expected += 1;
          const after = counters.latency.percentiles();
          expect(after).toMatchObject({ count: expected, max: Math.max(before.max, ms) });
        }
      }
      expect(expected).toBeGreaterThan(3_000);
    }
  });
});
