import { describe, expect, it } from 'vitest';
import { tuning } from '../../src/base/limits/internal-limits.ts';
import { systemLoop } from '../../src/loop/event-loop.ts';
import type { Polled } from '../../src/loop/poller.ts';
import { turns } from '../support/contract.ts';

/** Rests after so many turns; `serve` may be given something to do. */
class FakeRing implements Polled {
  isAwake = false;
  owner = 1;
  served = 0;
  readonly wasAlone: boolean[] = [];
  readonly maxMs: number[] = [];
  readonly #turns: number;
  readonly #onServe: (ring: FakeRing) => void;

  constructor(turnsMax: number, onServe: (ring: FakeRing) => void = () => undefined) {
    this.#turns = turnsMax;
    this.#onServe = onServe;
  }

  serve(maxMs: number, isAlone: boolean): void {
    this.served += 1;
    this.maxMs.push(maxMs);
    this.wasAlone.push(isAlone);
    this.#onServe(this);
  }

  rest(): boolean {
    return this.served >= this.#turns;
  }
}

function busy(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

describe('the poller', () => {
  it('serves a ring once a turn until it rests, and then schedules nothing', async () => {
    const ring = new FakeRing(3);
    systemLoop.poller.activate(ring);
    systemLoop.poller.activate(ring); // twice is once
    expect(ring.served).toBe(0);
    await turns(10);
    expect(ring.served).toBe(3);
    expect(ring.isAwake).toBe(false);
    expect(process.getActiveResourcesInfo()).not.toContain('Immediate');
  });

  it('says who is alone: only that one may take its time', async () => {
    const long = new FakeRing(4);
    const short = new FakeRing(2);
    [long, short].forEach((ring) => systemLoop.poller.activate(ring));
    await turns(10);
    expect(short.wasAlone).toEqual([false, false]);
    expect(long.wasAlone).toEqual([false, false, true, true]);
  });

  it('gives each what the others have left of the turn, and never nothing', async () => {
    const spentMs = tuning.pollTurnMaxMs * 0.2;
    let isSameTurn = false;
    let wasSameTurn = false;
    const long = new FakeRing(1, () => {
      isSameTurn = true;
      setImmediate(() => {
        isSameTurn = false;
      });
      busy(spentMs);
    });
    const short = new FakeRing(1, () => {
      wasSameTurn = isSameTurn;
    });
    [long, short].forEach((ring) => systemLoop.poller.activate(ring));
    await turns(10);
    expect(long.maxMs).toEqual([tuning.drainMaxMs]);
    // In a turn of its own, if the machine held up the first one beyond the end of the turn.
    const most = wasSameTurn ? tuning.pollTurnMaxMs - spentMs : tuning.drainMaxMs;
    expect(short.maxMs[0]).toBeLessThanOrEqual(most);
    expect(short.maxMs[0]).toBeGreaterThanOrEqual(tuning.drainLeastMs);
  });

  it('serves all that are awake, each as often', async () => {
    const rings = Array.from({ length: 7 }, () => new FakeRing(20));
    rings.forEach((ring) => systemLoop.poller.activate(ring));
    while (rings.some(({ isAwake }) => isAwake)) await turns();
    expect(rings.map(({ served }) => served)).toEqual(rings.map(() => 20));
  });

  it('lets a ring be ended and another begin while it serves', async () => {
    const late = new FakeRing(2);
    const victim = new FakeRing(100);
    const killer = new FakeRing(2, () => {
      systemLoop.poller.deactivate(victim);
      systemLoop.poller.activate(late);
    });
    [killer, victim].forEach((ring) => systemLoop.poller.activate(ring));
    await turns(20);
    expect(victim.served).toBeLessThan(2);
    expect([killer.served, late.served]).toEqual([2, 2]);
    expect([killer, victim, late].some(({ isAwake }) => isAwake)).toBe(false);
  });

  it('shares a turn that takes too long: nobody is left out', async () => {
    const order: number[] = [];
    const slowMs = tuning.pollTurnMaxMs + 1;
    const rings = Array.from(
      { length: 5 },
      (_, at) =>
        new FakeRing(4, () => {
          order.push(at);
          busy(slowMs);
        }),
    );
    rings.forEach((ring) => systemLoop.poller.activate(ring));
    let loopTurns = 0;
    const count = setInterval(() => {
      loopTurns += 1;
    }, 0);
    while (rings.some(({ isAwake }) => isAwake)) await turns();
    clearInterval(count);
    expect(rings.map(({ served }) => served)).toEqual([4, 4, 4, 4, 4]);
    // One slow ring a turn: between two of them the rest of the loop had its turn.
    expect(loopTurns).toBeGreaterThanOrEqual(15);
    expect(new Set(order.slice(0, 5)).size).toBe(5);
  });

  it('serves the one ring of a process in every turn or every second, however many another has', async () => {
    const slowMs = tuning.pollTurnMaxMs / 2;
    const theirs = Array.from({ length: 50 }, () => new FakeRing(2, () => busy(slowMs)));
    const single = new FakeRing(1_000);
    single.owner = 2;
    [...theirs, single].forEach((ring) => systemLoop.poller.activate(ring));
    const shares: number[] = [];
    for (let before = 0; theirs.some(({ isAwake }) => isAwake); before = single.served) {
      await turns();
      shares.push(single.served - before);
    }
    systemLoop.poller.deactivate(single);
    systemLoop.poller.deactivate(single);
    expect(shares.length).toBeGreaterThan(30);
    // Where one of theirs takes all of a turn, the next turn begins with the single one. The first
    // turn does not know yet that there is no time for all.
    for (let at = 2; at < shares.length; at += 1) {
      expect((shares[at - 1] as number) + (shares[at] as number)).toBeGreaterThan(0);
    }
    expect(theirs.map(({ served }) => served)).toEqual(theirs.map(() => 2));
  });
});
