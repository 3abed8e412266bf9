// The instants of calls: shared between two looks at the clock on a lane that tells of its looks,
// and a look for each on other lanes.
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { MethodCounters } from '../../../src/rpc/counting/method-counters.ts';
import { Moments, neverBegun } from '../../../src/rpc/counting/moments.ts';
import { Random } from '../../support/random.ts';

interface Begun {
  begun: number;
}

function timed(isTold: boolean, isAsked = true) {
  const time = { ms: 100, looks: 0 };
  const nowMs = (): number => {
    time.looks += 1;
    return time.ms;
  };
  const asked = { times: 0 };
  const lookSoon = (): void => {
    asked.times += 1;
  };
  const lane = { tellsTime: isTold, isAwake: isAsked, ...(isAsked && { lookSoon }) };
  const moments = new Moments({ ...systemClock, nowMs }, lane);
  time.looks = 0;
  const begin = (): Begun => {
    const call: Begun = { begun: neverBegun };
    moments.begin(call);
    return call;
  };
  return { moments, time, asked, lane, begin, counters: new MethodCounters('A.a', 1, true) };
}

describe('the instants of calls', () => {
  it('are those of one look for all calls that begin in one turn of the event loop', () => {
    const { moments, time, asked, lane, begin, counters } = timed(true);
    const first = begin();
    time.ms = 110;
    const second = begin();
    expect(asked.times).toBe(1); // so that it is known when the loop goes on
    expect([first.begun, second.begun]).toEqual([100, 100]);
    moments.goOn();
    expect(time.looks).toBe(1);
    expect(begin().begun).toBe(110);
    moments.reach(115);
    time.ms = 117;
    expect(begin().begun).toBe(117);
    expect(time.looks).toBe(3);
    moments.goOn();
    moments.end(counters, second.begun);
    expect(counters.latency.percentiles().count).toBe(0); // not known before the next look
    moments.goOn(); // the next turn will do
    expect(counters.latency.percentiles().count).toBe(0);
    moments.reach(142);
    moments.reach(150);
    expect(counters.latency.percentiles()).toMatchObject({ count: 1, max: 42 });
    expect(asked.times).toBe(3);
    lane.isAwake = false; // no turn is certain to come
    moments.end(counters, first.begun);
    expect(asked.times).toBe(4);
    time.ms = 170;
    moments.goOn();
    expect(counters.latency.percentiles()).toMatchObject({ count: 2, max: 70 });
    moments.goOn();
    expect(time.looks).toBe(4);
  });

  it('of an end are those of the look for a call that begins behind it', () => {
    const { moments, time, begin, counters } = timed(true);
    const { begun } = begin();
    moments.goOn();
    moments.end(counters, begun);
    time.ms = 103;
    begin();
    time.ms = 900; // the program blocks the event loop
    moments.goOn();
    expect(counters.latency.percentiles()).toMatchObject({ count: 1, max: 3 });
  });

  it('of an end are those of the look after it, though it is counted when the loop goes on', () => {
    const { moments, time, begin, counters } = timed(true);
    time.ms = 110;
    const [first, second, third] = [begin(), begin(), begin()];
    moments.goOn();
    moments.end(counters, first.begun);
    moments.reach(115);
    expect(counters.latency.percentiles().count).toBe(0); // the peer waits for our next call
    time.ms = 900;
    moments.goOn();
    expect(counters.latency.percentiles()).toMatchObject({ count: 1, max: 5 });
    moments.end(counters, second.begun);
    moments.reach(117);
    moments.end(counters, third.begun); // before the loop goes on
    expect(counters.latency.percentiles()).toMatchObject({ count: 2, max: 7 });
    moments.settle();
    expect(counters.latency.percentiles()).toMatchObject({ count: 3, max: 790 });
  });

  it('of an end are looked at soon where the lane has a turn, but no look behind it', async () => {
    const { moments, time, lane, begin, counters } = timed(true, false);
    const { begun } = begin();
    await new Promise<void>((resolve) => process.nextTick(resolve));
    lane.isAwake = true;
    moments.end(counters, begun);
    time.ms = 107;
    await new Promise<void>((resolve) => process.nextTick(resolve));
    time.ms = 60_000;
    moments.settle();
    expect(counters.latency.percentiles()).toMatchObject({ count: 1, max: 7 });
  });

  it('of what arrives are not moved by a call of ours that begins', () => {
    const { moments, time, begin } = timed(true);
    moments.reach(110);
    time.ms = 410;
    expect(begin().begun).toBe(410);
    expect(moments.arrive()).toBe(110);
    expect(moments.lastMs).toBe(110);
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
    moments.goOn();
    expect(counters.latency.percentiles().max).toBe(11);
    moments.end(counters, begun);
    moments.reach(260);
    moments.settle();
    expect(counters.latency.percentiles()).toMatchObject({ count: 2, max: 50 });
  });

  it('are looked at one by one on a lane that does not tell', () => {
    const { moments, time, begin, counters } = timed(false);
    const { begun } = begin();
    time.ms = 105;
    const arrived = moments.arrive();
    time.ms = 107;
    moments.end(counters, begun);
    expect(counters.latency.percentiles()).toMatchObject({ count: 1, max: 7 });
    moments.end(counters, arrived);
    expect(counters.latency.percentiles()).toMatchObject({ count: 2, max: 7 });
    expect(time.looks).toBe(4);
  });

  it('are looked at before the event loop goes on where the lane does not say so', async () => {
    const { moments, time, begin, counters } = timed(true, false);
    time.ms = 105;
    const calls = [begin(), begin()];
    await new Promise<void>((resolve) => process.nextTick(resolve));
    time.ms = 150; // what runs meanwhile counts
    for (const { begun } of calls) moments.end(counters, begun);
    await new Promise<void>((resolve) => process.nextTick(resolve));
    time.ms = 900;
    moments.settle();
    expect(counters.latency.percentiles()).toMatchObject({ count: 2, max: 45 });
    expect(time.looks).toBe(2);
  });

  it('of a call that ends in its turn: the next look says how long it took', () => {
    const { moments, time, begin, counters } = timed(true);
    const call = begin();
    moments.end(counters, call.begun);
    expect(counters.latency.percentiles().count).toBe(0);
    moments.reach(106);
    moments.goOn();
    expect(counters.latency.percentiles()).toMatchObject({ count: 1, max: 6 });
    expect(time.looks).toBe(1);
  });

  it('are all counted: thousands that end between two looks, and those of settle()', () => {
    const { moments, time, begin, counters } = timed(true);
    const other = new MethodCounters('A.b', 1, true);
    time.ms = 101;
    const begun = Array.from({ length: 10_001 }, begin);
    const others = Array.from({ length: 10_000 }, begin);
    expect(time.looks).toBe(1);
    moments.goOn();
    time.ms = 103;
    for (const call of begun.splice(0, 5_000)) {
      moments.end(counters, call.begun);
      moments.end(other, others.pop()?.begun as number); // by turns: each end is a run of its own
    }
    moments.reach(103);
    for (const call of begun.splice(0, 5_000)) moments.end(counters, call.begun);
    moments.reach(103);
    moments.goOn();
    expect(counters.latency.percentiles()).toMatchObject({ count: 10_000, max: 2 });
    expect(other.latency.percentiles()).toMatchObject({ count: 5_000, max: 2 });
    const { looks } = time;
    moments.end(counters, begun[0]?.begun as number);
    time.ms = 111;
    moments.settle();
    expect(counters.latency.percentiles()).toMatchObject({ count: 10_001, max: 10 });
    moments.settle();
    expect(time.looks).toBe(looks + 1);
  });

  it.each([1, 2, 3])('are right whatever the order, on either lane, with seed %i', (seed) => {
    const random = new Random(seed);
    for (const isTold of [true, false]) {
      const { moments, time, begin, counters } = timed(isTold);
      const open: { call: { begun: number }; since: number }[] = [];
      let expected = 0;
      for (let step = 0; step < 20_000; step += 1) {
        time.ms += random.next(5);
        const choice = random.next(4);
        if (choice === 0) moments.reach(time.ms);
        else if (choice === 1) {
          moments.reach(time.ms);
          open.push({ call: { begun: moments.arrive() }, since: time.ms });
        } else if (choice === 2) {
          open.push({ call: begin(), since: time.ms });
          moments.reach(time.ms);
        } else if (open.length > 0) {
          const [ended] = open.splice(random.next(open.length), 1);
          const before = counters.latency.percentiles();
          moments.end(counters, ended?.call.begun as number);
          moments.reach(time.ms);
          moments.goOn();
          const ms = time.ms - (ended?.since as number);
          expected += 1;
          const after = counters.latency.percentiles();
          expect(after).toMatchObject({ count: expected, max: Math.max(before.max, ms) });
        }
      }
      expect(expected).toBeGreaterThan(3_000);
    }
  });
});
