import { describe, expect, it } from 'vitest';
import { scoreOf } from '../../src/pool/rendezvous-hash.ts';

const memberOf = (key: string, members: readonly number[]): number =>
  members.toSorted((a, b) => scoreOf(key, b) - scoreOf(key, a))[0] as number;

describe('rendezvous hashing', () => {
  it('spreads keys evenly, and moves only those of a member that goes away', () => {
    const keys = Array.from({ length: 10_000 }, (_, at) => `key ${at}`);
    const all = [0, 1, 2, 3, 4, 5, 6, 7];
    const counts = new Array(8).fill(0);
    let moved = 0;
    for (const key of keys) {
      const member = memberOf(key, all);
      counts[member] += 1;
      const without = memberOf(
        key,
        all.filter((other) => other !== 3),
      );
      if (member === 3) moved += 1;
      else expect(without).toBe(member);
    }
    for (const count of counts) expect(Math.abs(count - 1_250)).toBeLessThan(150);
    expect(moved).toBe(counts[3]);
  });
});
